"""Bugs of private training that occurred in other programs, each as a function that plants it by monkeypatching.

BUGS names, for each bug, the check of a replay (`dpcli audit`) that must find it, and the entry of the training file for which it is
planted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pytest
import torch

from dpcli.random import streams as randomness
from dpcli.train.engine import sums
from dpcli.train.engine.sums import Sums
from dpcli.train.noise import Noise
from dpcli.train.step import loop, prepare
from tests.audit import noises
from tests.cases import fresh_random
from tests.train.entries import MAIN

RARE = MAIN.replace("batch_size = 50", "rate = 0.001").replace("steps = 20", "steps = 40")


@dataclass
class Given:
    """Noise of one step that is given."""

    drawn_std: float
    values: np.ndarray

    def parts(self, count: int) -> Iterator[np.ndarray]:
        return iter((self.values,))


def with_noise(patch: pytest.MonkeyPatch, drawn: Callable[[Noise, Mapping[str, torch.Size]], Mapping[str, torch.Tensor]]) -> None:
    """Let every step add the noise that a function returns, given the right noise and the shapes of the parameters."""
    real = loop.add_noise

    def add(sums: Mapping[str, torch.Tensor], noise: Noise, scale: float = 1.0) -> None:
        values = drawn(noise, {name: value.shape for name, value in sums.items()})
        flat = np.concatenate([values[name].double().numpy().ravel() for name in sums])
        real(sums, Given(noise.drawn_std, flat), scale)  # type: ignore[arg-type]

    patch.setattr(loop, "add_noise", add)


def no_noise(patch: pytest.MonkeyPatch) -> None:
    with_noise(patch, lambda noise, shapes: {name: torch.zeros(shape) for name, shape in shapes.items()})


def scaled(factor: float) -> Callable[[pytest.MonkeyPatch], None]:
    def plant(patch: pytest.MonkeyPatch) -> None:
        real = prepare.noise_of
        patch.setattr(prepare, "noise_of", lambda spec, bound, stream: real(spec, factor * bound, stream))

    return plant


def drawn_once(patch: pytest.MonkeyPatch) -> None:
    kept: dict[int, Mapping[str, torch.Tensor]] = {}
    with_noise(patch, lambda noise, shapes: kept.setdefault(id(noise), noise.next(shapes)))


def fixed_seed(patch: pytest.MonkeyPatch) -> None:
    real = randomness.SeededStream.__init__
    patch.setattr(randomness.SeededStream, "__init__", lambda self, seed, *path: real(self, 0, *path))


def no_clip(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("dpcli.train.engine.clip.Flat.factors", lambda self, norms: torch.ones_like(norms))


def clip_per_batch(patch: pytest.MonkeyPatch) -> None:
    """Clip the sum and not each record's gradient, so that a record changes the contribution of all others."""
    real = sums.clipped_sums

    def clipped(parts, clip, parameters) -> Sums:
        class Unclipped(type(clip)):
            def factors(self, norms):
                return torch.ones_like(norms)

        unclipped = real(parts, Unclipped(1e9), parameters)
        length = sum(float(value.square().sum()) for value in unclipped.gradients.values()) ** 0.5
        scale = 3.0 * clip.bound / max(length, 1e-9)
        return Sums({name: value * scale for name, value in unclipped.gradients.items()}, unclipped.norms, unclipped.finite)

    patch.setattr("dpcli.train.engine.per_example.clipped_sums", clipped)


def nan_passed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(torch.Tensor, "isfinite", lambda self: torch.ones_like(self, dtype=torch.bool))


def empty_skipped(patch: pytest.MonkeyPatch) -> None:
    backward, apply, empty = loop.Trainer.backward, loop.Trainer.apply, [False]

    def skipping(self: loop.Trainer, batch: torch.Tensor, *rest: object) -> None:
        empty[0] = not len(batch)
        if len(batch):
            backward(self, batch, *rest)  # type: ignore[arg-type]

    patch.setattr(loop.Trainer, "backward", skipping)
    patch.setattr(loop.Trainer, "apply", lambda self: None if empty[0] else apply(self))


def shuffled(patch: pytest.MonkeyPatch) -> None:
    def sampler(scheme, size, stream, count):
        order = np.random.default_rng(int(stream.words(1)[0])).permutation(count)
        return iter(np.array_split(order, count // 50) * 10)

    patch.setattr(prepare, "sampler", sampler)


def drawn_twice_as_often(patch: pytest.MonkeyPatch) -> None:
    real = prepare.sampler

    def sampler(scheme, size, stream, count):
        return (np.union1d(one, other) for one, other in zip(*(real(scheme, size, stream, count) for _ in range(2)), strict=True))

    patch.setattr(prepare, "sampler", sampler)


def drawn_more_often(patch: pytest.MonkeyPatch) -> None:
    """Add another record to the batch for each of its records, with probability 0.3."""
    real, chance = prepare.sampler, np.random.default_rng(fresh_random().getrandbits(32))

    def sampler(scheme, size, stream, count):
        for batch in real(scheme, size, stream, count):
            others = np.setdiff1d(np.arange(count), batch)
            yield np.union1d(batch, chance.choice(others, min(len(others), chance.binomial(len(batch), 0.3)), replace=False))

    patch.setattr(prepare, "sampler", sampler)


def noise_by_batch(patch: pytest.MonkeyPatch) -> None:
    """Scale the noise by the number of records drawn, over the expected number."""
    drawn, backward = [1], loop.Trainer.backward

    def noted(self: loop.Trainer, batch: torch.Tensor, *rest: object) -> None:
        drawn[0] = max(1, len(batch))
        backward(self, batch, *rest)  # type: ignore[arg-type]

    patch.setattr(loop.Trainer, "backward", noted)
    with_noise(patch, lambda noise, shapes: {name: value * drawn[0] / 50.0 for name, value in noise.next(shapes).items()})


def changed(change: Callable[[str, torch.Tensor, int], torch.Tensor]) -> Callable[[pytest.MonkeyPatch], None]:
    """Return a bug that changes noise of standard deviation 1, by a function of the tensor's name, the noise and the number of the step."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        steps: dict[int, int] = {}

        def drawn(noise: Noise, shapes: Mapping[str, torch.Size]) -> Mapping[str, torch.Tensor]:
            steps[id(noise)] = steps.get(id(noise), -1) + 1
            return {name: change(name, value / 2.0, steps[id(noise)]) * 2.0 for name, value in noise.next(shapes).items()}

        with_noise(patch, drawn)

    return plant


NO_NOISE_ON_THE_BIAS = changed(lambda name, z, step: z * (not name.endswith("bias")))
NOISES = {  # one for each check that is about them; tests/audit/test_replay.py has more, without a model
    "no noise on the bias": (lambda name, z, step: z * (not name.endswith("bias")), noises.SIZE),
    "noise in bfloat16": (lambda name, z, step: z.bfloat16().float(), noises.PRECISION),
    "noise that fades": (lambda name, z, step: z * 0.97**step, noises.TIME),
}
BUGS = {
    **{name: (changed(change), check, MAIN) for name, (change, check) in NOISES.items()},
    "no noise": (no_noise, "size of the noise", MAIN),
    "noise/2": (scaled(0.5), "size of the noise", MAIN),
    "noise drawn once": (drawn_once, "new noise in every step", MAIN),
    "fixed seed": (fixed_seed, "new noise in every run", MAIN),
    "noise by the records drawn": (noise_by_batch, noises.TIME, MAIN),
    "records drawn twice as often": (drawn_twice_as_often, "records drawn as often as declared", MAIN),
    "no clip": (no_clip, "sensitivity of the sums", MAIN),
    "clip per batch": (clip_per_batch, "sensitivity of the sums", MAIN),
    "nan passed through": (nan_passed, "finite sums", MAIN),
    "empty batch skipped": (empty_skipped, "number of steps", RARE),
    "shuffle declared as poisson": (shuffled, "batches drawn by Poisson sampling", MAIN),
}

"""The training of a file, laid open for a replay audit: the same draws with one record and without it, step by step.

Without the record, every step starts from the weights that the run with it released: what is compared is one release, given all before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor
from torch.utils._pytree import tree_map

from dpcli.audit.replay import Declared, Step
from dpcli.mechanisms.sampling import Poisson
from dpcli.train.engine.batches import Batch
from dpcli.train.plan import Plan, plan_of
from dpcli.train.prepare import Prepared, prepare
from dpcli.train.randomness import insecure_seed
from dpcli.train.ranks import Alone, T

if TYPE_CHECKING:
    from dpcli.train.sampling_draws import Indices

STEPS = 40  # of one replay, at most

Worlds = tuple[tuple[Step, ...], tuple[Step, ...]]


def replays(path: str) -> tuple[Declared, Callable[[int, np.random.Generator], Worlds]]:
    """What the file's first stage claims, and how to replay it: (index, generator) -> steps with the record, and without.

    Sums and noise are in units of C. One record in three is as it is, one a million times as large, one not a number.

    Raises:
        InputError: the file cannot be trained.
    """
    plan = plan_of(path)
    stage = plan.stages[0]
    declared = Declared(
        sensitivity=1.0, noise=stage.noise_multiplier, exchanged=1, rate=_rate(plan), fresh=not hasattr(stage.spec, "iterations")
    )
    return declared, lambda index, rng: _worlds(plan, index, rng)


def _rate(plan: Plan) -> float | None:
    """Of Poisson sampling without a largest batch."""
    sampling = plan.stages[0].entry.sampling
    if not isinstance(sampling, Poisson) or sampling.max_batch_size is not None:
        return None
    return plan.stages[0].expected_batch / plan.size


def _worlds(plan: Plan, index: int, rng: np.random.Generator) -> Worlds:
    seed = int(rng.integers(2**62))
    batches = _batches(plan, seed)
    drawn = np.concatenate(batches)
    record = int(rng.choice(drawn)) if len(drawn) else 0
    change = CHANGES[index % len(CHANGES)]
    left = _Recorder()
    _run(plan, seed, left, batches, record, change)
    right = _Recorder(left.released)
    _run(plan, seed, right, [batch[batch != record] for batch in batches], record, change)
    return tuple(left.steps), tuple(right.steps)


def _prepared(plan: Plan, seed: int, ranks: Alone) -> Prepared:
    return prepare(replace(plan, canaries=0), insecure_seed(seed), ranks, None, "")


def _batches(plan: Plan, seed: int) -> list[Indices]:
    stage, prepared = plan.stages[0], _prepared(plan, seed, Alone())
    return list(islice(prepared.batches(stage), min(stage.steps, STEPS)))


def _run(
    plan: Plan, seed: int, recorder: _Recorder, batches: list[Indices], record: int, change: Callable[[Tensor], Tensor]
) -> None:
    prepared, stage = _prepared(plan, seed, recorder), plan.stages[0]
    trainer = prepared.trainer
    trainer.records = _changed(trainer.records, record, change)
    recorder.bound = lambda: trainer.gradients.clip.bound
    trainer.advance(len(batches), recorder.seen(iter(batches)), prepared.noise(stage), stage.expected_batch, lambda step: None)


@dataclass(slots=True)
class _Recorder(Alone):
    """One process that keeps what it sees; `follow`: what another run released, which is released here too."""

    follow: list[object] | None = None
    released: list[object] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    batch: Indices = field(default_factory=lambda: np.empty(0, np.int64))
    sums: dict[str, np.ndarray] = field(default_factory=dict)
    bound: Callable[[], float] = lambda: 1.0

    def seen(self, batches: Iterator[Indices]) -> Iterator[Indices]:
        for self.batch in batches:
            yield self.batch

    def summed(self, sums: Mapping[str, Tensor]) -> dict[str, Tensor]:
        self.sums = {name: value.double().cpu().numpy() / self.bound() for name, value in sums.items()}
        return dict(sums)

    def spread(self, values: dict[str, Tensor]) -> dict[str, Tensor]:
        if not self.sums:  # the weights at the start
            return values
        noise = {name: value.double().cpu().numpy() / self.bound() - self.sums[name] for name, value in values.items()}
        self.steps.append(Step(self.sums, self.batch.tolist(), noise))
        self.sums = {}
        found: dict[str, Tensor] = self._again({name: value.clone() for name, value in values.items()})
        return {name: value.clone() for name, value in found.items()}

    def same(self, value: T | None) -> T:
        assert value is not None
        return self._again(value) if isinstance(value, float) else value

    def _again(self, value: T) -> T:
        """What the other run released at this point; else this, for another run to release."""
        self.released.append(value)
        return value if self.follow is None else self.follow[len(self.released) - 1]  # type: ignore[return-value]


def _changed(records: Batch, record: int, change: Callable[[Tensor], Tensor]) -> Batch:
    """With one record whose numbers are changed; what is not a number but an index stays."""

    def of(leaf: Tensor) -> Tensor:
        if not leaf.is_floating_point():
            return leaf
        leaf = leaf.clone()
        leaf[record] = change(leaf[record])
        return leaf

    found: Batch = tree_map(of, records)
    return found


CHANGES: tuple[Callable[[Tensor], Tensor], ...] = (
    lambda value: value,
    lambda value: value * 1e6,
    lambda value: torch.full_like(value, float("nan")),
)

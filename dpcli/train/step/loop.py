"""The steps of DP-SGD: sample, clip each record, sum, add noise once, divide by a public number, update the weights.

A step releases the noisy sum; all that follows is post-processing, also an average of the weights. With adaptive clipping, a noised count
is released as well, and accounted for.

Source: Abadi et al. 2016, arXiv:1607.00133, Algorithm 1; Andrew et al. 2019, arXiv:1905.03871, Algorithm 1 and Theorem 1 (quantile);
De et al. 2022, arXiv:2204.13650, Section 3.4 (average, with the usual warm-up of its decay).
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
import torch
from torch import Tensor, nn

from dpcli.mechanisms.noise.gaussian_spec import GaussianSpec
from dpcli.mechanisms.spec import Spec
from dpcli.random.streams import Stream, normals
from dpcli.train.engine.batches import Batch, take
from dpcli.train.engine.clip import Adaptive, Clip, gradient_noise_multiplier
from dpcli.train.engine.sums import Sums
from dpcli.train.isolation.rehearsal import Draw
from dpcli.train.noise import Noise, first_weight
from dpcli.train.run.processes import Stopped
from dpcli.train.run.ranks import Ranks
from dpcli.train.step.optimizers import set_noise_variance
from dpcli.train.tasks.user_code import called_on_records


@dataclass(slots=True)
class WeightAverage:
    """A moving average of the weights: each step moves it by 1 - decay of the way to them, by more in the first steps."""

    model: nn.Module
    decay: float
    values: dict[str, Tensor] = field(default_factory=dict)

    @torch.no_grad()
    def follow(self, step: int) -> None:
        """Take in the weights after step 1, 2, ..."""
        decay = min(self.decay, step / (step + 9.0))
        for name, parameter in self._trained():
            if name not in self.values:
                self.values[name] = parameter.detach().clone()
            self.values[name].lerp_(parameter, 1.0 - decay)

    @contextmanager
    def in_model(self) -> Iterator[None]:
        """Give the model its average weights meanwhile."""
        before = {name: parameter.detach().clone() for name, parameter in self._trained()}
        try:
            self._put(self.values)
            yield
        finally:
            self._put(before)

    @torch.no_grad()
    def _put(self, values: dict[str, Tensor]) -> None:
        for name, parameter in self._trained():
            if name in values:
                parameter.copy_(values[name])

    def _trained(self) -> Iterator[tuple[str, nn.Parameter]]:
        return ((name, parameter) for name, parameter in self.model.named_parameters() if parameter.requires_grad)


@dataclass(slots=True)
class AdaptiveNorm:
    """The clipping norm of adaptive clipping, moved after each step.

    Attributes:
        count_noise: Noise on the count of unclipped examples, in examples.
    """

    clip: Adaptive
    count_noise: float
    expected_batch: float
    stream: Stream

    def follow(self, norms: torch.Tensor, ranks: Ranks) -> None:
        """Move C by a geometric step on the noised share of unclipped examples; drawn once per step, whatever the batch held."""
        count = ranks.total(self.clip.centred_count(norms))
        noise = np.float32(normals(1, self.stream)[0] * self.count_noise)  # single precision, as the noise of the gradients
        self.clip.update(0.5 + ranks.broadcast(count + float(noise)) / self.expected_batch)


def first_step_std(spec: Spec, count_noise: float | None) -> float:
    """Return the standard deviation over C of the noise of a first step, in which all numbers are independent."""
    if count_noise is not None:
        spec = gradient_spec(spec, count_noise)
    return float(spec.noise_multiplier) / first_weight(spec)  # type: ignore[attr-defined]


def gradient_spec(spec: Spec, count_noise: float) -> Spec:
    """Return the entry with more noise on the gradients, so that they and the noised count together cost what the entry states.

    Its noise is over C = 1.

    Raises:
        InputError: If the count alone would cost as much.
    """
    assert isinstance(spec, GaussianSpec) and spec.noise_multiplier is not None
    return replace(spec, noise_multiplier=gradient_noise_multiplier(spec.noise_multiplier, count_noise))


Indices = Iterator["np.ndarray[tuple[int], np.dtype[np.int64]]"]


class Gradients(Protocol):
    """An engine: it computes the clipped sums of a batch."""

    @property
    def clip(self) -> Clip: ...

    def __call__(self, batch: Batch) -> Sums:
        """Return the sum over a batch of gradients of which none is longer than clip.bound."""

    def checked(self, batch: Batch, row: int) -> Sums:
        """Return the sum, after one record's gradient was computed alone as well. Raises InputError if the two differ."""

    def rehearse(self, draw: Draw) -> None:
        """Choose a method on made-up records. Raises InputError if records are not kept apart."""

    def settle(self) -> None:
        """Describe the method as it is now, after made-up records: what records change of it is theirs."""

    def describe(self) -> str:
        """Return the name of the method."""


@dataclass(slots=True)
class Trainer:
    """DP-SGD on one model and its records, as far as step `step`.

    Attributes:
        records: Tensors whose first dimension counts records (units, where those are sampled).
        rate: The learning rate of a step, relative to the first; None if the caller's program sets it.
        physical: Records in memory at once; the sum does not depend on it.
        adaptive_norm: Adaptive norm of adaptive clipping; the noise is then over C = 1.
        before_sums: Called before each sum over private records, to charge for them.
    """

    model: nn.Module
    gradients: Gradients
    optimizer: torch.optim.Optimizer
    records: Batch
    rate: Callable[[int], float] | None = lambda step: 1.0
    physical: int = 256
    step: int = 0
    adaptive_norm: AdaptiveNorm | None = None
    ranks: Ranks = field(default_factory=Ranks)
    average: WeightAverage | None = None
    before_sums: Callable[[], None] = lambda: None
    shapes: dict[str, torch.Size] = field(init=False)
    base_rates: list[float] = field(init=False)

    def __post_init__(self) -> None:
        self.shapes = {name: p.shape for name, p in self.model.named_parameters() if p.requires_grad}
        groups = self.optimizer.param_groups if self.rate is not None else []
        self.base_rates = [float(group.setdefault("declared_lr", group["lr"])) for group in groups]

    def advance(
        self,
        until: int,
        batches: Indices,
        noise: Noise,
        expected_batch: float,
        after: Callable[[int], None],
        stop_asked: Callable[[], bool] = lambda: False,
    ) -> None:
        """Take steps up to number `until`.

        Args:
            batches: Record indices, step after step, drawn as the accountant assumes; an empty batch is a step all the same.
            expected_batch: What the noisy sum is divided by: a public number, never the number of records drawn.
            after: Called with the number of each step, once it is taken.
            stop_asked: Called before each step: whether to stop there.

        Raises:
            Stopped: As stop_asked says.
        """
        while self.step < until:
            self.backward(self.draw(batches, stop_asked), noise, expected_batch)
            self.apply()
            self.count()
            after(self.step)

    def draw(self, batches: Indices, stop_asked: Callable[[], bool] = lambda: False) -> Tensor:
        """Return the next sample, which may be empty. Raises Stopped as stop_asked says."""
        batch, stop = self.ranks.broadcast((next(batches), stop_asked()) if self.ranks.first else None)
        if stop:
            raise Stopped
        return torch.from_numpy(np.ascontiguousarray(batch))

    def backward(self, batch: Tensor, noise: Noise, expected_batch: float) -> None:
        """Put the noisy gradient of a sample into each parameter's .grad."""
        self.before_sums()
        noise_scale = 1.0 if self.adaptive_norm is None else self.adaptive_norm.clip.bound  # C of this step: it moves below
        sums = self._sums(self.ranks.part(batch))
        total = self.ranks.reduce(sums.gradients)
        if self.ranks.first:
            drawn = noise.next(self.shapes)  # once per step, whatever the batch held
            for name, value in total.items():
                value.add_(drawn[name].to(value), alpha=noise_scale)
        noisy = self.ranks.broadcast_tensors(total)
        for name, parameter in self.model.named_parameters():
            if parameter.requires_grad:
                parameter.grad = noisy[name].div_(expected_batch).to(parameter)
        set_noise_variance(self.optimizer, noise, noise_scale / expected_batch)
        if self.adaptive_norm is not None:
            self.adaptive_norm.follow(sums.norms, self.ranks)

    def apply(self) -> None:
        """Take a step of the optimizer, which is post-processing."""
        if self.rate is not None:
            for group, base in zip(self.optimizer.param_groups, self.base_rates, strict=True):
                group["lr"] = base * self.rate(self.step)
        self.optimizer.step()

    def count(self) -> None:
        """Count a step that was taken, and take its weights into the average."""
        self.step += 1
        if self.average is not None:
            self.average.follow(self.step)

    def _sums(self, batch: Tensor) -> Sums:
        """Return the clipped sum of a sample; one record of it, drawn at random, is taken alone too and compared.

        Micro-batches are added in double precision: the sum of many would round a record's share away, or up.
        """
        first, *rest = torch.split(batch, self.physical)
        checked_row = secrets.randbelow(max(1, len(batch)))
        sums = self._micro_batch_sums(first, checked_row)
        if not rest:
            return sums
        sums = Sums({name: value.double() for name, value in sums.gradients.items()}, sums.norms, sums.finite)
        for number, rows in enumerate(rest, 1):
            sums = sums + self._micro_batch_sums(rows, checked_row - number * self.physical)
        return sums

    def _micro_batch_sums(self, rows: Tensor, checked_row: int) -> Sums:
        """Return a micro-batch's sum. Raises Raised, which quotes nothing, for errors of the user's code.

        Args:
            checked_row: Checked row of the micro-batch, to be taken alone too; ignored outside of it.
        """
        records = take(self.records, rows)
        sums: Sums
        if 0 <= checked_row < len(rows):
            sums = called_on_records("a step", self.gradients.checked, records, checked_row)
        else:
            sums = called_on_records("a step", self.gradients, records)
        return sums

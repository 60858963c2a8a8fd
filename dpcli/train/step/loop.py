"""DP-SGD on one page: sample, clip each record, sum, add noise once, divide by a public number, step.

A step releases the noisy sum; everything after it is post-processing, an average of the weights along the run included. Where the clipping
norm follows a quantile of the norms, a noised count is released as well, and accounted for.

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
from dpcli.random.streams import Stream
from dpcli.train.engine.batches import Batch, take
from dpcli.train.engine.clip import Adaptive, Clip, gradient_noise_multiplier
from dpcli.train.engine.sums import Sums
from dpcli.train.isolation.rehearsal import Draw
from dpcli.train.noise.declared import first_weight
from dpcli.train.noise.step import Noise, gaussian
from dpcli.train.run.processes import Stopped
from dpcli.train.run.ranks import Alone, Ranks
from dpcli.train.step.optimizers import tell
from dpcli.train.tasks.user_code import called_on_records


@dataclass(slots=True)
class Average:
    """Moves towards the weights by 1 - decay in each step; faster in the first ones."""

    model: nn.Module
    decay: float
    values: dict[str, Tensor] = field(default_factory=dict)

    @torch.no_grad()
    def follow(self, step: int) -> None:
        """Called after each step, the first of which is 1."""
        kept = min(self.decay, step / (step + 9.0))
        for name, parameter in self._trained():
            if name not in self.values:
                self.values[name] = parameter.detach().clone()
            self.values[name].lerp_(parameter, 1.0 - kept)

    @contextmanager
    def swapped(self) -> Iterator[None]:
        """The model with its average weights meanwhile."""
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
class Quantile:
    """Moves `clip` after each step. count_noise: standard deviation on the count of unclipped examples, in examples."""

    clip: Adaptive
    count_noise: float
    expected_batch: float
    stream: Stream

    def follow(self, norms: torch.Tensor, ranks: Ranks) -> None:
        """Move C by a geometric step on the noised share of unclipped examples; drawn once per step, whatever the batch held."""
        count = ranks.number(self.clip.centred_count(norms))
        noised = count + float(gaussian((1,), self.count_noise, self.stream)[0])
        self.clip.update(0.5 + ranks.same(noised) / self.expected_batch)


def noise_std(spec: Spec, count_noise: float | None) -> float:
    """Standard deviation over C of the noise of a first step, in which all numbers are independent."""
    if count_noise is not None:
        spec = relative(spec, count_noise)
    return float(spec.noise_multiplier) / first_weight(spec)  # type: ignore[attr-defined]


def relative(spec: Spec, count_noise: float) -> Spec:
    """The entry with its noise over C = 1, so much larger that the gradients and the count together cost what the entry states.

    Raises InputError where the count alone would cost as much.
    """
    assert isinstance(spec, GaussianSpec) and spec.noise_multiplier is not None
    return replace(spec, noise_multiplier=gradient_noise_multiplier(spec.noise_multiplier, count_noise))


Indices = Iterator["np.ndarray[tuple[int], np.dtype[np.int64]]"]


class Gradients(Protocol):
    """An engine that computes clipped sums."""

    @property
    def clip(self) -> Clip: ...

    def __call__(self, batch: Batch) -> Sums:
        """The sum over a batch of gradients of which none is longer than clip.bound."""

    def checked(self, batch: Batch, row: int) -> Sums:
        """Return the sum, after one record's gradient was computed alone as well. Raises InputError where the two differ."""

    def rehearse(self, draw: Draw) -> None:
        """On records that nobody owns. Raises InputError where records are not kept apart."""

    def settle(self) -> None:
        """Describe the method as it is now, after made-up records: what records change of it is theirs."""

    def describe(self) -> str:
        """Return the name of the method."""


@dataclass(slots=True)
class Trainer:
    """A run over records.

    records: tensors whose first dimension counts records (units, where those are sampled). rate: the learning rate of a step, relative;
    None where somebody else sets it.
    physical: records in memory at once; the sum does not depend on it. quantile: of adaptive clipping, whose C moves after each step;
    the noise is then over C = 1. before_sums: called before each sum over private records, as whoever charges for them asks.
    """

    model: nn.Module
    gradients: Gradients
    optimizer: torch.optim.Optimizer
    records: Batch
    rate: Callable[[int], float] | None = lambda step: 1.0
    physical: int = 256
    step: int = 0
    quantile: Quantile | None = None
    ranks: Ranks = field(default_factory=Alone)
    average: Average | None = None
    before_sums: Callable[[], None] = lambda: None
    shapes: dict[str, torch.Size] = field(init=False)
    base: list[float] = field(init=False)

    def __post_init__(self) -> None:
        self.shapes = {name: p.shape for name, p in self.model.named_parameters() if p.requires_grad}
        groups = self.optimizer.param_groups if self.rate is not None else []
        self.base = [float(group.setdefault("declared_lr", group["lr"])) for group in groups]

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
            batches: record indices, step after step, drawn as the accountant assumes; an empty batch is a step all the same.
            expected_batch: what the noisy sum is divided by: a public number, never the number of records drawn.
            after: called with each number done.
            asked: whether to stop before the next step.

        Raises:
            Stopped: it was asked to.
        """
        while self.step < until:
            self.backward(self.draw(batches, stop_asked), noise, expected_batch)
            self.apply()
            self.count()
            after(self.step)

    def draw(self, batches: Indices, stop_asked: Callable[[], bool] = lambda: False) -> Tensor:
        """The next sample, which may be empty. Raises Stopped where that is asked for."""
        batch, stop = self.ranks.same((next(batches), stop_asked()) if self.ranks.first else None)
        if stop:
            raise Stopped
        return torch.from_numpy(np.ascontiguousarray(batch))

    def backward(self, batch: Tensor, noise: Noise, expected_batch: float) -> None:
        """The noisy gradient of a sample, in place of what each parameter has as its gradient."""
        self.before_sums()
        bound = 1.0 if self.quantile is None else self.quantile.clip.bound  # of this step's sum: it moves below
        sums = self._sums(self.ranks.part(batch))
        total = self.ranks.summed(sums.gradients)
        if self.ranks.first:
            drawn = noise.next(self.shapes)  # once per step, whatever the batch held
            for name, value in total.items():
                value.add_(drawn[name].to(value), alpha=bound)
        noisy = self.ranks.spread(total)
        for name, parameter in self.model.named_parameters():
            if parameter.requires_grad:
                parameter.grad = noisy[name].div_(expected_batch).to(parameter)
        tell(self.optimizer, noise, bound / expected_batch)
        if self.quantile is not None:
            self.quantile.follow(sums.norms, self.ranks)

    def apply(self) -> None:
        """Take a step of the optimizer: post-processing."""
        if self.rate is not None:
            for group, base in zip(self.optimizer.param_groups, self.base, strict=True):
                group["lr"] = base * self.rate(self.step)
        self.optimizer.step()

    def count(self) -> None:
        """Count a step that is done."""
        self.step += 1
        if self.average is not None:
            self.average.follow(self.step)

    def _sums(self, batch: Tensor) -> Sums:
        """Over micro-batches, which are added in double precision: the sum of many would round a record's share away, or up."""
        first, *rest = torch.split(batch, self.physical)
        row = secrets.randbelow(max(1, len(batch)))  # of one record of the step, which is taken alone too
        sums = self._part(first, row)
        if not rest:
            return sums
        sums = Sums({name: value.double() for name, value in sums.gradients.items()}, sums.norms, sums.finite)
        for place, part in enumerate(rest, 1):
            sums = sums + self._part(part, row - place * self.physical)
        return sums

    def _part(self, part: Tensor, row: int) -> Sums:
        """Return a micro-batch's sum; the row is checked where it is in it. Raises Raised, without its words, for errors of the user's."""
        records = take(self.records, part)
        checked = (self.gradients.checked, records, row) if 0 <= row < len(part) else (self.gradients, records)
        sums: Sums = called_on_records("a step", *checked)
        return sums

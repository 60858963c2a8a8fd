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
from dpcli.mechanisms.correlated import CorrelatedSpec
from dpcli.mechanisms.sampling import Poisson
from dpcli.train.adaptive import relative
from dpcli.train.engine.batches import Batch
from dpcli.train.plan import Plan, plan_of
from dpcli.train.prepare import Prepared, prepare
from dpcli.train.randomness import insecure_seed
from dpcli.train.ranks import Alone, T
from dpcli.train.stages import Stage

if TYPE_CHECKING:
    from dpcli.train.sampling_draws import Indices

STEPS = 40  # of one replay, at most
ROUNDING = 4.0 * 2.0**-23  # of each record of a micro-batch: the noise is larger by as much

Worlds = tuple[tuple[Step, ...], tuple[Step, ...]]


@dataclass(frozen=True, slots=True)
class Replayed:
    """What the file claims of a step, how to replay it, (index, generator) -> steps with the record and without, and what is not seen."""

    declared: Declared
    replay: Callable[[int, np.random.Generator], Worlds]
    unseen: tuple[str, ...]


def replays(path: str) -> Replayed:
    """The training of a file: the first steps of each of its entries, one entry in a replay.

    Sums and noise are in units of C. One record in three is as it is, one a million times as large, one not a number.

    Raises:
        InputError: the file cannot be trained.
    """
    plan = plan_of(path)
    firsts = tuple({stage.entry.name: stage for stage in reversed(plan.stages)}.values())[::-1]
    rates, fresh = {_rate(plan, stage) for stage in firsts}, not any(isinstance(stage.spec, CorrelatedSpec) for stage in firsts)
    declared = Declared(
        sensitivity=1.0 + ROUNDING * plan.train.physical_batch_size,
        noise=_std(plan, firsts[0]),
        exchanged=1,
        rate=rates.pop() if len(rates) == 1 else None,
        fresh=fresh,
    )
    unseen = (f"only the first {STEPS} steps of each entry were replayed, on one process",) + (
        ("the noised count that moves the clipping norm was not checked",) if plan.train.clipping.style == "adaptive" else ()
    )
    return Replayed(declared, lambda index, rng: _worlds(plan, firsts[index % len(firsts)], firsts[0], index, rng), unseen)


def _std(plan: Plan, stage: Stage) -> float:
    """Standard deviation over C of the noise of the entry's first step, in which all numbers are independent."""
    spec, count_noise = stage.spec, plan.train.clipping.quantile_noise
    if plan.train.clipping.style == "adaptive" and count_noise is not None:
        spec = relative(spec, count_noise)
    first = next(iter(getattr(spec, "coefficients", None) or (1.0,)))
    return float(spec.noise_multiplier) / first  # type: ignore[attr-defined]


def _rate(plan: Plan, stage: Stage) -> float | None:
    """Of Poisson sampling without a largest batch."""
    sampling = stage.entry.sampling
    if not isinstance(sampling, Poisson) or sampling.max_batch_size is not None:
        return None
    return stage.expected_batch / plan.size


def _worlds(plan: Plan, stage: Stage, first: Stage, index: int, rng: np.random.Generator) -> Worlds:
    """Noise is in units of the first entry's, so that all entries are held to one size."""
    seed = int(rng.integers(2**62))
    batches = list(islice(_prepared(plan, seed, Alone()).batches(stage), min(stage.steps, STEPS)))
    drawn = np.concatenate(batches)
    record = int(rng.choice(drawn)) if len(drawn) else 0
    change, unit = CHANGES[index % len(CHANGES)], _std(plan, first) / _std(plan, stage)
    left = _Recorder(unit)
    _run(plan, stage, seed, left, batches, record, change)
    right = _Recorder(unit, left.released)
    _run(plan, stage, seed, right, [batch[batch != record] for batch in batches], record, change)
    return tuple(left.steps), tuple(right.steps)


def _prepared(plan: Plan, seed: int, ranks: Alone) -> Prepared:
    return prepare(replace(plan, canaries=0), insecure_seed(seed), ranks, None, "")


def _run(
    plan: Plan,
    stage: Stage,
    seed: int,
    recorder: _Recorder,
    batches: list[Indices],
    record: int,
    change: Callable[[Tensor], Tensor],
) -> None:
    prepared = _prepared(plan, seed, recorder)
    trainer = prepared.trainer
    trainer.records = _changed(trainer.records, record, change)
    recorder.bound = lambda: trainer.gradients.clip.bound
    trainer.advance(len(batches), recorder.seen(iter(batches)), prepared.noise(stage), stage.expected_batch, lambda step: None)
    prepared.require_buffers()


@dataclass(slots=True)
class _Recorder(Alone):
    """One process that keeps what it sees. unit: of the noise. follow: what another run released, which is released here too."""

    unit: float
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
        noise = {
            name: (value.double().cpu().numpy() / self.bound() - self.sums[name]) * self.unit for name, value in values.items()
        }
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

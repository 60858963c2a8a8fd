"""Replays of training for `dpcli audit`: may one record change the sum of a step by more than the file claims?

A *replay* takes the first steps of training twice, with one record and without it, with the same seed. `dpcli audit` calls `replays` with
the path of a training file, and gets the claims of the file (step_claims.py) and a function that makes a replay. audit/replay.py then
compares the two sequences of steps with the claims. The clipped sums of a step, for example, may differ by at most C, the clipping norm, up
to rounding. A replay releases nothing.

Differential privacy bounds what a step reveals given all earlier releases. In the run without the record, every step therefore starts from
the weights that the run with the record released. Random draws of the model belong to records (`OwnDraws` in record_draws.py), so all other
records draw the same numbers in both runs.

An *entry* is a mechanism of the file, and a *stage* a sequence of steps of one entry (plan/stages.py). Another kind of audit adds gradients
of its own, *canary gradients*, to the sums of a whole run (canaries.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from dpcli.audit.gradient_scores import SampledSteps
from dpcli.audit.noise_draws import Step
from dpcli.audit.replay import Declared
from dpcli.random.streams import insecure_seed
from dpcli.train.engine.batches import Batch, size, take
from dpcli.train.plan.plan import TrainingPlan, plan_of
from dpcli.train.plan.stages import Stage
from dpcli.train.replay.record_draws import OwnDraws
from dpcli.train.replay.step_claims import claims_of, noise_std, observed_count, sampled_steps
from dpcli.train.run.ranks import Ranks, T
from dpcli.train.step.prepare import prepare_trial
from dpcli.train.torch_internals import tree_map

if TYPE_CHECKING:
    from dpcli.random.subsets import Indices

# Largest number of steps of one replay. It limits the time of an audit; a fault that shows only in later steps is not found.
STEPS = 40

StepPairs = tuple[tuple[Step, ...], tuple[Step, ...]]  # steps with the record, and steps without it
Change = Callable[[Tensor], Tensor]  # function that changes the numbers of the record before the steps
Choose = Callable[[list["Indices"], np.random.Generator], int]  # function that returns the index of the record


@dataclass(frozen=True, slots=True)
class Replayed:
    """The claims of a file about a step, and a function that replays steps to test them. The audit asks for replays 0, 1, 2, ....

    Attributes:
        replay: Function of the number of the replay and a random generator. It returns the steps with the record and the steps without it.
        unseen: Sentences about properties that replays do not test.
        steps: Number of steps of the shortest replay.
        sampled: Steps of a whole run, from which an audit with canary gradients simulates its power; empty if it cannot simulate them.
        observed: Number of steps of a whole run whose noise an audit with canary gradients tests.
    """

    declared: Declared
    replay: Callable[[int, np.random.Generator], StepPairs]
    unseen: tuple[str, ...]
    steps: int
    sampled: tuple[SampledSteps, ...]
    observed: int


def replays(path: str) -> Replayed:
    """Return replays of the training that a file declares. Each replay takes the first steps of one entry.

    Successive replays go through the entries of the file, and then through `CASES`. Sums and noise are in units of C.

    Raises InputError if the file declares no training, or training that cannot run.
    """
    plan = plan_of(path)
    firsts = plan.first_stages
    declared = claims_of(plan, plan.size)
    unseen = [f"only the first {STEPS} steps of each entry were replayed, in one process"]
    if plan.train.clipping.count_noise is not None:
        unseen.append("the noisy count that moves the clipping norm was not checked")

    def replay(index: int, rng: np.random.Generator) -> StepPairs:
        case, entry = divmod(index, len(firsts))
        return _steps_with_and_without(plan, firsts[entry], firsts[0], case, rng)

    return Replayed(
        declared=declared,
        replay=replay,
        unseen=tuple(unseen),
        steps=min(min(stage.steps, STEPS) for stage in firsts),
        sampled=tuple(sampled_steps(plan)),
        observed=observed_count(plan),
    )


def _steps_with_and_without(plan: TrainingPlan, stage: Stage, first: Stage, case: int, rng: np.random.Generator) -> StepPairs:
    """Return the steps with a record and without it.

    The noise is scaled to the noise of the first entry, because one standard deviation is declared for all entries.

    Args:
        first: First stage of the first entry.
        case: Number of the case. After the last of `CASES`, the first one follows again.
    """
    seed = int(rng.integers(2**62))
    batches = list(islice(prepare_trial(plan, insecure_seed(seed), Ranks()).batches(stage), min(stage.steps, STEPS)))
    choose, change = CASES[case % len(CASES)]
    replay = _Replay(plan, stage, seed, batches, choose(batches, rng), change)
    noise_factor = noise_std(plan, first) / noise_std(plan, stage)
    with_record = _Recorder(noise_factor)
    replay.run(with_record, present=True)
    without_record = _Recorder(noise_factor, with_record.released)
    replay.run(without_record, present=False)
    return tuple(with_record.steps), tuple(without_record.steps)


@dataclass(frozen=True, slots=True)
class _Replay:
    """The steps of a stage, to be taken with a record and without it.

    Attributes:
        seed: Seed of both runs.
        batches: Indices of the records of each step, drawn while the record is present.
        record: Index of the record that is present in one run and absent in the other.
        change: Function that changes the numbers of the record before the steps.
    """

    plan: TrainingPlan
    stage: Stage
    seed: int
    batches: list[Indices]
    record: int
    change: Change

    def run(self, recorder: _Recorder, *, present: bool) -> None:
        """Take the steps. The recorder stores their sums and their noise.

        Args:
            present: Whether the dataset contains the record.
        """
        prepared, draws = prepare_trial(self.plan, insecure_seed(self.seed), recorder), OwnDraws(self.seed)
        trainer = prepared.trainer
        gradients: Any = trainer.gradients
        gradients.loss = draws.loss(gradients.loss)
        records = _change_record(trainer.records, self.record, self.change)
        batches = self.batches if present else [batch[batch != self.record] for batch in self.batches]
        recorder.bound, recorder.draws = lambda: trainer.gradients.clip.bound, draws
        with draws:
            other_rows = [row for row in range(size(records)) if row != self.record]
            trainer.records = records if present else take(records, other_rows)
            if size(trainer.records):
                prepared.rehearse()  # as in a real run; a model that stores something of the first records then affects the steps
            # In both runs all records are in memory, so that an index refers to the same record. The batches decide which are used.
            trainer.records = records
            noise, recorded = prepared.noise(self.stage), recorder.record_batches(iter(batches))
            trainer.advance(len(batches), recorded, noise, self.stage.expected_batch, lambda step: None)
        prepared.require_buffers()  # no step may have changed a buffer; a real run checks this at its end


@dataclass(slots=True)
class _Recorder(Ranks):
    """A recorder of the sums and the noise of each step, in the place of the processes of a run (`Ranks`).

    A trainer passes each clipped sum to `reduce`, and each noisy sum to `broadcast_tensors`. The recorder observes both there.

    Attributes:
        noise_factor: Factor by which recorded noise is multiplied. Sums and noise are also divided by C.
        followed_releases: Values that another run released. They replace the values of this run; None to release its own values.
        released: Values that this run would release if it followed no other run.
        steps: Steps recorded so far.
        batch: Indices of the records of the current step.
        sums: Clipped sums of the current step, in units of C; empty between steps.
        bound: Function that returns the current C.
        draws: Random draws of the records, which depend on the number of the step.
    """

    noise_factor: float
    followed_releases: list[object] | None = None
    released: list[object] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    batch: Indices = field(default_factory=lambda: np.empty(0, np.int64))
    sums: dict[str, np.ndarray] = field(default_factory=dict)
    bound: Callable[[], float] = lambda: 1.0
    draws: OwnDraws | None = None

    def record_batches(self, batches: Iterator[Indices]) -> Iterator[Indices]:
        """Yield the batches. Each batch is stored, and the number of its step is passed to the random draws."""
        for step, self.batch in enumerate(batches, 1):
            if self.draws is not None:
                self.draws.step = step
            yield self.batch

    def reduce(self, sums: Mapping[str, Tensor]) -> dict[str, Tensor]:
        self.sums = {name: value.double().cpu().numpy() / self.bound() for name, value in sums.items()}
        return dict(sums)

    def broadcast_tensors(self, values: dict[str, Tensor]) -> dict[str, Tensor]:
        if not self.sums:  # a call before the first sum sends the initial weights
            return values
        noise = {}
        for name, value in values.items():
            noisy_sum = value.double().cpu().numpy() / self.bound()
            noise[name] = (noisy_sum - self.sums[name]) * self.noise_factor
        self.steps.append(Step(self.sums, self.batch.tolist(), noise))
        self.sums = {}
        released: dict[str, Tensor] = self._release({name: value.clone() for name, value in values.items()})
        return {name: value.clone() for name, value in released.items()}

    def broadcast(self, value: T | None) -> T:
        assert value is not None
        return self._release(value) if isinstance(value, float) else value

    def _release(self, value: T) -> T:
        """Return the value that the followed run released at this point, or the given value if no run is followed."""
        self.released.append(value)
        if self.followed_releases is None:
            return value
        return self.followed_releases[len(self.released) - 1]  # type: ignore[return-value]


def _change_record(records: Batch, record: int, change: Change) -> Batch:
    """Return the records with the floating-point numbers of one record changed. Integers such as labels are unchanged."""

    def changed_leaf(leaf: Tensor) -> Tensor:
        if not leaf.is_floating_point():
            return leaf
        leaf = leaf.clone()
        leaf[record] = change(leaf[record])
        return leaf

    changed: Batch = tree_map(changed_leaf, records)
    return changed


def _any_drawn(batches: list[Indices], rng: np.random.Generator) -> int:
    """Return a random record of the batches."""
    drawn = np.concatenate(batches)
    return int(rng.choice(drawn)) if len(drawn) else 0


def _first_drawn(batches: list[Indices], rng: np.random.Generator) -> int:
    """Return the first record of the first batch that is not empty."""
    return next((int(batch[0]) for batch in batches if len(batch)), 0)


def _in_smallest_batch(batches: list[Indices], rng: np.random.Generator) -> int:
    """Return a random record of the smallest batch that is not empty. Without this record, the batch may be empty."""
    smallest = min((batch for batch in batches if len(batch)), key=len, default=[0])
    return int(rng.choice(smallest))


def _first_stored(batches: list[Indices], rng: np.random.Generator) -> int:
    """Return the first record of the data."""
    return 0


def _unchanged(value: Tensor) -> Tensor:
    return value


def _large(value: Tensor) -> Tensor:
    return value * 1e6


def _not_a_number(value: Tensor) -> Tensor:
    return torch.full_like(value, float("nan"))


# Choices of the record, each with a change of its numbers. For a file with one entry, an audit reaches as many of them as it has replays,
# so the order decides what a short audit tests. Large numbers (1e6 is arbitrary) should make gradients that must be clipped. A record with
# NaNs must add zero.
CASES: tuple[tuple[Choose, Change], ...] = (
    (_any_drawn, _unchanged),
    (_first_drawn, _large),
    (_first_stored, _large),
    (_in_smallest_batch, _not_a_number),
    (_first_drawn, _unchanged),
    (_first_stored, _not_a_number),
    (_any_drawn, _large),
)

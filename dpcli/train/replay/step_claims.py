"""The claims of a training file about each step, and the steps of a real run that are compared with them.

The claims are about the clipped sums, the noise and the samples. `dpcli audit` compares them with steps, by the checks of audit/replay.py.
The steps are of one of two kinds. A *replay* takes the first steps with and without one record (replay/program.py). Or the steps are those
of a real run into whose sums the audit inserted *canary gradients* of its own (replay/canaries.py); `ObservedSteps` keeps these.

An *entry* is a mechanism of the file, and a *stage* a sequence of steps of one entry. Entries may declare different noise, but the audit
knows one standard deviation, that of the first entry. The noise of other entries is scaled to it. Sums and noise are in units of C, the
clipping norm.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from torch import Tensor

from dpcli.audit.audit_result import ReplayCheck
from dpcli.audit.gradient_scores import SampledSteps
from dpcli.audit.noise_draws import Step
from dpcli.audit.replay import ROUNDING, Declared, observed_checks
from dpcli.mechanisms.noise.correlated import CorrelatedSpec
from dpcli.mechanisms.sampling.schemes import Poisson, Unsampled
from dpcli.train.plan.plan import TrainingPlan
from dpcli.train.plan.stages import Stage
from dpcli.train.step.loop import ROUNDING_OF_RECORD, first_step_std

# Limits of the time and the memory of the statistical checks. Fewer numbers detect only larger faults. The values are arbitrary.
MOST_KEPT_STEPS = 1024  # largest number of steps that are kept, because each is compared with every other
MOST_KEPT_NUMBERS = 2**24  # largest count of the numbers of noise that are kept: 64 MiB in single precision


def claims_of(plan: TrainingPlan, records: int, significance: float = 0.05) -> Declared:
    """Return the claims about each step. Sums are in units of C, and noise is scaled to the noise of the first entry.

    Args:
        records: Number of records that are sampled.
        significance: Significance of the statistical checks.
    """
    rates = {_poisson_rate(plan, stage) for stage in plan.first_stages}
    return Declared(
        sensitivity=1.0 + ROUNDING_OF_RECORD * plan.train.physical_batch_size,  # enlarged as the noise is (`Prepared.rounding`)
        noise=noise_std(plan, plan.first_stages[0]),
        exchanged=1,  # one record id, by which the batches with and without the record differ
        rate=rates.pop() if len(rates) == 1 else None,  # the audit knows one rate; with several it tests none
        records=records,
        fresh=not is_correlated(plan),  # the noise of different steps is independent
        significance=significance,
    )


def is_correlated(plan: TrainingPlan) -> bool:
    """Return whether the noise of an entry is correlated over its steps."""
    return any(isinstance(stage.spec, CorrelatedSpec) for stage in plan.first_stages)


def noise_std(plan: TrainingPlan, stage: Stage) -> float:
    """Return the standard deviation of the noise of the stage's first step, in units of C."""
    return first_step_std(stage.spec, plan.train.clipping.count_noise)


def _poisson_rate(plan: TrainingPlan, stage: Stage) -> float | None:
    """Return the rate of Poisson samples of all records without a largest batch size; None for other samples."""
    sampling = stage.entry.sampling
    if isinstance(stage.spec, CorrelatedSpec) or not isinstance(sampling, Poisson) or sampling.max_batch_size is not None:
        return None
    return stage.expected_batch / plan.size


def sampled_steps(plan: TrainingPlan) -> Iterator[SampledSteps]:
    """Yield the stages in the form that the audit simulates. Yield nothing if the audit cannot simulate the sampling of a stage."""
    is_simulated = (
        isinstance(stage.entry.sampling, (Poisson, Unsampled)) and not isinstance(stage.spec, CorrelatedSpec)
        for stage in plan.stages
    )
    if all(is_simulated):
        for stage in plan.stages:
            yield SampledSteps(stage.steps, record_rate(plan, stage), noise_std(plan, stage))


def record_rate(plan: TrainingPlan, stage: Stage) -> float:
    """Return the probability that a record is in a batch."""
    return min(1.0, stage.expected_batch / plan.size)


def observed_count(plan: TrainingPlan) -> int:
    """Return the number of steps that are kept."""
    return len(_kept_steps(plan))


def _kept_steps(plan: TrainingPlan) -> range | list[int]:
    """Return the numbers, from 0, of the steps that are kept.

    Correlated noise depends on the noise of earlier steps. If an entry has such noise, only first steps of stages are kept.
    """
    steps = [stage.start for stage in plan.stages] if is_correlated(plan) else range(plan.steps)
    return steps[:: math.ceil(len(steps) / MOST_KEPT_STEPS)]


@dataclass(slots=True)
class ObservedSteps:
    """The steps that an audit keeps of a run.

    Attributes:
        kept: Numbers of the steps that are kept.
        steps_of_stage: Kept steps, by the first step of their stage. Their batches have the right sizes, but not the right ids.
        longest: Largest norm of the clipped gradient of a single record, in units of C.
        singles: Number of single records whose clipped gradients were computed.
    """

    plan: TrainingPlan
    kept: frozenset[int] = field(init=False)
    steps_of_stage: dict[int, list[Step]] = field(default_factory=dict)
    longest: float = 0.0
    singles: int = 0

    def __post_init__(self) -> None:
        self.kept = frozenset(_kept_steps(self.plan))

    def add_single(self, norm: float) -> None:
        """Add the norm of the clipped gradient of a single record, in units of C."""
        self.longest = max(self.longest, norm)
        self.singles += 1

    def add(self, number: int, batch_size: int, sums: Mapping[str, Tensor], noisy: Mapping[str, Tensor], bound: float) -> None:
        """Add a step. At most about MOST_KEPT_NUMBERS numbers of the noise of all steps are kept, evenly spaced in each tensor.

        Args:
            number: Number of the step, from 0.
            sums: Clipped sums before noise, by name.
            noisy: The sums with noise.
            bound: C in this step.
        """
        if number not in self.kept:
            return
        stage, first_stage = self.plan.stage_at(number), self.plan.first_stages[0]
        # In units of C, and as if the stage had the noise of the first entry, which the claims state.
        scale = noise_std(self.plan, first_stage) / noise_std(self.plan, stage) / bound
        most = max(1, MOST_KEPT_NUMBERS // (len(self.kept) * len(sums)))
        noise, largest = {}, 0.0
        for name, value in sums.items():
            stride = math.ceil(value.numel() / most)
            before, after = (part.reshape(-1)[::stride].double().cpu() for part in (value, noisy[name]))
            noise[name] = ((after - before) * scale).numpy().astype(np.float32)
            largest = max(largest, float(value.abs().max()) * scale)
        # Of the sums, the audit only needs the largest number: the noise is a difference of sums, and is rounded in proportion to it.
        self.steps_of_stage.setdefault(stage.start, []).append(Step({"largest": np.array([largest])}, range(batch_size), noise))

    def checks(self, records: int, significance: float) -> tuple[ReplayCheck, ...]:
        """Return the results of all checks.

        Args:
            records: Number of records that were sampled, with the canaries of the run.
            significance: Significance of the statistical checks together.
        """
        claims = claims_of(self.plan, records, significance)
        message = f"longest of {self.singles:,} single records: {self.longest:.6g}, declared {claims.sensitivity:.6g}"
        passed = self.longest <= claims.sensitivity * (1.0 + ROUNDING)  # the same allowance as in replays
        clipping = ReplayCheck("clipping of single records", passed=passed, message=message)
        return (clipping, *observed_checks(list(self.steps_of_stage.values()), claims))

"""The claims of a training file about each step: the clipped sums, the noise and the samples.

Audits compare the steps of a replay (replay/program.py), or those of a real run with canary gradients (observed_steps.py), with the claims.
Entries may declare different noise, but the audit knows one standard deviation, that of the first entry. The noise of other entries is
scaled to it.
"""

from __future__ import annotations

from collections.abc import Iterator

from dpcli.audit.gradient_scores import SampledSteps
from dpcli.audit.replay import Declared
from dpcli.mechanisms.noise.correlated import CorrelatedSpec
from dpcli.mechanisms.sampling.schemes import Poisson, Unsampled
from dpcli.train.plan.plan import TrainingPlan
from dpcli.train.plan.stages import Stage
from dpcli.train.step.loop import first_step_std

# Bound on the relative rounding error of a sum in single precision, for each record of a micro-batch. Training enlarges the noise by it.
ROUNDING = 4.0 * 2.0**-23


def claims_of(plan: TrainingPlan, records: int, significance: float = 0.05) -> Declared:
    """Return the claims about each step. Sums are in units of C, and noise is scaled to the noise of the first entry.

    Args:
        records: Number of records that are sampled.
        significance: Significance of the statistical checks.
    """
    rates = {_poisson_rate(plan, stage) for stage in plan.first_stages}
    return Declared(
        sensitivity=1.0 + ROUNDING * plan.train.physical_batch_size,
        noise=noise_std(plan, plan.first_stages[0]),
        exchanged=1,
        rate=rates.pop() if len(rates) == 1 else None,
        records=records,
        fresh=not is_correlated(plan),
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

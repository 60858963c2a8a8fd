"""The steps of a run with canary gradients, as an audit observes them (replay/canaries.py).

Their noise, their batch sizes and single clipped gradients are compared with the claims of the file (step_claims.py) by the checks of
audit/replay.py.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from torch import Tensor

from dpcli.audit.audit_result import ReplayCheck
from dpcli.audit.replay import ROUNDING, Step, observed_checks
from dpcli.train.plan.plan import TrainingPlan
from dpcli.train.replay.step_claims import claims_of, is_correlated, noise_std

MOST_STEPS = 1024  # largest number of steps that are kept, because each is compared with every other
MOST_NUMBERS = 2**24  # largest count of the numbers of noise that are kept: 64 MiB


def observed_count(plan: TrainingPlan) -> int:
    """Return the number of steps that are kept."""
    return len(_kept_steps(plan))


def _kept_steps(plan: TrainingPlan) -> range | list[int]:
    """Return the numbers, from 0, of the steps that are kept. Of a run of correlated noise, this is the first step."""
    steps = [stage.start for stage in plan.stages] if is_correlated(plan) else range(plan.steps)
    return steps[:: math.ceil(len(steps) / MOST_STEPS)]


@dataclass(slots=True)
class ObservedSteps:
    """The steps that an audit keeps of a run.

    Attributes:
        kept: Numbers of the steps that are kept.
        runs: Kept steps by the start of their stage. Their batches have the right sizes, but not the right ids.
        longest: Norm of the longest clipped gradient of a single record, in units of C.
        singles: Number of single records whose clipped gradients were computed.
    """

    plan: TrainingPlan
    kept: frozenset[int] = field(init=False)
    runs: dict[int, list[Step]] = field(default_factory=dict)
    longest: float = 0.0
    singles: int = 0

    def __post_init__(self) -> None:
        self.kept = frozenset(_kept_steps(self.plan))

    def add_single(self, norm: float) -> None:
        """Add the norm of the clipped gradient of a single record, in units of C."""
        self.longest = max(self.longest, norm)
        self.singles += 1

    def add(self, number: int, batch_size: int, sums: Mapping[str, Tensor], noisy: Mapping[str, Tensor], bound: float) -> None:
        """Add a step. At most about MOST_NUMBERS numbers of the noise of all steps are kept, evenly spaced in each tensor.

        Args:
            number: Number of the step, from 0.
            sums: Clipped sums before noise, by name.
            noisy: The sums with noise.
            bound: C in this step.
        """
        if number not in self.kept:
            return
        stage = self.plan.stage_at(number)
        scale = noise_std(self.plan, self.plan.first_stages[0]) / noise_std(self.plan, stage) / bound
        most = max(1, MOST_NUMBERS // (len(self.kept) * len(sums)))
        noise, largest = {}, 0.0
        for name, value in sums.items():
            stride = math.ceil(value.numel() / most)
            before, after = (part.reshape(-1)[::stride].double().cpu() for part in (value, noisy[name]))
            noise[name] = ((after - before) * scale).numpy().astype(np.float32)
            largest = max(largest, float(value.abs().max()) * scale)
        self.runs.setdefault(stage.start, []).append(Step({"largest": np.array([largest])}, range(batch_size), noise))

    def checks(self, records: int, significance: float) -> tuple[ReplayCheck, ...]:
        """Return the results of all checks.

        Args:
            records: Number of records that were sampled, with the canaries of the run.
            significance: Significance of the statistical checks together.
        """
        claims = claims_of(self.plan, records, significance)
        message = f"longest of {self.singles:,} single records: {self.longest:.6g}, declared {claims.sensitivity:.6g}"
        clipping = ReplayCheck("clipping of single records", self.longest <= claims.sensitivity * (1.0 + ROUNDING), message)
        return (clipping, *observed_checks(list(self.runs.values()), claims))

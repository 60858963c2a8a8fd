"""What a sweep has measured: the runs of each setting at each epsilon, and the best setting of each epsilon."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass

from dpcli.sweep.direction import worth
from dpcli.sweep.plan import SweepPlan, Variant


@dataclass(frozen=True, slots=True)
class Cell:
    """One setting at one epsilon. values: of the runs that ended, by run; failures: what the others said."""

    variant: Variant
    values: tuple[float, ...]
    failures: tuple[str, ...] = ()

    @property
    def median(self) -> float:
        """Of the runs that ended; NaN where none did."""
        return statistics.median(self.values) if self.values else math.nan

    @property
    def runs(self) -> int:
        return len(self.values) + len(self.failures)


@dataclass(frozen=True, slots=True)
class MeasuredSweep:
    """metric: what every value is; "" where no run has ended."""

    plan: SweepPlan
    metric: str
    cells: tuple[Cell, ...]

    @property
    def best(self) -> tuple[Cell, ...]:
        """The setting with the best median at each epsilon where a run has ended; the first of those that are equal."""
        found = []
        for epsilon in self.plan.sweep.epsilon:
            ended = [cell for cell in self.cells if cell.variant.epsilon == epsilon and cell.values]
            if ended:
                found.append(max(ended, key=lambda cell: worth(self.plan.better, cell.median)))
        return tuple(found)

    @property
    def failures(self) -> tuple[tuple[Cell, str], ...]:
        return tuple((cell, words) for cell in self.cells for words in cell.failures)


@dataclass(frozen=True, slots=True)
class PrivateSelection:
    """What a private search releases: the best of its trials, or nothing where their number came out as 0. folder: where it lies."""

    plan: SweepPlan
    metric: str
    value: float | None
    variant: Variant | None
    folder: str
    failures: tuple[str, ...] = ()

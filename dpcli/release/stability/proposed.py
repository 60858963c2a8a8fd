"""The test of propose-test-release: whether the data are far enough from all that have another answer."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from dpcli.numerics.closed.discrete_tails import log_laplace_beyond

Value = TypeVar("Value")
Draw = Callable[[float], int]  # a whole number of discrete Laplace noise of this scale
UNREACHABLE = 2**62  # the distance where no data have another answer


@dataclass(frozen=True, slots=True)
class Stable(Generic[Value]):
    """An answer, None where there is none, and how many units may change without another one: 0 where a neighbour's differs."""

    answer: Value | None
    distance: int


@dataclass(frozen=True, slots=True)
class StabilityTest:
    """What the mechanism type propose-test-release prices at this epsilon (nats) and delta."""

    epsilon: float
    delta: float

    @property
    def scale(self) -> float:
        """1 / epsilon, rounded up: the noise that is drawn is never less than what is priced."""
        return math.nextafter(1.0 / self.epsilon, math.inf)

    @property
    def threshold(self) -> int:
        """The smallest T >= 0 with P(DLap(scale) > T) <= delta."""
        low, high = -1, 1
        while not self._is_rare(high):
            high *= 2
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self._is_rare(middle) else (middle, high)
        return high

    def _is_rare(self, least: int) -> bool:
        return log_laplace_beyond(self.scale, least) <= math.log(self.delta)

    def release_probability(self, distance: int) -> float:
        """P(distance + DLap > threshold), from above by at most 1e-12 of it."""
        return math.exp(log_laplace_beyond(self.scale, self.threshold - distance))

    def passes(self, distance: int, draw: Draw) -> bool:
        """Whether the noisy distance exceeds the threshold."""
        return distance + draw(self.scale) > self.threshold

    def released(self, found: Stable[Value], draw: Draw) -> Value | None:
        """The answer, or None."""
        return found.answer if self.passes(found.distance, draw) else None


def units_apart(changes: int, per_unit: int) -> int:
    """The distance where `changes` are needed for another answer, of which one unit makes at most `per_unit`."""
    return min(-(-changes // per_unit) - 1, UNREACHABLE)

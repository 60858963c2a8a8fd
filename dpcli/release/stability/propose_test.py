"""The test of propose-test-release: it passes if the data are far from all data that have another answer."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from dpcli.mechanisms.neighbours import Adjacency
from dpcli.numerics.closed.discrete_tails import log_laplace_beyond
from dpcli.release.noise.laws import smallest_whole

Value = TypeVar("Value")
Draw = Callable[[float], int]  # a whole number of discrete Laplace noise of this scale
UNREACHABLE = 2**62  # the distance if no data have another answer
Key = TypeVar("Key")


@dataclass(frozen=True, slots=True)
class StableAnswer(Generic[Value]):
    """An answer, None if there are no data, and how many units may change without changing it: 0 if a neighbour's differs."""

    answer: Value | None
    distance: int


@dataclass(frozen=True, slots=True)
class StabilityTest:
    """The test that the mechanism type propose-test-release prices at this epsilon (nats) and delta."""

    epsilon: float
    delta: float

    @property
    def scale(self) -> float:
        """1 / epsilon, rounded up: no less noise is drawn than is priced."""
        return math.nextafter(1.0 / self.epsilon, math.inf)

    @property
    def threshold(self) -> int:
        """The smallest T >= 0 with P(DLap(scale) > T) <= delta."""
        return smallest_whole(lambda least: log_laplace_beyond(self.scale, least) <= math.log(self.delta))

    def release_probability(self, distance: int) -> float:
        """Return P(distance + DLap > threshold), too large by a fraction of at most 1e-12."""
        return math.exp(log_laplace_beyond(self.scale, self.threshold - distance))

    def passes(self, distance: int, draw: Draw) -> bool:
        """Test that the noisy distance exceeds the threshold."""
        return distance + draw(self.scale) > self.threshold

    def released(self, stable: StableAnswer[Value], draw: Draw) -> Value | None:
        """Return the answer if it passes, else None."""
        return stable.answer if self.passes(stable.distance, draw) else None


def units_apart(changes: int, per_unit: int) -> int:
    """Return how many units may change without another answer, where that takes `changes`, at most `per_unit` by each unit."""
    return min(-(-changes // per_unit) - 1, UNREACHABLE)


def mode(counts: Mapping[Key, int], adjacency: Adjacency, rows: int = 1) -> StableAnswer[Key]:
    """Return the value that is counted most often, ties going to the first by its type and then by itself.

    A unit moves the gap between two counts by at most `rows`, and by twice as much if it is replaced. Nobody declares which values
    there are: any value that is not counted may win a tie.

    Args:
        counts: Rows or units of each value.
        rows: Most rows that one unit adds to one count; to how many counts does not matter.
    """
    if not any(counts.values()):
        return StableAnswer(None, 0)
    per_unit = rows * (2 if adjacency is Adjacency.REPLACE_ONE else 1)
    ranked = sorted(counts.items(), key=lambda pair: tuple(_sortable(pair[0])))
    first = max(range(len(ranked)), key=lambda place: (ranked[place][1], -place))
    answer, most = ranked[first]
    needed = [most - count + (place > first) for place, (_, count) in enumerate(ranked) if place != first]
    needed.append(most)  # for a value that nobody has yet
    return StableAnswer(answer, units_apart(min(needed), per_unit))


def released_mode(counts: Mapping[Key, int], test: StabilityTest, draw: Draw, adjacency: Adjacency, rows: int = 1) -> Key | None:
    """Return the most common value where it passes the test, else None. Arguments as for `mode`."""
    return test.released(mode(counts, adjacency, rows), draw)


def _sortable(key: Any) -> Iterator[tuple[str, Any]]:
    for part in key if isinstance(key, tuple) else (key,):
        yield type(part).__name__, part

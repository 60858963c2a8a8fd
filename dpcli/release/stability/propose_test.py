"""The test of propose-test-release: whether the data are far enough from all that have another answer."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from dpcli.base.errors import InternalError
from dpcli.mechanisms.neighbours import Adjacency
from dpcli.numerics.closed.discrete_tails import log_laplace_beyond
from dpcli.release.noise.laws import smallest_whole

Value = TypeVar("Value")
Draw = Callable[[float], int]  # a whole number of discrete Laplace noise of this scale
UNREACHABLE = 2**62  # the distance where no data have another answer
Key = TypeVar("Key")


@dataclass(frozen=True, slots=True)
class Stable(Generic[Value]):
    """An answer, None where there is none, and how many units may change without another one: 0 where a neighbour's differs."""

    answer: Value | None
    distance: int


@dataclass(frozen=True, slots=True)
class StabilityTest:
    """The test that the mechanism type propose-test-release prices at this epsilon (nats) and delta."""

    epsilon: float
    delta: float

    @property
    def scale(self) -> float:
        """1 / epsilon, rounded up: the noise that is drawn is never less than what is priced."""
        return math.nextafter(1.0 / self.epsilon, math.inf)

    @property
    def threshold(self) -> int:
        """The smallest T >= 0 with P(DLap(scale) > T) <= delta."""
        return smallest_whole(lambda least: log_laplace_beyond(self.scale, least) <= math.log(self.delta))

    def release_probability(self, distance: int) -> float:
        """P(distance + DLap > threshold), from above by at most 1e-12 of it."""
        return math.exp(log_laplace_beyond(self.scale, self.threshold - distance))

    def passes(self, distance: int, draw: Draw) -> bool:
        """Test that the noisy distance exceeds the threshold."""
        return distance + draw(self.scale) > self.threshold

    def released(self, stable: Stable[Value], draw: Draw) -> Value | None:
        """The answer, or None."""
        return stable.answer if self.passes(stable.distance, draw) else None


def units_apart(changes: int, per_unit: int) -> int:
    """The distance where `changes` are needed for another answer, of which one unit makes at most `per_unit`."""
    return min(-(-changes // per_unit) - 1, UNREACHABLE)


def mode(counts: Mapping[Key, int], adjacency: Adjacency, rows: int = 1, domain: Sequence[Key] | None = None) -> Stable[Key]:
    """The value that is counted most often, the first of those in a fixed order; None where there are no data.

    A unit moves the gap between two counts by at most `rows`, and by twice as much where it is replaced.

    Args:
        counts: rows or units of each value.
        rows: that one unit adds to one count at most; to how many counts does not matter.
        domain: every value that there may be, in the order by which ties are broken. Without it there may be others, none of which is
            counted; ties go to the value that is first by its type and then by itself, and any of the others is taken to be before all.
    """
    per_unit = rows * (2 if adjacency is Adjacency.REPLACE_ONE else 1)
    ranked = _in_order(counts) if domain is None else _declared(counts, domain)
    if domain is None and not any(counts.values()):
        return Stable(None, 0)
    first = max(range(len(ranked)), key=lambda place: (ranked[place][1], -place))
    answer, most = ranked[first]
    needed = [most - count + (place > first) for place, (_, count) in enumerate(ranked) if place != first]
    if domain is None:
        needed.append(most)  # of one that nobody has yet
    return Stable(answer, units_apart(min(needed), per_unit) if needed else UNREACHABLE)


def released_mode(
    counts: Mapping[Key, int],
    test: StabilityTest,
    draw: Draw,
    adjacency: Adjacency,
    rows: int = 1,
    domain: Sequence[Key] | None = None,
) -> Key | None:
    """The most common value where it passes the test, else None. Arguments as for `mode`."""
    return test.released(mode(counts, adjacency, rows, domain), draw)


def _in_order(counts: Mapping[Key, int]) -> list[tuple[Key, int]]:
    return sorted(counts.items(), key=lambda pair: tuple(_sortable(pair[0])))


def _sortable(key: Any) -> Iterator[tuple[str, Any]]:
    for part in key if isinstance(key, tuple) else (key,):
        yield type(part).__name__, part


def _declared(counts: Mapping[Key, int], domain: Sequence[Key]) -> list[tuple[Key, int]]:
    if not domain or len(set(domain)) < len(domain) or counts.keys() - set(domain):
        raise InternalError("a count of a value that is not in its domain, or twice in it: nothing was released")
    return [(key, counts.get(key, 0)) for key in domain]

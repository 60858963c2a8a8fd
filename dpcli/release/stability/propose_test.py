"""The test of propose-test-release. It passes if the noisy distance of the data from datasets with another answer exceeds a threshold.

measures/most_common.py releases a mode by it, and stable_statistics.py other statistics. A *unit* is whom the release protects, with all of
its rows. The *distance* is the number of units that may change without changing the answer. It moves by at most 1 between neighbours and is
0 next to data with another answer; the (epsilon, delta) of the test rests on these two facts and on a threshold that noise alone exceeds
with probability at most delta (Dwork & Lei 2009). So a distance must never be too large: an error of one breaks the guarantee.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from dpcli.mechanisms.neighbours import Adjacency
from dpcli.numerics.closed.discrete_tails import log_laplace_beyond
from dpcli.release.noise.laws import smallest_whole

Value = TypeVar("Value")
Key = TypeVar("Key")
Draw = Callable[[float], int]  # draws discrete Laplace noise of this scale
# Distance if no dataset has another answer, and the cap of every distance. Arbitrary, but above the threshold for any noise that can be
# drawn (`check_spread` in noise/laws.py), so that such an answer is released.
UNREACHABLE = 2**62


@dataclass(frozen=True, slots=True)
class StableAnswer(Generic[Value]):
    """An answer with its distance from other answers.

    answer: the answer; None if there are no data.
    distance: number of units that may change without changing the answer; 0 if a neighbouring dataset has another answer. For a number
        whose change is only bounded: of units that may change before one further unit can change it by more than the bound.
    """

    answer: Value | None
    distance: int


@dataclass(frozen=True, slots=True)
class StabilityTest:
    """The test of the mechanism type propose-test-release with this epsilon (in nats) and delta."""

    epsilon: float
    delta: float

    @property
    def scale(self) -> float:
        """Scale of the noise on the distance: 1 / epsilon, rounded up so that the noise is no smaller than the priced noise."""
        return math.nextafter(1.0 / self.epsilon, math.inf)

    @property
    def threshold(self) -> int:
        """The smallest T >= 0 that is certified to have P(DLap(scale) > T) <= delta."""
        return smallest_whole(lambda candidate: log_laplace_beyond(self.scale, candidate) <= math.log(self.delta))

    def release_probability(self, distance: int) -> float:
        """Return an upper bound on P(distance + DLap > threshold), with a relative error of at most 1e-12."""
        return math.exp(log_laplace_beyond(self.scale, self.threshold - distance))

    def passes(self, distance: int, draw: Draw) -> bool:
        """Draw noise and return whether the noisy distance exceeds the threshold."""
        return distance + draw(self.scale) > self.threshold

    def released(self, stable: StableAnswer[Value], draw: Draw) -> Value | None:
        """Draw noise and return the answer if it passes the test; None otherwise."""
        return stable.answer if self.passes(stable.distance, draw) else None


def units_apart(changes: int, per_unit: int) -> int:
    """Return the number of units that may change without changing the answer.

    changes: smallest number of changes that lead to another answer; at least 1.
    per_unit: largest number of changes that one unit makes.
    """
    needed_units = -(-changes // per_unit)  # the quotient, rounded up
    return min(needed_units - 1, UNREACHABLE)  # one unit less does not suffice


def mode(counts: Mapping[Key, int], adjacency: Adjacency, rows: int = 1) -> StableAnswer[Key]:
    """Return the most common value and its distance in units.

    Ties go to the first value in the order of type names and then of values. The domain is not declared, so a value that does not occur in
    the data might win a tie. One unit changes the gap between two counts by at most `rows`, and by twice as much if the unit is replaced.

    counts: number of rows or units with each value.
    rows: largest number of rows that one unit adds to one count. The number of counts to which it adds does not matter.
    """
    if not any(counts.values()):
        return StableAnswer(None, 0)
    per_unit = rows * (2 if adjacency is Adjacency.REPLACE_ONE else 1)
    ordered = sorted(counts, key=lambda key: tuple(_sortable(key)))
    answer = max(ordered, key=counts.__getitem__)  # the first of the most common values
    place = ordered.index(answer)
    # For each other value, how much the gap to the answer must shrink before it becomes the answer.
    before = [counts[answer] - counts[key] for key in ordered[:place]]  # these values win ties with the answer
    after = [counts[answer] - counts[key] + 1 for key in ordered[place + 1 :]]
    changes = (*before, *after, counts[answer])  # the last number is for a value that does not occur yet
    return StableAnswer(answer, units_apart(min(changes), per_unit))


def released_mode(counts: Mapping[Key, int], test: StabilityTest, draw: Draw, adjacency: Adjacency, rows: int = 1) -> Key | None:
    """Return the most common value if it passes the test; None otherwise. The other arguments are as in `mode`."""
    return test.released(mode(counts, adjacency, rows), draw)


def _sortable(key: Any) -> Iterator[tuple[str, Any]]:
    """Yield the type's name and the value of each part of a key, by which keys of different types can be sorted."""
    for part in key if isinstance(key, tuple) else (key,):
        yield type(part).__name__, part

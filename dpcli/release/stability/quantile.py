"""A quantile of whole numbers, and how many units keep it from moving further than is proposed."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate

from dpcli.base.errors import InternalError
from dpcli.mechanisms.neighbours import Adjacency
from dpcli.release.noise.scales import scale_of
from dpcli.release.stability.proposed import UNREACHABLE, Draw, StabilityTest, Stable

MEDIAN = Fraction(1, 2)
DOUBLES = 2**1000  # whole numbers below are no more than a double holds


@dataclass(frozen=True, slots=True)
class CountedNumbers:
    """Whole numbers, by how often each is there.

    adjacency: which data are neighbours. rows: that one unit has at most. always_one: whether every unit has exactly one row, whichever its
    data are; then a replacement leaves their number as it is. low, high: what no row is below or above, infinite where nothing is declared.
    """

    counts: Mapping[int, int]
    adjacency: Adjacency
    rows: int = 1
    always_one: bool = False
    low: float = -math.inf
    high: float = math.inf

    def __post_init__(self) -> None:
        if self.counts and not (self.low <= min(self.counts) and max(self.counts) <= self.high):
            raise InternalError("a number beyond the bounds that are declared for it: nothing was released")

    @property
    def swapped(self) -> bool:
        """Whether one row takes another's place, and nothing else changes."""
        return self.always_one and self.rows == 1 and self.adjacency is Adjacency.REPLACE_ONE

    @property
    def per_unit(self) -> int:
        """Rows that come, go or take another's place where one unit changes."""
        return self.rows * (2 if self.adjacency is Adjacency.REPLACE_ONE and not self.swapped else 1)


def quantile(numbers: CountedNumbers, share: Fraction) -> float:
    """The smallest number that is no less than this share of all; `low` where there are none."""
    rank = math.ceil(share * sum(numbers.counts.values()))
    passed = 0
    for value, count in sorted(numbers.counts.items()):
        passed += count
        if passed >= rank > 0:
            return value
    return numbers.low


def stable_quantile(numbers: CountedNumbers, share: Fraction, most: int) -> Stable[int]:
    """The quantile, None where there are no data, and a distance that is 0 where one unit may move it by more than `most`.

    For two places of the line further apart than `most`, a row of one unit brings the quantile from one to the other only where few rows
    lie between them and few would have to come or go on either side. The least of these numbers over all such places moves by at most 1
    for each row. For the median where rows are swapped it is the smallest k with max over j of x[m+j] - x[m+j-k-1] > most (Dwork & Lei
    2009, Differential privacy and robust statistics).
    """
    value = quantile(numbers, share)
    needed = min((_changes(numbers, share, *window) for window in _windows(numbers, most)), default=None)
    distance = UNREACHABLE if needed is None else min(needed // numbers.per_unit, UNREACHABLE)
    return Stable(int(value) if math.isfinite(value) else None, distance)


def released_quantile(
    numbers: CountedNumbers, share: Fraction, most: int, test: StabilityTest, epsilon: float, draw: Draw
) -> int | None:
    """The quantile with discrete Laplace noise of scale most / epsilon where it passes the test, else None.

    Priced by: propose-test-release, its `mechanism` a discrete-laplace entry of that scale and sensitivity `most`.
    """
    found = test.released(stable_quantile(numbers, share, most), draw)
    return None if found is None else found + draw(noise_scale(most, epsilon))


def noise_scale(most: int, epsilon: float) -> float:
    """most / epsilon, rounded up, and then the next double: releases that are stored are known by it.

    Raises InputError where that is more than a double holds.
    """
    least = scale_of(most, epsilon)
    return max(least, math.nextafter(float(most) / epsilon, math.inf)) if most < DOUBLES else least


def _windows(numbers: CountedNumbers, most: int) -> Iterator[tuple[int, int, int]]:
    """Rows up to a place, rows between it and the first one further than `most` away, and rows from that one on."""
    points: list[float] = sorted({numbers.low, *numbers.counts, numbers.high})
    passed = list(accumulate(numbers.counts.get(point, 0) for point in points))  # type: ignore[call-overload]
    right = 0
    for left, point in enumerate(points):
        while right < len(points) and not points[right] - point > most:
            right += 1
        if right == len(points):
            return
        yield passed[left], passed[right - 1] - passed[left], passed[-1] - passed[right - 1]


def _changes(numbers: CountedNumbers, share: Fraction, left: int, between: int, right: int) -> int:
    """Rows that may change before a single one could take the quantile from one side of the window to the other."""
    if numbers.swapped:
        rank = math.ceil(share * (left + between + right))
        to_right, to_left = left + between - rank + 1, rank - left
    else:
        above, below = share.numerator, share.denominator - share.numerator  # one row on a side weighs as many
        step = max(above, below)
        to_right = -(-(below * (left + between) - above * right + 1) // step)
        to_left = -((below * left - above * (between + right)) // step)
    return max(to_right - 1, to_left - 1, between)

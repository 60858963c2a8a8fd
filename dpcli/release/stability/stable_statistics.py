"""Quantiles, interquartile ranges and clustered means of whole numbers, by propose-test-release (propose_test.py).

A *unit* is whom the release protects, with all of its rows. A statistic is released only if a noisy test finds that few units cannot change
it by more than a proposed distance `most`. The functions here compute the exact statistic and its *distance*, the number of units that
could change before one further unit moves it by more than `most`, and then release it if the test passes. measures/stable.py calls them
with numbers that an engine counted: values in whole *steps*, the declared unit of rounding of a column. A distance that is too large by one
breaks the guarantee; one that is too small only costs answers.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from typing import NamedTuple

from dpcli.base.errors import InternalError
from dpcli.mechanisms.neighbours import Adjacency
from dpcli.release.noise.laws import scale_of
from dpcli.release.stability.propose_test import UNREACHABLE, Draw, StabilityTest, StableAnswer, released_mode
from dpcli.release.vectors import Contribution, sensitivity

QUARTILES = (Fraction(1, 4), Fraction(3, 4))
Gaussian = Callable[[float], int]  # function that draws discrete Gaussian noise of a given sigma


@dataclass(frozen=True, slots=True)
class CountedNumbers:
    """A multiset of whole numbers, one for each row, and a bound on what one unit may change.

    counts: number of rows with each whole number.
    rows: largest number of rows of one unit.
    one_row_always: true if every unit has exactly one row in every dataset. Replacing a unit then keeps the number of rows.
    low, high: declared bounds of the numbers; infinite if none are declared.
    """

    counts: Mapping[int, int]
    adjacency: Adjacency
    rows: int = 1
    one_row_always: bool = False
    low: float = -math.inf
    high: float = math.inf

    def __post_init__(self) -> None:
        if self.counts and not (self.low <= min(self.counts) and max(self.counts) <= self.high):
            raise InternalError("a number is beyond its declared bounds: nothing was released")

    @property
    def replaces_one_row(self) -> bool:
        """True if two neighbouring datasets differ in one row that replaces another, so that their numbers of rows are equal."""
        return self.one_row_always and self.rows == 1 and self.adjacency is Adjacency.REPLACE_ONE

    @property
    def per_unit(self) -> int:
        """Largest number of rows that are added, removed or replaced when one unit changes."""
        return self.rows * (2 if self.adjacency is Adjacency.REPLACE_ONE and not self.replaces_one_row else 1)


def quantile(numbers: CountedNumbers, share: Fraction) -> float:
    """Return the smallest number that at least this share of the rows does not exceed; `low` if there are no rows or the share is 0."""
    rank = math.ceil(share * sum(numbers.counts.values()))
    cumulative = 0
    for value, count in sorted(numbers.counts.items()):
        cumulative += count
        if cumulative >= rank > 0:
            return value
    return numbers.low


def stable_quantile(numbers: CountedNumbers, share: Fraction, most: int) -> StableAnswer[int]:
    """Return the quantile and its distance in units, for the test of propose-test-release.

    share: share of the rows below the quantile.
    most: proposed bound on the change of the quantile by one unit.

    The answer is None if there are no data. The distance is 0 if one unit may move the quantile by more than `most`.

    Consider two points of the line that are further apart than `most`. One row can move the quantile from one point to the other only if
    few rows lie between the points, and few rows would have to be added or removed on either side. The smallest of these numbers over all
    such pairs of points changes by at most 1 for each row. For the median of datasets that differ in a replaced row, it is the smallest k
    with max over j of x[m+j] - x[m+j-k-1] > most (Dwork & Lei 2009, Differential privacy and robust statistics).
    """
    value = quantile(numbers, share)
    # `changes` is None if no two points are further apart than `most`. The distance is then UNREACHABLE, the cap of all distances.
    changes = min((_changes(numbers, share, window) for window in _windows(numbers, most)), default=None)
    distance = UNREACHABLE if changes is None else min(changes // numbers.per_unit, UNREACHABLE)
    return StableAnswer(int(value) if math.isfinite(value) else None, distance)


def released_number(stable: StableAnswer[int], most: int, test: StabilityTest, epsilon: float, draw: Draw) -> int | None:
    """Return the number plus discrete Laplace noise of scale most / epsilon, rounded up; None if it fails the test.

    Priced by: propose-test-release whose `mechanism` is a discrete-laplace entry with this scale and sensitivity `most`.
    """
    value = test.released(stable, draw)
    return None if value is None else value + draw(scale_of(most, epsilon))


class WindowRows(NamedTuple):
    """The numbers of rows at two points of the line: up to the first, strictly between them, and from the second on."""

    left: int
    between: int
    right: int


def _windows(numbers: CountedNumbers, most: int) -> Iterator[WindowRows]:
    """Yield the numbers of rows for each pair of a point and the first later point that is further than `most` away: a window."""
    points: list[float] = sorted({numbers.low, *numbers.counts, numbers.high})
    rows_up_to = list(accumulate(numbers.counts.get(point, 0) for point in points))  # type: ignore[call-overload]
    right = 0  # index of the later point, which only grows as the first point moves on
    for left, point in enumerate(points):
        while right < len(points) and not points[right] - point > most:  # `not >`: infinity - infinity is NaN, and no distance
            right += 1
        if right == len(points):
            return
        before_right = rows_up_to[right - 1]
        yield WindowRows(rows_up_to[left], before_right - rows_up_to[left], rows_up_to[-1] - before_right)


def _changes(numbers: CountedNumbers, share: Fraction, window: WindowRows) -> int:
    """Return the number of rows that may change before one further row can move the quantile across the window.

    Let `to_right` rows have to change before the quantile can be at or beyond the second point, and `to_left` rows before it can be at or
    before the first. One row can move it across only if both numbers are at most 1, and no row lies between the points. Each changed row
    lowers the three numbers by at most 1.

    Let share = a/b. The quantile is below the second point if the rows below it satisfy (b - a) (left + between) >= a right, and it is at
    most the first point if (b - a) left >= a (between + right). An added or removed row changes the difference of the two sides by at most
    max(a, b - a). A row that replaces another keeps the rank, and changes the number of rows on one side of a point by at most 1.
    """
    left, between, right = window
    if numbers.replaces_one_row:
        rank = math.ceil(share * (left + between + right))
        to_right, to_left = left + between - rank + 1, rank - left
    else:
        a, b_minus_a = share.numerator, share.denominator - share.numerator
        largest_change = max(a, b_minus_a)
        # The quantile reaches the second point once the first inequality fails, so once the difference of its sides is at most -1. It is
        # at most the first point once the second inequality holds. The quotients are rounded up.
        to_right = -(-(b_minus_a * (left + between) - a * right + 1) // largest_change)
        to_left = -((b_minus_a * left - a * (between + right)) // largest_change)
    return max(to_right - 1, to_left - 1, between)


def stable_range(numbers: CountedNumbers, most: int) -> StableAnswer[int]:
    """Return the interquartile range and its distance in units, which is 0 if one unit may move the range by more than `most`.

    A single row that is added, removed or replaced never moves the two quartiles in opposite directions, so each may move by `most`.
    Several rows may do so, and then each quartile may move by half of `most`.

    Proof for an added row: It moves the lower quartile up only if the number of rows is a multiple of 4, and then the upper quartile does
    not move down. It moves the lower quartile down only if the row lies below that quartile, and then the upper quartile does not move up.
    """
    most_of_quartile = most if numbers.per_unit == 1 else most // 2
    lower, upper = (stable_quantile(numbers, share, most_of_quartile) for share in QUARTILES)
    answer = None if lower.answer is None or upper.answer is None else upper.answer - lower.answer
    return StableAnswer(answer, min(lower.distance, upper.distance))


@dataclass(frozen=True, slots=True)
class ThreeBins:
    """A bin of `width` whole numbers and its two neighbours. Every number is clamped to these three bins."""

    bin: int
    width: int

    @property
    def low(self) -> int:
        """The first number in the three bins."""
        return (self.bin - 1) * self.width

    @property
    def high(self) -> int:
        """The last number in the three bins."""
        return (self.bin + 2) * self.width - 1

    @property
    def centre(self) -> int:
        """The middle of the three bins, rounded down."""
        return (self.low + self.high) // 2

    def centred(self, counts: Mapping[int, int]) -> int:
        """Return the sum over all rows of the clamped number minus the centre."""
        total = 0
        for value, count in counts.items():
            clamped = min(max(value, self.low), self.high)
            total += count * (clamped - self.centre)
        return total


def farthest(width: int) -> int:
    """Return the largest distance of a clamped number from the centre: half of `high` - `low` = 3 width - 1, rounded up."""
    return -(-(3 * width - 1) // 2)


def centred_sum(rows: int, width: int) -> Contribution:
    """Return a bound on what the rows of one unit add to `ThreeBins.centred`."""
    most = farthest(width)
    least = most - (3 * width - 1)  # `low` minus the centre, which is rounded down
    return Contribution(1, rows, least, most, one_key=True)


def squared_sensitivity(adjacency: Adjacency, rows: int, width: int) -> int:
    """Return the squared L2 sensitivity of a pair of numbers: the centred sum, and the number of rows times `farthest`.

    With this factor a row that is added or removed moves both numbers by at most `farthest`, so both get noise of the same sigma. A
    replaced row moves only the sum, by up to twice as much. Under replace-one a unit may also have a row in one version alone, whose L2
    distance is smaller than that of a replaced row.
    """
    squared_l2_of_sum = sensitivity(adjacency, centred_sum(rows, width)).squared_l2
    return squared_l2_of_sum if adjacency is Adjacency.REPLACE_ONE else 2 * squared_l2_of_sum


def bins(counts: Mapping[int, int], width: int) -> dict[int, int]:
    """Return the number of rows in each bin of `width` whole numbers."""
    rows_in_bin: dict[int, int] = defaultdict(int)
    for value, count in counts.items():
        rows_in_bin[value // width] += count
    return rows_in_bin


def fullest_bin(numbers: CountedNumbers, width: int, test: StabilityTest, draw: Draw) -> ThreeBins | None:
    """Return the fullest bin with its neighbours; None if it fails the test. Priced by: propose-test-release."""
    fullest = released_mode(bins(numbers.counts, width), test, draw, numbers.adjacency, numbers.rows)
    return None if fullest is None else ThreeBins(fullest, width)


def released_mean(
    numbers: CountedNumbers, width: int, test: StabilityTest, sigma: float, draw: Draw, gaussian: Gaussian, count: int | None = None
) -> float | None:
    """Return the noisy mean of the numbers, clamped to the three bins around the fullest bin; None if that bin fails the test.

    Priced by: propose-test-release and a discrete-gaussian of this sigma. If the count is public, the sensitivity of the Gaussian is that
    of `centred_sum`, for one number. Otherwise it is the square root of `squared_sensitivity`, for two numbers.

    sigma: sigma of the noise on the sum, in whole numbers.
    draw, gaussian: samplers of discrete Laplace and discrete Gaussian noise.
    count: number of rows if it is public. If None, the number gets noise too, and is taken to be at least 1.
    """
    three_bins = fullest_bin(numbers, width, test, draw)
    if three_bins is None:
        return None
    total = three_bins.centred(numbers.counts) + gaussian(sigma)
    if count is not None:
        return three_bins.centre + total / count
    factor = farthest(width)  # the count is scaled, so that it needs the same sigma as the sum (`squared_sensitivity`)
    rows = (factor * sum(numbers.counts.values()) + gaussian(sigma)) / factor
    return three_bins.centre + total / max(rows, 1.0)

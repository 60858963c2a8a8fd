"""Quantiles, interquartile ranges and clustered means of whole numbers, released where few units could not move them far."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate

from dpcli.base.errors import InternalError
from dpcli.mechanisms.neighbours import Adjacency
from dpcli.release.noise.laws import scale_of
from dpcli.release.stability.propose_test import UNREACHABLE, Draw, StabilityTest, StableAnswer, released_mode
from dpcli.release.vectors import Contribution, sensitivity


@dataclass(frozen=True, slots=True)
class CountedNumbers:
    """Whole numbers with the count of each, and what one unit may change.

    Attributes:
        rows: Most rows of one unit.
        always_one: Whether every unit has exactly one row in every dataset, so that a replacement leaves their number as it is.
        low, high: Declared bounds of the numbers, infinite if there are none.
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
        """Tell whether neighbours differ in that one row takes another's place."""
        return self.always_one and self.rows == 1 and self.adjacency is Adjacency.REPLACE_ONE

    @property
    def per_unit(self) -> int:
        """The most rows that come, go or take another's place where one unit changes."""
        return self.rows * (2 if self.adjacency is Adjacency.REPLACE_ONE and not self.swapped else 1)


def quantile(numbers: CountedNumbers, share: Fraction) -> float:
    """Return the smallest number that is no less than this share of all; `low` if there are none."""
    rank = math.ceil(share * sum(numbers.counts.values()))
    passed = 0
    for value, count in sorted(numbers.counts.items()):
        passed += count
        if passed >= rank > 0:
            return value
    return numbers.low


def stable_quantile(numbers: CountedNumbers, share: Fraction, most: int) -> StableAnswer[int]:
    """Return the quantile, None if there are no data, and a distance that is 0 where one unit may move it by more than `most`.

    For two places of the line further apart than `most`, a row of one unit brings the quantile from one to the other only where few rows
    lie between them and few would have to come or go on either side. The least of these numbers over all such places moves by at most 1
    for each row. For the median where rows are swapped it is the smallest k with max over j of x[m+j] - x[m+j-k-1] > most (Dwork & Lei
    2009, Differential privacy and robust statistics).
    """
    value = quantile(numbers, share)
    needed = min((_changes(numbers, share, *window) for window in _windows(numbers, most)), default=None)
    distance = UNREACHABLE if needed is None else min(needed // numbers.per_unit, UNREACHABLE)
    return StableAnswer(int(value) if math.isfinite(value) else None, distance)


def released_number(stable: StableAnswer[int], most: int, test: StabilityTest, epsilon: float, draw: Draw) -> int | None:
    """Return the number with discrete Laplace noise of scale most / epsilon where it passes the test, else None.

    Priced by: propose-test-release, its `mechanism` a discrete-laplace entry of that scale and sensitivity `most`.
    """
    value = test.released(stable, draw)
    return None if value is None else value + draw(scale_of(most, epsilon))


def _windows(numbers: CountedNumbers, most: int) -> Iterator[tuple[int, int, int]]:
    """Yield for each place the rows up to it, those between it and the first place further than `most` away, and those from there on."""
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
    """Return how many rows may change before a single one could move the quantile across the window."""
    if numbers.swapped:
        rank = math.ceil(share * (left + between + right))
        to_right, to_left = left + between - rank + 1, rank - left
    else:
        above, below = share.numerator, share.denominator - share.numerator  # one row on a side weighs as many
        step = max(above, below)
        to_right = -(-(below * (left + between) - above * right + 1) // step)
        to_left = -((below * left - above * (between + right)) // step)
    return max(to_right - 1, to_left - 1, between)


QUARTILES = (Fraction(1, 4), Fraction(3, 4))


def stable_range(numbers: CountedNumbers, most: int) -> StableAnswer[int]:
    """Return the upper quartile less the lower one, and a distance that is 0 where one unit may move it by more than `most`.

    One row that comes, goes or takes another's place moves both quartiles the same way, if it moves them; several rows may move them
    towards each other, each by half of it. (One that comes moves the lower one up where the number of rows is a multiple of 4: then the
    upper one does not move down. It moves the lower one down only from below it: then the upper one does not move up.)
    """
    each = most if numbers.per_unit == 1 else most // 2
    low, high = (stable_quantile(numbers, share, each) for share in QUARTILES)
    answer = None if low.answer is None or high.answer is None else high.answer - low.answer
    return StableAnswer(answer, min(low.distance, high.distance))


Gaussian = Callable[[float], int]  # a whole number of discrete Gaussian noise of this sigma


@dataclass(frozen=True, slots=True)
class ThreeBins:
    """A bin of `width` whole numbers and its two neighbours, to which every number is clamped."""

    bin: int
    width: int

    @property
    def low(self) -> int:
        return (self.bin - 1) * self.width

    @property
    def high(self) -> int:
        """The last number in the three bins."""
        return (self.bin + 2) * self.width - 1

    @property
    def centre(self) -> int:
        return (self.low + self.high) // 2

    def centred(self, counts: Mapping[int, int]) -> int:
        """Return the sum of all numbers, each clamped, less the centre."""
        return sum(count * (min(max(value, self.low), self.high) - self.centre) for value, count in counts.items())


def farthest(width: int) -> int:
    """Return how far a clamped number may be from the centre: half of three bins, rounded up."""
    return -(-(3 * width - 1) // 2)


def centred_sum(rows: int, width: int) -> Contribution:
    """Return what the rows of one unit add to the centred sum of numbers that are clamped to three bins."""
    return Contribution(1, rows, 1 - 3 * width + farthest(width), farthest(width), one_key=True)


def squared_sensitivity(adjacency: Adjacency, rows: int, width: int) -> int:
    """Return the squared L2 sensitivity of the pair of the centred sum and the number of rows times `farthest`: both need the same noise.

    A replaced row moves only the sum. A row that comes or goes moves both, by less than that together.
    """
    moved = sensitivity(adjacency, centred_sum(rows, width)).squared_l2
    return moved if adjacency is Adjacency.REPLACE_ONE else 2 * moved


def bins(counts: Mapping[int, int], width: int) -> dict[int, int]:
    """Return the number of rows in each bin of `width` whole numbers."""
    counted: dict[int, int] = {}
    for value, count in counts.items():
        counted[value // width] = counted.get(value // width, 0) + count
    return counted


def fullest_bin(numbers: CountedNumbers, width: int, test: StabilityTest, draw: Draw) -> ThreeBins | None:
    """Return the fullest bin where it passes the test, else None. Priced by: propose-test-release."""
    fullest = released_mode(bins(numbers.counts, width), test, draw, numbers.adjacency, numbers.rows)
    return None if fullest is None else ThreeBins(fullest, width)


def released_mean(
    numbers: CountedNumbers, width: int, test: StabilityTest, sigma: float, draw: Draw, gaussian: Gaussian, count: int | None = None
) -> float | None:
    """Return the mean of the numbers, each clamped to three bins around the fullest one; None if that does not pass the test.

    Priced by: propose-test-release, and beside it discrete-gaussian of this sigma with the sensitivity of `centred_sum` for one number, or
    with `squared_sensitivity` for two if the count is not public.

    Args:
        width: Width of a bin, in whole numbers.
        sigma: Sigma of the noise on the sum, in the same.
        count: The number of rows where it is public; otherwise it gets noise, too, and is at least 1.
    """
    around = fullest_bin(numbers, width, test, draw)
    if around is None:
        return None
    total = around.centred(numbers.counts) + gaussian(sigma)
    if count is not None:
        return around.centre + total / count
    times = farthest(width)
    rows = (times * sum(numbers.counts.values()) + gaussian(sigma)) / times
    return around.centre + total / max(rows, 1.0)

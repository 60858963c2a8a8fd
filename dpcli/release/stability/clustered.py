"""The mean of numbers that lie close together, nobody knows where: the fullest bin by a test, then the mean clamped around it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from dpcli.mechanisms.neighbours import Adjacency
from dpcli.release.stability.mode import released_mode
from dpcli.release.stability.proposed import Draw, StabilityTest
from dpcli.release.stability.quantile import CountedNumbers

Gaussian = Callable[[float], int]  # a whole number of discrete Gaussian noise of this sigma


@dataclass(frozen=True, slots=True)
class Around:
    """A bin of `width` whole numbers and the two beside it, to which every number is clamped."""

    bin: int
    width: int

    @property
    def low(self) -> int:
        return (self.bin - 1) * self.width

    @property
    def high(self) -> int:
        """Of the last number in it."""
        return (self.bin + 2) * self.width - 1

    @property
    def centre(self) -> int:
        return (self.low + self.high) // 2

    def centred(self, counts: Mapping[int, int]) -> int:
        """The sum of all numbers less the centre, each clamped."""
        return sum(count * (min(max(value, self.low), self.high) - self.centre) for value, count in counts.items())


def farthest(width: int) -> int:
    """How far a clamped number may be from the centre: half of three bins, rounded up."""
    return -(-(3 * width - 1) // 2)


def sum_sensitivity(numbers: CountedNumbers, width: int) -> int:
    """By how much one unit moves the centred sum: half of three bins for a row that comes or goes, all of them for one that is replaced."""
    return numbers.rows * (3 * width - 1 if _replaces(numbers) else farthest(width))


def l2_sensitivity(numbers: CountedNumbers, width: int) -> float:
    """Of the pair of the centred sum and the number of rows, the latter times `farthest`, so that both need the same noise; rounded up.

    A row that is replaced moves the sum alone; one that comes or goes moves both, by less than that together.
    """
    if _replaces(numbers):
        return float(sum_sensitivity(numbers, width))
    return math.nextafter(numbers.rows * farthest(width) * math.sqrt(2.0), math.inf)


def _replaces(numbers: CountedNumbers) -> bool:
    return numbers.adjacency is Adjacency.REPLACE_ONE


def bins(counts: Mapping[int, int], width: int) -> dict[int, int]:
    """Rows in each bin of `width` whole numbers."""
    found: dict[int, int] = {}
    for value, count in counts.items():
        found[value // width] = found.get(value // width, 0) + count
    return found


def fullest_bin(numbers: CountedNumbers, width: int, test: StabilityTest, draw: Draw) -> Around | None:
    """The fullest bin where it passes the test, else None. Priced by: propose-test-release."""
    found = released_mode(bins(numbers.counts, width), test, draw, numbers.adjacency, numbers.rows)
    return None if found is None else Around(found, width)


def released_mean(
    numbers: CountedNumbers, width: int, test: StabilityTest, sigma: float, draw: Draw, gaussian: Gaussian, count: int | None = None
) -> float | None:
    """The mean of the numbers, each clamped to three bins around the fullest one; None where that does not pass the test.

    Args:
        width: of a bin, in whole numbers. sigma: of the noise on the sum, in the same.
        count: the number of rows where it is public; otherwise it gets noise, too, and is at least 1.

    Priced by: propose-test-release, and beside it discrete-gaussian of this sigma with `sum_sensitivity` for one number, or with
    `l2_sensitivity` for two where the count is not public.
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

"""The interquartile range of whole numbers, tested as a quantile is."""

from __future__ import annotations

from fractions import Fraction

from dpcli.release.stability.proposed import Draw, StabilityTest, Stable
from dpcli.release.stability.quantile import CountedNumbers, noise_scale, stable_quantile

LOWER, UPPER = Fraction(1, 4), Fraction(3, 4)


def stable_range(numbers: CountedNumbers, most: int) -> Stable[int]:
    """The upper quartile less the lower one, and a distance that is 0 where one unit may move it by more than `most`.

    One row that comes, goes or takes another's place moves both quartiles the same way, if it moves them; several rows may move them
    towards each other, each by half of it. (One that comes moves the lower one up where the number of rows is a multiple of 4: then the
    upper one does not move down. It moves the lower one down only from below it: then the upper one does not move up.)
    """
    each = most if numbers.per_unit == 1 else most // 2
    low, high = (stable_quantile(numbers, share, each) for share in (LOWER, UPPER))
    answer = None if low.answer is None or high.answer is None else high.answer - low.answer
    return Stable(answer, min(low.distance, high.distance))


def released_range(numbers: CountedNumbers, most: int, test: StabilityTest, epsilon: float, draw: Draw) -> int | None:
    """The range with discrete Laplace noise of scale most / epsilon where it passes the test, else None.

    Priced by: propose-test-release, its `mechanism` a discrete-laplace entry of that scale and sensitivity `most`.
    """
    found = test.released(stable_range(numbers, most), draw)
    return None if found is None else found + draw(noise_scale(most, epsilon))

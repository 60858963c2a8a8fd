"""Postprocessing of noisy answers: changes to numbers that have their noise already, which cost no privacy.

A query states "non-negative" or "whole" (POSTPROCESSING). A count with `totals = true` is also made consistent: its parts, the counts by
key, then add up to the total. The answer names each kind that was applied, in the words below: a reader must know that a 0 may have been a
negative number. No interval becomes less likely to cover the truth (for "whole", a truth that is whole).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from dpcli.release.answers.intervals import ConfidenceInterval

NON_NEGATIVE = (
    "non-negative: an answer below 0 is shown as 0, and its interval is cut at 0; the confidence of the interval is unchanged"
)
WHOLE = (
    "whole: the answer is rounded, and its interval is reduced to whole numbers; if the truth is whole, its confidence is unchanged"
)
CONSISTENT = (
    "consistent: a total and its parts are adjusted by least squares and rounded to whole numbers, so that the parts add up to the total, "
    "with none below 0 if postprocess has non-negative; the intervals are those before the adjustment, with unchanged confidence"
)


def cut_at_zero(answer: float, interval: ConfidenceInterval) -> tuple[float, ConfidenceInterval]:
    """Return an answer and its interval cut at 0, for a count or a sum of values that are never negative. See NON_NEGATIVE."""
    return max(answer, 0.0), replace(interval, low=max(interval.low, 0.0), high=max(interval.high, 0.0))


def round_to_whole(answer: float, interval: ConfidenceInterval) -> tuple[float, ConfidenceInterval]:
    """Return an answer whose true value is an integer, rounded with halves up, and its interval reduced to integers.

    See WHOLE. If the interval contains no integer, it does not contain the true value either, and both of its ends become the rounded
    answer.
    """
    nearest = float(math.floor(answer + 0.5))
    low, high = float(math.ceil(interval.low)), float(math.floor(interval.high))
    if low > high:
        low = high = nearest
    return nearest, replace(interval, low=low, high=high)


@dataclass(frozen=True, slots=True)
class Postprocessing:
    """A kind of postprocessing that a query can state.

    apply: function that changes an answer and its interval.
    words: description for the output.
    """

    apply: Callable[[float, ConfidenceInterval], tuple[float, ConfidenceInterval]]
    words: str


POSTPROCESSING = {
    "non-negative": Postprocessing(cut_at_zero, NON_NEGATIVE),
    "whole": Postprocessing(round_to_whole, WHOLE),
}


def make_consistent(total: int, parts: Sequence[int], total_variance: Fraction, part_variance: Fraction) -> list[int]:
    """Return integers for the parts that are consistent with a noisy total. The sum of the returned parts is the new total.

    See CONSISTENT. The parts are fitted by least squares with weights 1/variance, in exact rational arithmetic. The total is averaged with
    the sum of the parts, and the difference is divided evenly among the parts (Hay, Rastogi, Miklau, Suciu 2010, arXiv:0904.0942). Then
    the parts are rounded by largest remainder, which changes each part by less than 1.
    """
    count = len(parts)
    if count == 0:
        return []
    weight = count * part_variance / (count * part_variance + total_variance)
    exact = weight * total + (1 - weight) * sum(parts)
    share = (exact - sum(parts)) / count
    return _by_remainder([part + share for part in parts], math.floor(exact + Fraction(1, 2)))


def _by_remainder(values: Sequence[Fraction], total: int) -> list[int]:
    """Return the values rounded to integers with the sum `total`. Values with the largest remainders are rounded up."""
    floors = list(map(math.floor, values))
    increase_of_all, increased_further = divmod(total - sum(floors), len(values))
    by_remainder = sorted(range(len(values)), key=lambda place: floors[place] - values[place])  # the largest remainder first
    rounded = [floor + increase_of_all for floor in floors]
    for place in by_remainder[:increased_further]:
        rounded[place] += 1
    return rounded

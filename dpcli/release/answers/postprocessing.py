"""Postprocessing of noisy answers, which costs no privacy; the output names each kind that was applied."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from dpcli.release.answers.intervals import ConfidenceInterval

NON_NEGATIVE = "non-negative: an answer below 0 is shown as 0, and its interval is cut there; it holds the truth as often as before"
WHOLE = "whole: the answer is rounded, and its interval keeps the whole numbers in it; it holds a whole truth as often as before"
CONSISTENT = (
    "consistent: the answers of a total and of its parts are moved by least squares, then to whole numbers, so that the parts add up, none "
    "below 0 where that is asked; intervals stay those of the answers before, and hold the truth as often"
)


def non_negative(answer: float, interval: ConfidenceInterval) -> tuple[float, ConfidenceInterval]:
    """Cut a count, or a sum of values that are never negative, at 0. See NON_NEGATIVE."""
    return max(answer, 0.0), replace(interval, low=max(interval.low, 0.0), high=max(interval.high, 0.0))


def rounded(answer: float, interval: ConfidenceInterval) -> tuple[float, ConfidenceInterval]:
    """Round what is whole in truth, halves up. See WHOLE. An interval without a whole number becomes the answer alone."""
    nearest = float(math.floor(answer + 0.5))
    low, high = math.ceil(interval.low), math.floor(interval.high)
    ends = (float(low), float(high)) if low <= high else (nearest, nearest)
    return nearest, replace(interval, low=ends[0], high=ends[1])


def consistent(total: int, parts: Sequence[int], total_variance: Fraction, part_variance: Fraction) -> list[int]:
    """Return whole numbers for the parts, near a noisy total and its noisy parts; their sum is the new total.

    See CONSISTENT. Least squares weighted by 1/variance, exact in rationals: the total is averaged with the sum of its parts, and the
    difference is divided evenly among them (Hay, Rastogi, Miklau, Suciu 2010, arXiv:0904.0942). Rounding is by largest remainder, so that
    it moves no part by 1 or more.

    Args:
        part_variance: Part variance of the noise of each part.
    """
    count = len(parts)
    if count == 0:
        return []
    weight = count * part_variance / (count * part_variance + total_variance)
    exact = weight * total + (1 - weight) * sum(parts)
    share = (exact - sum(parts)) / count
    return _by_remainder([part + share for part in parts], math.floor(exact + Fraction(1, 2)))


def _by_remainder(values: Sequence[Fraction], total: int) -> list[int]:
    """Round to whole numbers that add up to total: down, then up again for the largest remainders."""
    floors = [math.floor(value) for value in values]
    order = sorted(range(len(values)), key=lambda i: floors[i] - values[i])
    rounds, rest = divmod(total - sum(floors), len(values))
    more = set(order[:rest])
    return [floor + rounds + (i in more) for i, floor in enumerate(floors)]

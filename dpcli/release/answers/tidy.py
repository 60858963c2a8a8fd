"""Postprocessing of noisy answers, at no cost in privacy: each is an option, and the output names those that were taken."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from dpcli.release.answers.intervals import ConfidenceInterval

NON_NEGATIVE = "non-negative: an answer below 0 is shown as 0, and its interval is cut there; it holds the truth as often as before"
WHOLE = "whole: the answer is rounded, and its interval keeps the whole numbers in it; it holds a whole truth as often as before"
CONSISTENT = (
    "consistent: the answers of a total and of its parts are moved by least squares, then to whole numbers, so that the parts add up, none "
    "below 0 where that is asked; intervals stay those of the answers before, and hold the truth as often"
)


def non_negative(answer: float, interval: ConfidenceInterval) -> tuple[float, ConfidenceInterval]:
    """For counts, and sums of values that are never negative. See NON_NEGATIVE."""
    return max(answer, 0.0), replace(interval, low=max(interval.low, 0.0), high=max(interval.high, 0.0))


def rounded(answer: float, interval: ConfidenceInterval) -> tuple[float, ConfidenceInterval]:
    """For what is whole in truth: halves are rounded up. See WHOLE. An interval without a whole number becomes the answer alone."""
    nearest = float(math.floor(answer + 0.5))
    low, high = math.ceil(interval.low), math.floor(interval.high)
    ends = (float(low), float(high)) if low <= high else (nearest, nearest)
    return nearest, replace(interval, low=ends[0], high=ends[1])


@dataclass(frozen=True, slots=True)
class NoisyTotal:
    """A noisy answer and the parts that add up to it in truth; none for what is not divided further."""

    noisy: int
    variance: Fraction
    parts: tuple[NoisyTotal, ...] = ()


@dataclass(frozen=True, slots=True)
class Adjusted:
    """A total after adjustment: `value` is the sum of those of its parts."""

    value: int
    parts: tuple[Adjusted, ...] = ()


def consistent(total: NoisyTotal) -> Adjusted:
    """The answers that are nearest to the noisy ones by least squares weighted by 1/variance, then whole ones that still add up.

    See CONSISTENT. The first step is exact, in rationals: upwards each total is averaged with the sum of its parts, downwards what is
    missing is divided by their variances (Hay, Rastogi, Miklau, Suciu 2010, arXiv:0904.0942). Whole numbers go by largest remainder, so
    that none is moved by 1 or more for the rounding of its siblings.
    """
    return _downwards(total, _upwards(total)[0])


def _upwards(total: NoisyTotal) -> tuple[Fraction, Fraction]:
    """(estimate, variance) from the total itself and all beneath it."""
    if not total.parts:
        return Fraction(total.noisy), total.variance
    beneath = [_upwards(part) for part in total.parts]
    summed, variance = sum((each[0] for each in beneath), Fraction(0)), sum((each[1] for each in beneath), Fraction(0))
    weight = variance / (variance + total.variance)
    return weight * total.noisy + (1 - weight) * summed, weight * total.variance


def _downwards(total: NoisyTotal, value: Fraction) -> Adjusted:
    return _whole_parts(total, value, math.floor(value + Fraction(1, 2)))


def _whole_parts(total: NoisyTotal, value: Fraction, settled: int) -> Adjusted:
    """`settled` is the whole number for this total, within 1 of its exact `value`."""
    if not total.parts:
        return Adjusted(settled)
    beneath = [_upwards(part) for part in total.parts]
    variance = sum((each[1] for each in beneath), Fraction(0))
    missing = value - sum((each[0] for each in beneath), Fraction(0))
    values = [estimate + missing * own / variance for estimate, own in beneath]
    wholes = _by_remainder(values, settled)
    return Adjusted(settled, tuple(_whole_parts(*each) for each in zip(total.parts, values, wholes, strict=True)))


def _by_remainder(values: Sequence[Fraction], total: int) -> list[int]:
    """Whole numbers that add up to total: rounded down, then 1 more for the largest remainders."""
    floors = [math.floor(value) for value in values]
    order = sorted(range(len(values)), key=lambda i: floors[i] - values[i])
    rounds, rest = divmod(total - sum(floors), len(values))
    more = set(order[:rest])
    return [floor + rounds + (i in more) for i, floor in enumerate(floors)]

"""Confidence intervals of noisy answers, and the noise that meets a target error."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Context, Decimal
from fractions import Fraction

from dpcli.base.errors import InputError
from dpcli.release.noise.laws import LARGEST, NoiseLaw, failure_of, half_width

HALVINGS = 200  # of a bisection, at most
CLOSE = 1e-4  # how far beyond the true end an end may be, relative to its distance from the start
LOOKS = 16  # values tried between an end and the end of the range


@dataclass(frozen=True, slots=True)
class ConfidenceInterval:
    """low <= truth <= high with probability at least `confidence`, over the noise alone.

    The truth is the exact answer that the noise was added to: of rows that were clamped, and of those that were kept. What clamping and
    dropped rows have changed is not covered.
    """

    low: float
    high: float
    confidence: float


def accepted(accepts: Callable[[float], bool], start: float, low: float, high: float) -> tuple[float, float]:
    """Return the ends of an interval within [low, high] that holds the values which a test accepts, searched from `start`.

    Each end is rounded outwards. An end of the range is returned if it is accepted itself, where one of LOOKS values beyond the end of
    the search is, and where `start` is refused, as then the accepted values may lie anywhere.
    """
    if not accepts(start):
        return low, high
    return _end(accepts, start, low), _end(accepts, start, high)


def _end(accepts: Callable[[float], bool], start: float, limit: float) -> float:
    if accepts(limit):
        return limit
    inside, outside = start, limit
    for _ in range(HALVINGS):
        middle = 0.5 * (inside + outside)
        if abs(outside - inside) <= CLOSE * abs(inside - start) or middle in (inside, outside):
            break
        inside, outside = (middle, outside) if accepts(middle) else (inside, middle)
    looks = (outside + (limit - outside) * step / LOOKS for step in range(1, LOOKS))
    return limit if any(accepts(look) for look in looks) else outside


def on_grid(steps: int, step: float) -> float:
    """Return the double nearest to steps times the step as a decimal: 1234 of 0.01 are 12.34. Every released number is made here."""
    return float(steps * Fraction(repr(step)))


def additive_interval(noisy: int, law: NoiseLaw, confidence: float, step: float = 1.0) -> ConfidenceInterval:
    """Return the interval of a noisy count or sum: the shortest whole one by the law of its noise.

    Args:
        noisy: In steps.
        law: Law of its noise, in steps.
        step: Step of the data; 1 for a count.
    """
    return _around(noisy, half_width(law, confidence), confidence, step)


def expected_error(law: NoiseLaw, confidence: float, step: float = 1.0) -> float:
    """Return half the width of the interval, in units of the answer: known before any data are seen."""
    return on_grid(half_width(law, confidence), step)


def public_mean_interval(noisy: int, law: NoiseLaw, confidence: float, count: int, step: float = 1.0) -> ConfidenceInterval:
    """Return the interval of a mean over a declared count: the sum's, divided and moved outwards by one ulp."""
    around = additive_interval(noisy, law, confidence, step)
    low, high = around.low / count, around.high / count
    return ConfidenceInterval(math.nextafter(low, -math.inf), math.nextafter(high, math.inf), confidence)


def _around(noisy: int, half: int, confidence: float, step: float) -> ConfidenceInterval:
    return ConfidenceInterval(on_grid(noisy - half, step), on_grid(noisy + half, step), confidence)


DIGITS = 6  # of a spread that dpcli chooses
FARTHEST = 2**62  # beyond it the widest noise falls with a probability below e^-4000


def spread_within(law: Callable[[float], NoiseLaw], steps: int, confidence: float) -> float:
    """Return the largest scale, or sigma, of six digits with P(|X| <= steps) >= confidence: the cheapest noise within `steps`.

    Args:
        law: DiscreteLaplaceLaw or DiscreteGaussianLaw; its tails grow with its scale.
        steps: Error that is allowed, in whole steps.
        confidence: In (0, 1).

    Raises:
        InputError: No noise of scale 0.001 or more is that small.
    """
    failure, steps = failure_of(confidence), min(steps, FARTHEST)

    def kept(spread: float) -> bool:
        return law(spread).exceeds(steps) <= failure

    low, high = 1e-3, LARGEST
    if steps < 0 or not kept(low):
        raise InputError(f"no noise stays within {steps} steps with confidence {confidence!r}")
    if kept(high):
        return high
    while high / low > 1.0 + 1e-9:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if kept(middle) else (low, middle)
    return _kept(low, kept)


def _kept(spread: float, kept: Callable[[float], bool]) -> float:
    """Return the spread rounded down to few digits if it is kept too, else the spread itself."""
    rounded = float(Context(prec=DIGITS, rounding=ROUND_FLOOR).plus(Decimal(spread)))
    return rounded if kept(rounded) else spread


def whole_steps(within: float, step: float) -> int:
    """Return how many steps fit into an error, both taken as decimals."""
    return math.floor(Fraction(repr(within)) / Fraction(repr(step)))

"""From "within 100 of the truth, 19 times in 20" to the noise that keeps the promise."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_FLOOR, Context, Decimal
from fractions import Fraction

from dpcli.base.errors import InputError
from dpcli.release.noise.laws import LARGEST, NoiseLaw, failure_of

DIGITS = 6
FARTHEST = 2**62  # beyond it the widest noise falls with a probability below e^-4000


def spread_within(law: Callable[[float], NoiseLaw], steps: int, confidence: float) -> float:
    """The largest scale, or sigma, of six digits with P(|X| <= steps) >= confidence: the cheapest noise that is within `steps`.

    Args:
        law: DiscreteLaplaceLaw or DiscreteGaussianLaw; its tails grow with its scale.
        steps: error that is allowed, in whole steps.
        confidence: in (0, 1).

    Raises:
        InputError: no noise that is worth its name is that small.
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
    """The spread of few digits just below, if the promise holds there too; else itself."""
    rounded = float(Context(prec=DIGITS, rounding=ROUND_FLOOR).plus(Decimal(spread)))
    return rounded if kept(rounded) else spread


def whole_steps(within: float, step: float) -> int:
    """How many steps fit into an error, both taken as they are written."""
    return math.floor(Fraction(repr(within)) / Fraction(repr(step)))

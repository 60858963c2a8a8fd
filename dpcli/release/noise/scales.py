"""The least noise that costs no more than was said: exactly, in rationals, rounded up to a double."""

from __future__ import annotations

import math
from fractions import Fraction

from dpcli.base.errors import InputError
from dpcli.base.stated import stated


def scale_of(sensitivity: int | Fraction, epsilon: float) -> float:
    """Return the smallest double with sensitivity / scale <= epsilon, as stated.

    The scale of discrete Laplace noise, or of a choice whose scores have this range.
    """
    return rounded_up(Fraction(sensitivity) / stated(epsilon))


def sigma_of(squared_sensitivity: int | Fraction, rho: float) -> float:
    """The smallest double with squared_sensitivity / (2 sigma^2) <= rho; the square of an L2 sensitivity is exact where its root is not."""
    wanted = Fraction(squared_sensitivity) / (2 * stated(rho))
    sigma = math.sqrt(_double(wanted)) * (1.0 - 1e-15)
    while Fraction(sigma) ** 2 < wanted:
        sigma = math.nextafter(sigma, math.inf)
    return sigma


def rounded_up(exact: Fraction) -> float:
    """The smallest double that is no less."""
    nearest = _double(exact)
    return nearest if Fraction(nearest) >= exact else math.nextafter(nearest, math.inf)


def _double(exact: Fraction) -> float:
    """The nearest one. Raises InputError where it is too large for a double."""
    try:
        return float(exact)
    except OverflowError:
        raise InputError(
            "expected noise of at most 2^50 steps, found more than a double holds: it costs too little, or a unit adds too much"
        ) from None

"""Exact arithmetic on the decimals that files state: 0.1 is exactly one tenth, and three times 0.1 is 0.3.

A file, a flag or a policy states a decimal, and a float holds the nearest binary number. The functions of this module recover the stated
decimals as fractions, compute with them exactly, and round the result up once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from functools import lru_cache

DIGITS = 15  # every decimal of at most so many significant digits can be recovered from the nearest float
LARGEST_DENOMINATOR = 1_000_000  # for a float that is a quotient of stated numbers, such as sensitivity / scale


@lru_cache(4096)
def stated(x: float) -> Fraction:
    """Return the number that a finite float stands for. This is the first of these that exists:

    * the decimal of at most 15 significant digits that `repr` gives,
    * a fraction with a denominator of at most a million to which `x` is the nearest float,
    * the exact binary value of the float.
    """
    written = repr(float(x))  # float() because the repr of a NumPy number is no decimal
    if sum(character.isdigit() for character in written.partition("e")[0].replace(".", "").strip("-0")) <= DIGITS:
        return Fraction(written)
    exact = Fraction(x)
    simple = exact.limit_denominator(LARGEST_DENOMINATOR)
    return simple if simple and float(simple) == x else exact


def upward(exact: Fraction) -> float:
    """Round up: return a float that stands for at least `exact`, the nearest float or the one above; inf if `exact` is too large."""
    try:
        near = float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf
    return near if stated(near) >= exact else math.nextafter(near, math.inf)


def quotient(numerator: float, denominator: float) -> float:
    """Return the quotient of two stated numbers, rounded up."""
    return upward(stated(numerator) / stated(denominator))


def total(terms: Iterable[tuple[int, float]]) -> float:
    """Return the sum of count * number over all pairs (count, number), rounded up; inf if a number with a count above 0 is infinite."""
    listed = [(count, x) for count, x in terms if count]
    if any(math.isinf(x) for _, x in listed):
        return math.inf
    return upward(sum((count * stated(x) for count, x in listed), Fraction(0)))


def difference(x: float, y: float) -> float:
    """Return x - y of stated numbers, rounded up. If one is infinite, the result is that of float subtraction."""
    return upward(stated(x) - stated(y)) if math.isfinite(x) and math.isfinite(y) else x - y


def product(x: float, y: float) -> float:
    """Return x * y of stated numbers, rounded up. If one is infinite, the result is that of float multiplication."""
    return upward(stated(x) * stated(y)) if math.isfinite(x) and math.isfinite(y) else x * y


def squared(x: float, divisor: int = 1) -> float:
    """Return x^2 / divisor of a stated number, rounded up."""
    return upward(stated(x) ** 2 / divisor) if math.isfinite(x) else math.inf


def multiple(count: int, x: float) -> float:
    """Return count * x of a stated number, rounded up."""
    return total([(count, x)])

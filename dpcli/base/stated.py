"""Exact arithmetic on stated decimals: 0.1 is a tenth, and three times 0.1 is 0.3.

A file, a flag or a policy states decimals, and a float holds the nearest binary number. Costs are therefore added as the numbers that the
floats stand for, without rounding, and rounded once, upwards.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from functools import lru_cache

DIGITS = 15  # that a decimal may have to survive the way through a float
LARGEST_DENOMINATOR = 1_000_000  # of a stated quotient, such as sensitivity / scale


@lru_cache(4096)
def stated(x: float) -> Fraction:
    """Return the number that a finite float stands for.

    A decimal of at most 15 digits; else a fraction with a denominator of at most a million to which `x` is the nearest float; else the
    exact binary number.
    """
    written = repr(float(x))  # of a NumPy number too
    if sum(character.isdigit() for character in written.partition("e")[0].replace(".", "").strip("-0")) <= DIGITS:
        return Fraction(written)
    exact = Fraction(x)
    simple = exact.limit_denominator(LARGEST_DENOMINATOR)
    return simple if simple and float(simple) == x else exact


def upward(exact: Fraction) -> float:
    """Return the smallest float that stands for no less than `exact`, and inf where there is none."""
    try:
        near = float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf
    return near if stated(near) >= exact else math.nextafter(near, math.inf)


def quotient(numerator: float, denominator: float) -> float:
    """Return the quotient of two stated numbers, rounded upwards."""
    return upward(stated(numerator) / stated(denominator))


def total(terms: Iterable[tuple[int, float]]) -> float:
    """Return the sum of count * number over (count, number), each number as stated, rounded once, upwards; inf where one is infinite."""
    listed = [(count, x) for count, x in terms if count]
    if any(math.isinf(x) for _, x in listed):
        return math.inf
    return upward(sum((count * stated(x) for count, x in listed), Fraction(0)))


def difference(x: float, y: float) -> float:
    """Return x - y, each as stated, rounded upwards; NaN where both are infinite."""
    return upward(stated(x) - stated(y)) if math.isfinite(x) and math.isfinite(y) else x - y


def product(x: float, y: float) -> float:
    """Return x * y, each as stated, rounded upwards; what floats make of it where one is infinite."""
    return upward(stated(x) * stated(y)) if math.isfinite(x) and math.isfinite(y) else x * y


def squared(x: float, divisor: int = 1) -> float:
    """Return x^2 / divisor, x as stated, rounded upwards."""
    return upward(stated(x) ** 2 / divisor) if math.isfinite(x) else math.inf


def multiple(count: int, x: float) -> float:
    """Return count * number, as stated, rounded upwards."""
    return total([(count, x)])

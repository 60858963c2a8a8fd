"""Exact arithmetic on decimals that a user states, so that 0.1 is a tenth and three times 0.1 is 0.3.

Files, flags and policies state decimals, and a float stores the nearest binary number: 3 * 0.1 is 0.30000000000000004 in Python, and three
runs at epsilon 0.1 would exceed a cap of 0.3. The functions therefore compute with the stated numbers, without rounding, and round the
result once, upwards, because a cost may only err upwards. What is left of a cap may only err downwards: it is `-difference(spent, cap)`,
since rounding spent - cap up rounds its negative down.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from fractions import Fraction
from functools import lru_cache

from dpcli.base.errors import InputError

# A float determines the decimal with at most this number of digits from which it was read.
DIGITS = 15
# Largest denominator of a quotient, such as 1 / 3, that is recovered from its nearest float. Arbitrary; if another number was meant, it has
# the same nearest float, so the error is below the rounding of floats.
LARGEST_DENOMINATOR = 1_000_000
# How far the inverse of a share may be above a whole number without being rounded up: 0.3333 stands for 1/3, and its inverse is 3.0003.
ROUNDING = 0.01


@lru_cache(4096)  # a file may state one number many times; the size is arbitrary
def stated(x: float) -> Fraction:
    """Return the number that somebody meant who wrote a finite float: the first of these that exists.

    * The decimal as which `x` prints, if it has at most 15 digits: 0.1 is 1/10.
    * The fraction with a denominator of at most a million whose nearest float is `x`: 1 / 3 is 1/3.
    * The exact binary number.
    """
    decimal = repr(float(x))  # float() also converts a NumPy number
    digits = decimal.partition("e")[0].replace(".", "").strip("-0")
    if len(digits) <= DIGITS:
        return Fraction(decimal)
    exact = Fraction(x)
    simple = exact.limit_denominator(LARGEST_DENOMINATOR)
    return simple if simple and float(simple) == x else exact


def upward(exact: Fraction) -> float:
    """Return the float nearest to `exact` if the number that it stands for (`stated`) is at least `exact`; else the next larger float.

    The result is inf if `exact` is above all finite floats, and the least finite float if it is below all.
    """
    try:
        near = float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -sys.float_info.max
    return near if stated(near) >= exact else math.nextafter(near, math.inf)


def quotient(numerator: float, denominator: float) -> float:
    """Return the quotient of two stated finite numbers, rounded up. Raises ZeroDivisionError if the denominator is 0."""
    return upward(stated(numerator) / stated(denominator))


def total(terms: Iterable[tuple[int, float]]) -> float:
    """Return the sum of count * number over pairs (count, number), rounded upwards once.

    Each number counts as stated. The sum is inf if a number with a positive count is infinite.
    """
    nonzero = [(count, x) for count, x in terms if count]  # 0 times infinity counts as 0
    if any(math.isinf(x) for _, x in nonzero):
        return math.inf
    return upward(sum((count * stated(x) for count, x in nonzero), Fraction(0)))


def difference(x: float, y: float) -> float:
    """Return the difference of two stated numbers, rounded upwards. With an infinite number, return the difference of the floats."""
    return upward(stated(x) - stated(y)) if math.isfinite(x) and math.isfinite(y) else x - y


def product(x: float, y: float) -> float:
    """Return the product of two stated numbers, rounded upwards. With an infinite number, return the product of the floats."""
    return upward(stated(x) * stated(y)) if math.isfinite(x) and math.isfinite(y) else x * y


def squared(x: float, divisor: int = 1) -> float:
    """Return x^2 / divisor for a stated number x, rounded upwards."""
    return upward(stated(x) ** 2 / divisor) if math.isfinite(x) else math.inf


def multiple(count: int, x: float) -> float:
    """Return count * x for a stated number x, rounded upwards."""
    return total([(count, x)])


def held_out_interval(share: float, key: str) -> int:
    """Return k, such that every k-th record, the first one included, is held out and declared public.

    It is 1 / share rounded up, so that no larger share is public, except that 0.3333 gives 3 (`ROUNDING`).

    Args:
        share: The stated share of the records, above 0.
        key: The key that states the share, for the message.

    Raises:
        InputError: The share is above 1/2.
    """
    if share > 0.5:
        raise InputError(f"{key}: expected at most half of the records, found {share:g}")
    return math.ceil(1.0 / share - ROUNDING)

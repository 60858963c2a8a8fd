"""Numbers as text. Upper bounds are rounded up, and lower bounds down, so that a printed bound still holds."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal

DECIMALS = 4  # decimal places of a printed bound
SIGNIFICANT = 5  # significant digits of a bound below 1, or in e-notation


def _rounded(x: float | Decimal, direction: str, decimals: int) -> str:
    """Return a number as text, rounded in one direction. The form is that of `up`."""
    if math.isinf(x):
        return "inf" if x > 0 else "-inf"
    if math.isnan(x):
        return "nan"
    if x == 0:
        return "0"
    # repr gives the shortest decimal of a double, so that 0.1 in a file is not rounded up to 0.10001.
    exact = x if isinstance(x, Decimal) else Decimal(repr(x))
    size = exact.adjusted()
    if -5 <= size < 15:
        places = max(decimals, SIGNIFICANT - 1 - size if size < 0 else 0)
        result = exact.quantize(Decimal(1).scaleb(-places), rounding=direction, context=Context(prec=60))
        one_less = places > decimals and result.adjusted() > size  # rounding 0.999999 gave 1.00000, one digit more than SIGNIFICANT
        return format(result, "f")[: -1 if one_less else None]
    return format(Context(prec=SIGNIFICANT, rounding=direction).plus(exact), "e")


def up(x: float | Decimal, decimals: int = DECIMALS) -> str:
    """Return an upper bound as text, rounded up.

    It has `decimals` places. A number below 1 has at least five significant digits. Huge and tiny numbers are in e-notation.
    """
    return _rounded(x, ROUND_CEILING, decimals)


def percent_used(share: float) -> str:
    """Return a share as a percentage, rounded up to one decimal place. The share 0.07 gives 7.0 %, although 100 * 0.07 exceeds 7."""
    return f"{up(Decimal(repr(share)) * 100, 1)} %"


def down(x: float | Decimal, decimals: int = DECIMALS) -> str:
    """Return a lower bound as text, rounded down. Its form is that of `up`."""
    return _rounded(x, ROUND_FLOOR, decimals)


def figures(x: float, digits: int = 6, direction: str = ROUND_HALF_EVEN) -> str:
    """Return a number as text with at most this many significant digits. All digits before the decimal point are kept.

    Trailing zeros are removed, thousands are separated by commas, and huge or tiny numbers are in e-notation.

    Args:
        x: The number.
        digits: Number of significant digits.
        direction: A rounding mode of `decimal`: ROUND_FLOOR for the lower end of an interval, ROUND_CEILING for the upper.
    """
    if not math.isfinite(x) or x == 0:
        return f"{x:g}"
    exact = Decimal(repr(x))
    size = exact.adjusted()
    if not -5 <= size < 15:
        return format(Context(prec=digits, rounding=direction).plus(exact), "g")
    places = max(digits - 1 - size, 0)
    text = format(exact.quantize(Decimal(1).scaleb(-places), rounding=direction, context=Context(prec=60)), ",f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def percent(x: float) -> str:
    """Return a share as a percentage with one decimal place; "-" for NaN."""
    return "-" if math.isnan(x) else f"{100.0 * x:.1f} %"

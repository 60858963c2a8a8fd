"""Numbers as text: upper bounds rounded up, lower bounds rounded down."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal

DECIMALS = 4  # places of a bound
SIGNIFICANT = 5  # digits of a bound below 1, or in e-notation


def _rounded(x: float | Decimal, direction: str, decimals: int) -> str:
    if math.isinf(x):
        return "inf" if x > 0 else "-inf"
    if math.isnan(x):
        return "nan"
    if x == 0:
        return "0"
    # The shortest decimal of a double: what was stated as 0.1 is not printed as 0.10001.
    exact = x if isinstance(x, Decimal) else Decimal(repr(x))
    size = exact.adjusted()
    if -5 <= size < 15:
        places = max(decimals, SIGNIFICANT - 1 - size if size < 0 else 0)
        result = exact.quantize(Decimal(1).scaleb(-places), rounding=direction, context=Context(prec=60))
        one_less = places > decimals and result.adjusted() > size  # 0.99999 became 1.00000: one digit more than five
        return format(result, "f")[: -1 if one_less else None]
    return format(Context(prec=SIGNIFICANT, rounding=direction).plus(exact), "e")


def up(x: float | Decimal, decimals: int = DECIMALS) -> str:
    """Return an upper bound, rounded up: to `decimals` places, small ones to five significant digits, huge or tiny ones in e-notation."""
    return _rounded(x, ROUND_CEILING, decimals)


def percent_used(share: float) -> str:
    """Return a share in percent, rounded up to a tenth; a stated 0.07 is 7.0 %."""
    return f"{up(Decimal(repr(share)) * 100, 1)} %"


def down(x: float | Decimal, decimals: int = DECIMALS) -> str:
    """Return a lower bound, rounded down, in the form of `up`."""
    return _rounded(x, ROUND_FLOOR, decimals)


def figures(x: float, digits: int = 6, direction: str = ROUND_HALF_EVEN) -> str:
    """Return a number with this many significant digits, and all before the point; in e-notation where it is huge or tiny.

    direction: a rounding mode of decimal: ROUND_FLOOR for the lower end of an interval, ROUND_CEILING for the upper.
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
    """Return a share in percent, to the nearest tenth; "-" for NaN."""
    return "-" if math.isnan(x) else f"{100.0 * x:.1f} %"

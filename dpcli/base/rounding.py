"""Numbers as text. Upper bounds are rounded up, and lower bounds are rounded down, so that what is printed is still a bound.

`up` and `down` print bounds on an epsilon, a delta or a cost, `signed` a bound on a difference, and `percent_used` and `percent_up` bounds
on a share. The other functions print numbers that are rounded to the nearest, or as the caller says.
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal

# How numbers are shown. The values are arbitrary: whatever they are, a bound is rounded to the safe side (`_rounded`).
DECIMALS = 4  # decimal places of a printed bound
SIGNIFICANT = 5  # significant digits of a bound that is below 1, or is printed in e-notation
PLAIN_SIZES = range(-5, 15)  # decimal exponents of the numbers that are printed without e-notation
EXACT = Context(prec=60)  # more digits than any printed number has


def _rounded(x: float | Decimal, direction: str, decimals: int) -> str:
    """Return a number as text, in the form of `up`. `direction` is a rounding mode of decimal."""
    if math.isinf(x):
        return "inf" if x > 0 else "-inf"
    if math.isnan(x):
        return "nan"
    if x == 0:
        return "0"
    # The shortest decimal of a double is rounded, so that a stated 0.1 is not printed as 0.10001. This decimal may lie on the unsafe side
    # of the double, by at most about half of the distance to the next double: the double 0.1 is 0.1 + 5.6e-18, and `up` gives 0.10000.
    exact = x if isinstance(x, Decimal) else Decimal(repr(x))
    size = exact.adjusted()
    if size not in PLAIN_SIZES:
        return format(Context(prec=SIGNIFICANT, rounding=direction).plus(exact), "e")
    places = max(decimals, SIGNIFICANT - 1 - size if size < 0 else 0)
    result = exact.quantize(Decimal(1).scaleb(-places), rounding=direction, context=EXACT)
    text = format(result, "f")
    has_extra_digit = places > decimals and result.adjusted() > size  # as in 1.00000, rounded from 0.99999
    return text[:-1] if has_extra_digit else text


def up(x: float | Decimal, decimals: int = DECIMALS) -> str:
    """Return an upper bound as text, rounded up to `decimals` places: 1.23456 gives 1.2346.

    A bound below 1 has at least five significant digits (0.000012346). A huge or tiny bound has five significant digits in e-notation.
    """
    return _rounded(x, ROUND_CEILING, decimals)


def percent_used(share: float) -> str:
    """Return a used share of a budget in percent, rounded up to a tenth, or to five significant digits below 1 %: 0.07 gives 7.0 %.

    The product with 100 is exact, so that the share of a stated cost is not rounded up to the next tenth, as 7.000000000000001 would be.
    """
    return f"{up(Decimal(repr(share)) * 100, 1)} %"


def signed(difference: float) -> str:
    """Return a difference of two upper bounds with its sign, rounded up; "-" for the difference of two infinities."""
    if math.isnan(difference):
        return "-"
    return f"+{up(difference)}" if difference > 0.0 else up(difference)


def down(x: float | Decimal, decimals: int = DECIMALS) -> str:
    """Return a lower bound as text, rounded down: 1.23456 gives 1.2345. Its form is that of `up`."""
    return _rounded(x, ROUND_FLOOR, decimals)


def figures(x: float, digits: int = 6, direction: str = ROUND_HALF_EVEN) -> str:
    """Return a number as text with commas: 1234567.891 gives 1,234,568. A huge or tiny number is in e-notation.

    Args:
        digits: Number of significant digits. All digits before the decimal point are printed in any case.
        direction: Rounding mode of decimal, such as ROUND_FLOOR for the lower end of an interval and ROUND_CEILING for the upper end.
    """
    if not math.isfinite(x) or x == 0:
        return f"{x:g}"
    exact = Decimal(repr(x))
    size = exact.adjusted()
    if size not in PLAIN_SIZES:
        return format(Context(prec=digits, rounding=direction).plus(exact), "g")
    places = max(digits - 1 - size, 0)
    text = format(exact.quantize(Decimal(1).scaleb(-places), rounding=direction, context=EXACT), ",f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def percent(x: float) -> str:
    """Return a share in percent, rounded to the nearest tenth: 0.1234 gives 12.3 %, and NaN gives "-"."""
    return "-" if math.isnan(x) else f"{100.0 * x:.1f} %"


def stated_percent(share: float) -> str:
    """Return a share that someone stated in percent, with up to six significant digits: 0.95 gives 95 %."""
    return f"{100.0 * share:.6g} %"


def percent_up(share: float) -> str:
    """Return an upper bound on a share in percent, rounded up: 0.12345 gives 12.35 %.

    Unlike in `percent_used`, the product with 100 is rounded as a double, which may raise the last printed digit: 0.07 gives 7.01 %.
    """
    return f"{up(100.0 * share, 2)} %"


def counted(count: int, noun: str) -> str:
    """Return a count with its noun, which takes an s unless the count is 1: "1 run", "1,200 runs"."""
    return f"1 {noun}" if count == 1 else f"{count:,} {noun}s"

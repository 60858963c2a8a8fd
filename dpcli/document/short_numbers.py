"""Short numbers for the sentences of charts, disclosures and release documents; base/rounding.py has the longer ones of tables.

A number in words is rounded to the side that promises less privacy (`short_number_up`, `rounded_key`), except one that is not a bound
(`short_number`).
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

from dpcli.base.rounding import figures

DIGITS = 6  # significant digits of a rounded number, enough for a label
LARGEST_EXACT = 1e15  # whole numbers below it are written with all digits, because doubles represent them exactly
# Keys of mechanisms of which more is safer: noise, and what else lowers the cost. They are rounded down, and other keys up.
MORE_IS_SAFER = frozenset(
    {
        "noise_multiplier",
        "sigma",
        "scale",
        "threshold_sigma",
        "temperature",
        "orders",
        "strong_convexity",
        "learning_rate",
        "lipschitz",
    }
)


def short_percent_up(share: float) -> str:
    """Return a share in percent, rounded up to two decimals however small it is: 0.00001 -> "0.01 %". base/rounding.py has more digits."""
    return f"{min(math.ceil(share * 1e4) / 1e2, 100.0):.2f} %"


def short_number(value: float) -> str:
    """Return a stated number, which is not a bound, as text with few digits."""
    return f"{value:,.0f}" if value == int(value) and abs(value) < LARGEST_EXACT else f"{value:.6g}"


def short_number_up(value: float) -> str:
    """Return a number as text with few digits, rounded up."""
    return short_number(float(Context(prec=DIGITS, rounding=ROUND_CEILING).plus(Decimal(repr(value)))))


def rounded_key(name: str, value: float) -> str:
    """Return the value of a mechanism's key as text, rounded to six digits on the safe side if it has more."""
    if len(Decimal(repr(value)).as_tuple().digits) <= DIGITS:
        return repr(value)
    return figures(value, DIGITS, ROUND_FLOOR if name in MORE_IS_SAFER else ROUND_CEILING)

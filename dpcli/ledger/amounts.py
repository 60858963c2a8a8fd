"""Costs as decimal strings: rounded up when they are written, added without rounding."""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal, Inexact, InvalidOperation, Overflow

from dpcli.base.errors import InternalError, LedgerError

Amounts = Mapping[str, Decimal]
DIGITS = 20
# Doubles reach from 1e308 to 1e-324: with as many digits every sum is exact, and one that is not is no sum.
EXACT = Context(prec=700, Emin=-5000, Emax=5000, traps=[Inexact, InvalidOperation, Overflow])
_UP = Context(prec=DIGITS, rounding=ROUND_CEILING)
_DOWN = Context(prec=DIGITS, rounding=ROUND_FLOOR)


def written(upper: float) -> str:
    """A cost in [0, inf) as a decimal of at most 20 significant digits, rounded up. Raises InternalError for any other number."""
    if not 0.0 <= upper < math.inf:
        raise InternalError(f"a cost of {upper!r}: this is a bug in dpcli, and no number")
    return str(_UP.create_decimal(stated(upper)).normalize(_UP))


def rounded_up(amount: Decimal) -> str:
    """An exact amount as a decimal of at most 20 significant digits, rounded up."""
    return str(_UP.plus(amount).normalize(_UP))


def written_down(lower: float | Decimal) -> str:
    """A cap in [0, inf), rounded down: a double as what it is, a decimal as it was stated."""
    return str(_DOWN.create_decimal(Decimal(lower)).normalize(_DOWN))


def stated(x: float) -> Decimal:
    """The decimal that a double stands for: of at most 15 digits, what somebody wrote (ten times 0.1 is 1); else its exact value."""
    short = Decimal(repr(x))
    return short if len(short.as_tuple().digits) <= 15 else Decimal(x)


def upward(amount: Decimal) -> float:
    """The smallest double that is not below `amount`."""
    near = float(amount)
    return near if Decimal(near) >= amount else math.nextafter(near, math.inf)


def downward(amount: Decimal) -> float:
    """The largest double that stands for no more than `amount`."""
    near = float(amount)
    return near if stated(near) <= amount else math.nextafter(near, 0.0)


def read(amounts: Mapping[str, object]) -> dict[str, Decimal]:
    """The amounts of an entry. Raises LedgerError for what `written` cannot have written."""
    found = {}
    for name, text in amounts.items():
        try:
            value = Decimal(text) if type(text) is str and len(text) < 400 else Decimal("nan")
        except InvalidOperation:
            value = Decimal("nan")
        if (
            not value.is_finite()
            or value < 0
            or (value and not -400 <= value.adjusted() <= 400)
            or len(value.as_tuple().digits) > 60
        ):
            raise LedgerError(f"expected amounts written as decimal numbers >= 0, found {name} = {str(text)[:40]!r}")
        found[name] = value
    return found


def add(total: Amounts, more: Amounts, sign: int = 1) -> dict[str, Decimal]:
    """The sum (sign 1) or difference (-1) by name, exact."""
    found, zero = dict(total), Decimal(0)
    for name, value in more.items():  # copied with its sign: a product would be rounded to 28 digits
        found[name] = EXACT.add(found.get(name, zero), value.copy_negate() if sign < 0 else value)
    return found


def divided(cap: str, parts: int) -> str:
    """A cap by a whole number, rounded down."""
    return str(_DOWN.divide(Decimal(cap), Decimal(parts)).normalize(_DOWN))


def exceeded(total: Amounts, caps: Amounts) -> str | None:
    """The first name whose total is above its cap, None where all are within; a name without a cap is above it."""
    return next((name for name in total if name not in caps or total[name] > caps[name]), None)


def share(part: Amounts, caps: Amounts) -> float:
    """The largest share of a cap that `part` takes, rounded up a little; inf where a cap of 0 is touched."""
    shares = [float(part[name] / caps[name]) if caps.get(name) else (math.inf if part[name] else 0.0) for name in part]
    return max(shares, default=0.0)

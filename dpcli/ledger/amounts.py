"""Costs as decimal strings: rounded up when they are written, added without rounding.

A total over many blocks names each amount, "@", and the block.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal, Inexact, InvalidOperation, Overflow

from dpcli.base.errors import InternalError, LedgerError

Amounts = Mapping[str, Decimal]
DIGITS = 20
# Doubles reach from 1e308 to 1e-324: with as many digits every sum is exact, and one that is not is no sum.
EXACT = Context(prec=700, Emin=-5000, Emax=5000, traps=[Inexact, InvalidOperation, Overflow])
AT = "@"
ZERO = Decimal(0)
_UP = Context(prec=DIGITS, rounding=ROUND_CEILING)
_DOWN = Context(prec=DIGITS, rounding=ROUND_FLOOR)


def cost_text(upper: float) -> str:
    """Return a cost in [0, inf) as a decimal of at most 20 significant digits, rounded up. Raises InternalError for any other number."""
    if not 0.0 <= upper < math.inf:
        raise InternalError(f"a cost of {upper!r}: this is a bug in dpcli")
    return str(_UP.create_decimal(decimal_of(upper)).normalize(_UP))


def sum_text(amount: Decimal) -> str:
    """Return an exact amount as a decimal of at most 20 significant digits, rounded up."""
    return str(_UP.plus(amount).normalize(_UP))


def cap_text(lower: float | Decimal) -> str:
    """Return a cap in [0, inf), rounded down: a double as what it is, a decimal as it was stated."""
    return str(_DOWN.create_decimal(Decimal(lower)).normalize(_DOWN))


def decimal_of(x: float) -> Decimal:
    """Return the decimal that a double stands for: of at most 15 digits, what somebody wrote (ten times 0.1 is 1); else its exact value."""
    short = Decimal(repr(x))
    return short if len(short.as_tuple().digits) <= 15 else Decimal(x)


def float_above(amount: Decimal) -> float:
    """Return the smallest double that is not below `amount`."""
    near = float(amount)
    return near if Decimal(near) >= amount else math.nextafter(near, math.inf)


def float_below(amount: Decimal) -> float:
    """Return the largest double that stands for no more than `amount`."""
    near = float(amount)
    return near if decimal_of(near) <= amount else math.nextafter(near, 0.0)


def read(amounts: Mapping[str, object]) -> dict[str, Decimal]:
    """Return the amounts of an entry. Raises LedgerError for what no ledger has written."""
    result = {}
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
        result[name] = value
    return result


def add(total: Amounts, more: Amounts, sign: int = 1) -> dict[str, Decimal]:
    """Return the sum (sign 1) or difference (-1) by name, exact."""
    result = dict(total)
    for name, value in more.items():  # copied with its sign: a product would be rounded to 28 digits
        result[name] = EXACT.add(result.get(name, ZERO), value.copy_negate() if sign < 0 else value)
    return result


def divide_down(cap: str, parts: int) -> str:
    """Return a cap divided by a whole number, rounded down."""
    return str(_DOWN.divide(Decimal(cap), Decimal(parts)).normalize(_DOWN))


def exceeded(total: Amounts, caps: Amounts) -> str | None:
    """Return the first name whose total is above its cap, None if all are within; a name without a cap is above it."""
    return next((name for name in total if name not in caps or total[name] > caps[name]), None)


def largest_share(part: Amounts, caps: Amounts) -> float:
    """Return the largest share of a cap that `part` takes, rounded up a little; inf where a cap of 0 is touched."""
    shares = [float(part[name] / caps[name]) if caps.get(name) else (math.inf if part[name] else 0.0) for name in part]
    return max(shares, default=0.0)


def cost_on_blocks(cost: Amounts, window: Sequence[str]) -> dict[str, Decimal]:
    """Return a cost in full on each block of a window; as it is where there are no blocks."""
    return {f"{name}{AT}{block}": value for block in window for name, value in cost.items()} if window else dict(cost)


def most_on_one_block(total: Amounts, names: Iterable[str], window: Sequence[str]) -> dict[str, Decimal]:
    """Return the most of each amount on any block of a window: what fits on that fits on all of them."""
    return {name: max((total.get(f"{name}{AT}{block}", ZERO) for block in window), default=ZERO) for name in names}


def charged_blocks(total: Amounts) -> list[str]:
    """Return the blocks that were ever charged, sorted."""
    return sorted({name.partition(AT)[2] for name in total})


def amount_of(name: str) -> str:
    """Return the amount of a name in a total."""
    return name.partition(AT)[0]


def spent_by_block(total: Amounts, caps: Mapping[str, Decimal]) -> dict[str, dict[str, Decimal]]:
    """Return what is spent of each amount, by block."""
    by_block: dict[str, dict[str, Decimal]] = {}
    for name, value in total.items():
        by_block.setdefault(name.partition(AT)[2], dict.fromkeys(caps, ZERO))[amount_of(name)] = value
    return dict(sorted(by_block.items()))

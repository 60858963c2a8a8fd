"""Amounts of privacy loss as decimal numbers. A cost is rounded up when it is written, a cap is rounded down, and sums are exact.

A cost consists of named amounts in the currency of the ledger's filter, for example "rho". If the dataset is cut into blocks, a total has
one amount for each block. Its key consists of the name of the amount, "@" and the name of the block.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal, Inexact, InvalidOperation, Overflow

from dpcli.base.errors import InternalError, LedgerError

Amounts = Mapping[str, Decimal]
DIGITS = 20  # significant digits of an amount in an entry; a double needs 17
# Limits of an amount that can be read: characters, the power of ten of its first digit, and digits.
MOST_CHARACTERS, LARGEST_EXPONENT, MOST_DIGITS = 400, 400, 60
# Doubles reach from 1e-324 to 1e308, so that 700 digits hold the exact sum of any amounts. A sum that would be rounded raises Inexact.
EXACT = Context(prec=700, Emin=-5000, Emax=5000, traps=[Inexact, InvalidOperation, Overflow])
AT = "@"  # separates the name of an amount from the name of a block in a key
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
    """Return a cap in [0, inf) as a decimal of at most 20 significant digits, rounded down from the exact value of a double."""
    return str(_DOWN.create_decimal(Decimal(lower)).normalize(_DOWN))


def decimal_of(x: float) -> Decimal:
    """Return the decimal that a double represents.

    If the shortest spelling of the double has at most 15 digits, the result is that decimal, as somebody may have written it. So ten times
    0.1 is 1. Otherwise the result is the exact value of the double.
    """
    short = Decimal(repr(x))
    return short if len(short.as_tuple().digits) <= 15 else Decimal(x)


def float_above(amount: Decimal) -> float:
    """Return the smallest double that is not below `amount`."""
    nearest = float(amount)
    return nearest if Decimal(nearest) >= amount else math.nextafter(nearest, math.inf)


def float_below(amount: Decimal) -> float:
    """Return the largest double whose decimal (`decimal_of`) is not above `amount`."""
    nearest = float(amount)
    return nearest if decimal_of(nearest) <= amount else math.nextafter(nearest, 0.0)


def read(amounts: Mapping[str, object]) -> dict[str, Decimal]:
    """Return the amounts of an entry as numbers. Raises LedgerError if a value is not a decimal >= 0.

    The limits are wider than those of the grammar of entries (dpcli.ledger.grammar), so that every written amount can be read.
    """
    result = {}
    for name, text in amounts.items():
        value = _readable_amount(text)
        if value is None:
            raise LedgerError(f"expected amounts written as decimal numbers >= 0, found {name} = {str(text)[:40]!r}")
        result[name] = value
    return result


def _readable_amount(text: object) -> Decimal | None:
    """Return the number that a text states; None if it is not a decimal >= 0 within the limits of `read`."""
    if type(text) is not str or len(text) >= MOST_CHARACTERS:
        return None
    try:
        value = Decimal(text)
    except InvalidOperation:
        return None
    if not value.is_finite() or value < 0 or len(value.as_tuple().digits) > MOST_DIGITS:
        return None
    return value if value == 0 or abs(value.adjusted()) <= LARGEST_EXPONENT else None


def texts(amounts: Amounts) -> dict[str, str]:
    """Return amounts as texts, as entries and JSON values state them."""
    return {name: str(value) for name, value in amounts.items()}


def add(total: Amounts, more: Amounts, sign: int = 1) -> dict[str, Decimal]:
    """Return the exact sum (`sign` = 1) or difference (`sign` = -1) of each amount."""
    result = dict(total)
    for name, value in more.items():  # copy_negate is exact, while unary minus rounds to the 28 digits of the default context
        result[name] = EXACT.add(result.get(name, ZERO), value.copy_negate() if sign < 0 else value)
    return result


def divide_down(cap: str, parts: int) -> str:
    """Return a cap divided by a whole number, rounded down."""
    return str(_DOWN.divide(Decimal(cap), Decimal(parts)).normalize(_DOWN))


def exceeded(total: Amounts, caps: Amounts) -> str | None:
    """Return the name of the first amount whose total exceeds its cap; None if there is none. An amount without a cap counts too."""
    return next((name for name in total if name not in caps or total[name] > caps[name]), None)


def largest_share(part: Amounts, caps: Amounts) -> float:
    """Return the largest quotient of an amount and its cap, rounded to a double. It is inf for an amount > 0 whose cap is 0 or missing."""
    return max((_share(amount, caps.get(name, ZERO)) for name, amount in part.items()), default=0.0)


def _share(amount: Decimal, cap: Decimal) -> float:
    if cap:
        return float(amount / cap)
    return math.inf if amount else 0.0


def cost_on_blocks(cost: Amounts, window: Sequence[str]) -> dict[str, Decimal]:
    """Return the total that charges the full cost to each block of a window. Without blocks, return the cost itself."""
    if not window:
        return dict(cost)
    return {f"{name}{AT}{block}": value for block in window for name, value in cost.items()}


def most_on_one_block(total: Amounts, names: Iterable[str], window: Sequence[str]) -> dict[str, Decimal]:
    """Return, for each amount, the largest total on any block of a window. If a cost fits on top of it, the cost fits on every block."""
    return {name: max((total.get(f"{name}{AT}{block}", ZERO) for block in window), default=ZERO) for name in names}


def charged_blocks(total: Amounts) -> list[str]:
    """Return the names of the blocks in a total, sorted."""
    return sorted({name.partition(AT)[2] for name in total})


def amount_of(name: str) -> str:
    """Return the name of the amount in a key of a total."""
    return name.partition(AT)[0]


def spent_by_block(total: Amounts, caps: Mapping[str, Decimal]) -> dict[str, dict[str, Decimal]]:
    """Return the spending of each block by amount, sorted by block. An amount that was never charged to a block is 0."""
    by_block: dict[str, dict[str, Decimal]] = {}
    for name, value in total.items():
        by_block.setdefault(name.partition(AT)[2], dict.fromkeys(caps, ZERO))[amount_of(name)] = value
    return dict(sorted(by_block.items()))

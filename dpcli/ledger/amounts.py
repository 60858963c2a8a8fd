"""Amounts of privacy loss as decimal numbers. A cost is rounded up when it is written, a cap is rounded down, and sums are exact.

A ledger adds up what runs cost in the *currency* of its filter (filters/filter.py), the theorem that bounds their total loss. A cost or a
cap maps the names of the currency's amounts to numbers: {"rho": 0.1}, or {"epsilon": 1, "delta": 0}. Sums are exact decimals, since a sum
of a million rounded doubles could pass a cap that the runs exceed.

If the dataset is cut into blocks, each block has the same caps, and the spending of all blocks is kept in one flat mapping. Its keys
consist of the name of an amount, "@" and the name of a block: {"rho@2026-01-01": 0.1, "rho@2026-01-02": 0.3}. The last functions of this
module convert between the two forms.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal, Inexact, InvalidOperation, Overflow

from dpcli.base.errors import InternalError, LedgerError

Amounts = Mapping[str, Decimal]
# The largest number of significant digits of an amount in an entry. A double needs 17. It affects only accuracy, because costs are rounded
# up and caps are rounded down.
DIGITS = 20
WRITTEN_DIGITS = 15  # number of digits up to which different decimals are different doubles of normal size
# Limits of an amount that can be read. They are wider than the limits of what dpcli writes, and refuse a hostile text early.
CHARACTERS_LIMIT = 400  # an amount has fewer characters
LARGEST_EXPONENT = 400  # largest absolute value of the power of ten of the first digit; doubles reach 324
MOST_DIGITS = 60  # digits, without leading zeros
# The context of exact sums. Doubles reach from 1e-324 to 1e308, so that 700 digits hold the sum of any amounts that were doubles. It is a
# matter of soundness that no sum is rounded: a sum that would be rounded raises Inexact.
EXACT = Context(prec=700, Emin=-5000, Emax=5000, traps=[Inexact, InvalidOperation, Overflow])
AT = "@"  # separates the name of an amount, which has no "@", from the name of a block in a key
ZERO = Decimal(0)
# `dpcli budget verify` accepts a cost that is too low, or a cap that is too high, by up to this factor, because two versions of dpcli may
# compute different last digits. It changes no charge.
SLACK = Decimal("1.000000001")
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
    """Return a cap in [0, inf) as a decimal of at most 20 significant digits, rounded down. A double is taken at its exact value."""
    return str(_DOWN.create_decimal(Decimal(lower)).normalize(_DOWN))


def decimal_of(x: float) -> Decimal:
    """Return the decimal that a double represents.

    If the shortest spelling of the double has at most `WRITTEN_DIGITS` digits, the result is that decimal, because someone may have
    written it. So ten costs of 0.1 add up to 1. Otherwise the result is the exact value of the double.
    """
    shortest = Decimal(repr(x))
    return shortest if len(shortest.as_tuple().digits) <= WRITTEN_DIGITS else Decimal(x)


def float_above(amount: Decimal) -> float:
    """Return the smallest double that is not below `amount`."""
    nearest = float(amount)
    return nearest if Decimal(nearest) >= amount else math.nextafter(nearest, math.inf)


def float_below(amount: Decimal) -> float:
    """Return the largest double whose decimal (`decimal_of`) is not above `amount`."""
    nearest = float(amount)
    return nearest if decimal_of(nearest) <= amount else math.nextafter(nearest, 0.0)


def read(amounts: Mapping[str, object]) -> dict[str, Decimal]:
    """Return the amounts of an entry as numbers. Raises LedgerError if a value is not a decimal >= 0 written as a text.

    The limits are wider than the grammar of entries (dpcli.ledger.grammar), so that every written amount can be read.
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
    if type(text) is not str or len(text) >= CHARACTERS_LIMIT:
        return None
    try:
        value = Decimal(text)
    except InvalidOperation:
        return None
    if not value.is_finite() or value < 0 or len(value.as_tuple().digits) > MOST_DIGITS:
        return None
    return value if value == 0 or abs(value.adjusted()) <= LARGEST_EXPONENT else None


def texts(amounts: Amounts) -> dict[str, str]:
    """Return amounts as texts, as entries and JSON values state them: {"rho": "0.1"}."""
    return {name: str(value) for name, value in amounts.items()}


def add(total: Amounts, more: Amounts) -> dict[str, Decimal]:
    """Return the exact sum of each amount. An amount that is missing on one side counts as 0 there."""
    return {**total, **{name: EXACT.add(total.get(name, ZERO), value) for name, value in more.items()}}


def subtract(total: Amounts, less: Amounts) -> dict[str, Decimal]:
    """Return the exact difference of each amount, which may be negative. A missing amount counts as 0."""
    return {**total, **{name: EXACT.subtract(total.get(name, ZERO), value) for name, value in less.items()}}


def divide_down(cap: str, parts: int) -> str:
    """Return a cap divided by a whole number > 0, as a decimal of at most 20 significant digits, rounded down."""
    return str(_DOWN.divide(Decimal(cap), Decimal(parts)).normalize(_DOWN))


def exceeded(total: Amounts, caps: Amounts) -> str | None:
    """Return the name of the first amount whose total exceeds its cap or that has no cap; None if there is none."""
    return next((name for name in total if name not in caps or total[name] > caps[name]), None)


def largest_share(part: Amounts, caps: Amounts) -> float:
    """Return the largest quotient of an amount and its cap, rounded to a double; 0 if there are no amounts.

    The quotient is inf for an amount > 0 whose cap is 0 or missing, and 0 for an amount of 0.
    """
    return max((_share(amount, caps.get(name, ZERO)) for name, amount in part.items()), default=0.0)


def _share(amount: Decimal, cap: Decimal) -> float:
    if cap:
        return float(amount / cap)
    return math.inf if amount else 0.0


def cost_on_blocks(cost: Amounts, window: Sequence[str]) -> dict[str, Decimal]:
    """Return what a run adds to the spending: its full cost on each block of the window.

    {"rho": 0.1} on the blocks "a" and "b" is {"rho@a": 0.1, "rho@b": 0.1}. If the window is empty, as without blocks, it is the cost.
    """
    if not window:
        return dict(cost)
    return {_key(name, block): value for block in window for name, value in cost.items()}


def most_on_one_block(total: Amounts, names: Iterable[str], window: Sequence[str]) -> dict[str, Decimal]:
    """Return, for each of the amounts `names`, the largest spending on any block of the window; 0 for an empty window.

    {"rho@a": 0.1, "rho@b": 0.3} on the blocks "a" and "b" is {"rho": 0.3}. A cost that fits on top of the result fits on every block. Two
    amounts of the result may come from different blocks.
    """
    return {name: max((total.get(_key(name, block), ZERO) for block in window), default=ZERO) for name in names}


def charged_blocks(total: Amounts) -> list[str]:
    """Return the names of the blocks in the keys of a total, sorted. Each key must name a block."""
    return sorted(set(map(block_of, total)))


def amount_of(key: str) -> str:
    """Return the name of the amount in a key of a total, with or without a block."""
    return key.partition(AT)[0]


def block_of(key: str) -> str:
    """Return the name of the block in a key of a total; "" if it has none."""
    return key.partition(AT)[2]


def spent_by_block(total: Amounts, caps: Mapping[str, Decimal]) -> dict[str, dict[str, Decimal]]:
    """Return the spending of each block by amount, sorted by block. An amount with a cap that was never charged to a block is 0 there.

    With a cap on rho, {"rho@b": 0.3, "rho@a": 0.1} is {"a": {"rho": 0.1}, "b": {"rho": 0.3}}.
    """
    by_block = {block: dict.fromkeys(caps, ZERO) for block in charged_blocks(total)}
    for key, value in total.items():
        by_block[block_of(key)][amount_of(key)] = value
    return by_block


def _key(name: str, block: str) -> str:
    return f"{name}{AT}{block}"

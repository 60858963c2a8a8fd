"""Amounts of many blocks in one total: the name of an amount, "@", the block."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal

from dpcli.ledger.amounts import Amounts

AT = "@"
ZERO = Decimal(0)


def spread(cost: Amounts, window: Sequence[str]) -> dict[str, Decimal]:
    """A cost in full on each block of a window; as it is where there are no blocks."""
    return {f"{name}{AT}{block}": value for block in window for name, value in cost.items()} if window else dict(cost)


def fullest(total: Amounts, names: Iterable[str], window: Sequence[str]) -> dict[str, Decimal]:
    """The most of each amount on any block of a window: what fits on that fits on all of them."""
    return {name: max((total.get(f"{name}{AT}{block}", ZERO) for block in window), default=ZERO) for name in names}


def opened_blocks(total: Amounts) -> list[str]:
    """The blocks that were ever charged, sorted."""
    return sorted({name.partition(AT)[2] for name in total})


def amount_of(name: str) -> str:
    """The amount of a name in a total."""
    return name.partition(AT)[0]


def block_shares(total: Amounts, caps: Mapping[str, Decimal]) -> dict[str, dict[str, Decimal]]:
    """By block, what is spent of each amount."""
    found: dict[str, dict[str, Decimal]] = {}
    for name, value in total.items():
        found.setdefault(name.partition(AT)[2], dict.fromkeys(caps, ZERO))[amount_of(name)] = value
    return dict(sorted(found.items()))

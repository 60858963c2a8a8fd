"""A window that moves: as many blocks as before are read, and each is held to the cap that it has of its own.

Only what has an order moves: days, weeks, numbered parts. Other parts hold other people, and so does a window that is cut otherwise: those
are told as any other change of a statement. So is a narrower window, as it charges fewer blocks by the word of the file alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from dpcli.base.lazy import load
from dpcli.ledger.plugin import BLOCKS

PARTS = 10**6  # the most that a hash may have
WIDEST = 2000  # blocks of a window that a ledger takes


class OrderedBlocks(Protocol):
    """What is needed of a kind of block (dpcli.ledger.blocks.kinds)."""

    def holds(self, name: str) -> bool: ...

    def rank(self, name: str) -> int: ...


def keeps_its_width(old: str | None, new: str | None) -> bool:
    """Whether two windows, each as its texts with commas between, have the same kind and number of blocks. False where one is none."""
    if old is None or new is None:
        return False
    kinds = [load(target)((), PARTS) for target in BLOCKS.values() if load(target).ordered]
    return any(_width(kind, old.split(", ")) == _width(kind, new.split(", ")) > 0 for kind in kinds)


def _width(kind: OrderedBlocks, stated: Sequence[str]) -> int:
    """How many blocks of a kind are stated, 0 where they are none, or more than one window holds."""
    found: set[int] = set()
    for text in stated:
        first, dots, last = text.partition("..")
        ends = (first, last if dots else first)
        if not all(map(kind.holds, ends)) or not 0 <= kind.rank(ends[1]) - kind.rank(ends[0]) < WIDEST:
            return 0
        found.update(range(kind.rank(ends[0]), kind.rank(ends[1]) + 1))
    return len(found) if len(found) <= WIDEST else 0

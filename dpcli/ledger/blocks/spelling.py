"""A window in one spelling: FIRST..LAST for blocks that follow one another, so that it can be read, kept and compared."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from dpcli.ledger.blocks.family import BlockFamily


def stretches(family: BlockFamily, blocks: Sequence[str]) -> list[tuple[str, str]]:
    """First and last of each stretch without a gap, in order; each block by itself where they have no order."""
    kind = family.kind
    ranked = sorted(set(blocks), key=kind.rank)
    gaps = groupby(enumerate(ranked), key=lambda item: kind.rank(item[1]) - item[0] if kind.ordered else item[0])
    parts = ([block for _, block in part] for _, part in gaps)
    return [(part[0], part[-1]) for part in parts]


def spelled(family: BlockFamily, blocks: Sequence[str]) -> tuple[str, ...]:
    """As privacy.window and --window take it: the same for the same blocks, however they were stated."""
    return tuple(first if first == last else f"{first}..{last}" for first, last in stretches(family, blocks))

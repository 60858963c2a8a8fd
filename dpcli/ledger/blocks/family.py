"""A dataset that grows, cut into blocks with one cap and one filter each: a budget that renews because the data do.

A family is opened once: what the blocks are (`by` a `column`), and in how many of them the records of one unit may lie (`max_blocks`).
A run names the blocks that it reads, its window, and is charged in full on every one of them or on none, in one entry. A block opens with
its first charge. One whose cap is used up, or that was retired by an entry of its own, takes no further charge. A run without a window is
refused: nobody knows what it reads. The block of a record must depend on that record only.

What holds. A unit (the ledger's; what every run is stated for) lies in blocks B, |B| <= m = max_blocks. Run r reads j_r of them and costs
c_r in the filter's currency for a change of one unit's records in one block. On every path of outputs, whatever the windows and runs were
chosen from, each block keeps sum(c_r over runs that read it) <= C. So, summed over B: sum(j_r c_r) <= m C, and j_r <= m. A run with
j_r = 0 does not see the unit. One with j_r > 0 sees a group of j_r such changes, one after the other, and costs the whole unit

* pure epsilon: j_r c_r, as likelihood ratios multiply; in all at most m C;
* rho of zCDP: j_r^2 c_r (Bun & Steinke 2016, arXiv:1605.02065, group privacy); mu^2 of GDP: j_r^2 c_r, as a test that rejects one dataset
  with probability p rejects its neighbour with at most Phi(Phi^-1(p) + mu) (Dong et al. 2019, arXiv:1905.02383), and the mu of j
  neighbours add up. In all at most m sum(j_r c_r) <= m^2 C.

These sums are bounded on every path, which is all that the filters' theorems ask for; they are used for one pair of datasets, with and
without that unit. Hence C is the cap of an ordinary ledger, divided by m or m^2 and rounded down, and the ledger's epsilon and delta hold
for the whole unit. A run that bounds what the unit adds to its whole window costs the unit c_r and not more: the same C holds it as well.
With m = 1 every filter does, as j_r <= 1. With m > 1 deltas and Renyi divergences at one order are refused: a group multiplies a delta by a
power of e^epsilon, and takes a divergence from other orders. Replace-one is refused: a record that is replaced may move between blocks.
So may one that is blanked: under zero-out a run on blocks is refused unless a blank adds nothing to it (Ledger.stated_window).

Source: Lecuyer et al. 2019, arXiv:1909.01502 (block composition); Feldman & Zrnic 2021, arXiv:2008.11193 (filters for each individual).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

from dpcli.base.errors import InputError
from dpcli.ledger.amounts import divide_down
from dpcli.ledger.blocks.block_kinds import BlockKind, kind_named

if TYPE_CHECKING:
    from dpcli.ledger.filters.filter import Filter


MOST = 2000  # blocks in one window


@dataclass(frozen=True, slots=True)
class BlockFamily:
    """The blocks of a dataset.

    Attributes:
        by: Day, week, region or hash.
        column: What decides a record's block.
        max_blocks: In how many blocks one unit's records may lie.
        names: Names of the blocks, if they are listed.
        count: Count of the blocks, if they are parts of a hash.
    """

    by: str
    column: str
    max_blocks: int
    names: Sequence[str] = ()
    count: int | None = None

    @property
    def kind(self) -> BlockKind:
        """The way in which they are cut."""
        return kind_named(self.by, self.names, self.count)

    def content(self) -> dict[str, Any]:
        """Return the family as the opening entry has it."""
        optional = {"names": list(self.names), "count": self.count}
        return {
            "by": self.by,
            "column": self.column,
            "max_blocks": self.max_blocks,
            **{key: value for key, value in optional.items() if value},
        }

    def wrong(self, window: object) -> str | None:
        """Return what is wrong with the window of an entry, None if nothing is: distinct blocks of this family, sorted."""
        if type(window) is not list or not 1 <= len(window) <= MOST or any(type(name) is not str for name in window):
            return f"expected a window of 1 to {MOST} blocks"
        kind = self.kind
        stray = next((name for name in window if not kind.holds(name)), None)
        if stray is not None:
            return f"expected {kind.word}, found {stray[:60]!a}"
        return None if window == sorted(set(window)) else "expected the blocks of a window once each, in order"

    def window(self, stated: Sequence[str]) -> tuple[str, ...]:
        """Return the blocks that are stated: names, and FIRST..LAST for all between. Raises InputError if one is none."""
        kind, blocks = self.kind, set[str]()
        for text in stated:
            first, dots, last = (text, "", text) if kind.holds(text) else text.partition("..")
            stray = next((name for name in (first, last) if not kind.holds(name)), None)
            if stray is not None:
                moving = ' ("last 7 days" is for --window and for schedules)' if text.startswith("last ") else ""
                raise InputError(f"--window: expected {kind.word}, or FIRST..LAST, found {text[:60]!a}{moving}")
            if dots and kind.ordered and kind.rank(last) - kind.rank(first) >= MOST:  # before they are all written down
                raise InputError(f"--window: expected a window of 1 to {MOST} blocks, found {text}")
            blocks.update(kind.between(first, last) if dots else (text,))
            if dots and not (first in blocks and last in blocks):
                raise InputError(f"--window: expected the earlier block first, found {text}")
        names = sorted(blocks)
        wrong = self.wrong(names)
        if wrong is not None:
            raise InputError(f"--window: {wrong}, found {len(names)}")
        return tuple(names)

    def per_block(self, caps: Mapping[str, str], rule: Filter) -> dict[str, str]:
        """Return the caps of one block that keep the whole unit within `caps`, rounded down: the proof is at the top of this file."""
        if self.max_blocks == 1:
            return dict(caps)
        return {name: divide_down(value, self.max_blocks ** (rule.group_power or 0)) for name, value in caps.items()}

    def unproved(self, rule: Filter, adjacency: str, delta: float) -> str | None:
        """Return why no guarantee is known for such a family, as "expected ..."; None if one is proved."""
        given = {term for term in ("names", "count") if getattr(self, term)}
        if given != {self.kind.needs} - {""}:
            needed = self.kind.needs or "neither names nor count"
            return f"expected {needed} with blocks by {self.by}, found {' and '.join(sorted(given)) or 'none'}"
        if adjacency == "replace-one":
            return (
                "expected add-remove or zero-out with blocks, found replace-one: a record that is replaced may move between blocks"
            )
        if self.kind.within and self.max_blocks != 1:
            return f"expected max_blocks = 1 with blocks by {self.by}, in one of which a unit's records all lie, found {self.max_blocks}"
        if self.max_blocks > 1 and (rule.group_power is None or (delta > 0.0 and "delta" in rule.currency)):
            return (
                f"expected max_blocks = 1, or pure epsilon (approx-dp at delta = 0), zcdp or gdp, found {self.max_blocks} with {rule.name} "
                f"at delta = {delta!r}: what a group of blocks costs in that currency is not proved"
            )
        return None


def stretches(family: BlockFamily, blocks: Iterable[str]) -> list[tuple[str, ...]]:
    """Return the blocks of each stretch without a gap, in order; each block by itself if they have no order."""
    kind = family.kind
    ranked = sorted(set(blocks), key=kind.rank)
    gaps = groupby(enumerate(ranked), key=lambda item: kind.rank(item[1]) - item[0] if kind.ordered else item[0])
    return [tuple(block for _, block in part) for _, part in gaps]


def spelled(family: BlockFamily, blocks: Iterable[str]) -> tuple[str, ...]:
    """Return blocks in one spelling, FIRST..LAST for each stretch, as privacy.window and --window take them."""
    return tuple(part[0] if len(part) == 1 else f"{part[0]}..{part[-1]}" for part in stretches(family, blocks))

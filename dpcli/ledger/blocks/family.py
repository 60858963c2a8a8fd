"""The blocks of a growing dataset. Each block has its own cap and filter, so that new data bring new budget.

When the ledger is opened, its terms fix how the blocks are cut (`by` a `column`) and in how many blocks the records of one unit may lie
(`max_blocks`). The block of a record must depend on that record only. The *window* of a run is the set of blocks that the run reads. Every
run must state its window. One entry charges the full cost of the run on every block of the window, or the run is refused. A block accepts
no further charge if its cap is used up or an entry has retired it. The caps and costs are in the currency of the ledger's filter, such as
rho of zCDP (dpcli/ledger/filters/filter.py).

The following steps prove the guarantee.

1. Let m = max_blocks. The records of a unit (the ledger's unit, which every run must state) lie in a set B of at most m blocks.
2. Let run r read j_r of the blocks in B, so that j_r <= m. Let c_r be the cost of the run, in the filter's currency, if the records of one
   unit in one block change.
3. The ledger ensures for each block that the costs c_r of the runs that read the block sum to at most C. This holds on every path of
   outputs, no matter how the windows and runs were chosen.
4. The sum of step 3 over the blocks in B gives sum(j_r c_r) <= m C.
5. A run with j_r = 0 does not read the unit. For a run with j_r > 0 the unit is a group of j_r changes, one after the other. The cost of
   the run for the whole unit is

   * pure epsilon: j_r c_r, because likelihood ratios multiply;
   * rho of zCDP: j_r^2 c_r (Bun & Steinke 2016, arXiv:1605.02065, group privacy);
   * mu^2 of GDP: j_r^2 c_r. A test that rejects one dataset with probability p rejects its neighbour with probability at most
     Phi(Phi^-1(p) + mu) (Dong et al. 2019, arXiv:1905.02383). So the mu of j neighbours add up.

6. The costs of all runs for the whole unit therefore sum to at most m C for pure epsilon, by step 4. For rho and mu^2 they sum to at most
   m sum(j_r c_r) <= m^2 C, because j_r <= m.
7. The theorems of the filters require only that such a sum is bounded on every path. They are applied to one pair of datasets, with and
   without the unit.
8. So C is set to the cap of a ledger without blocks, divided by m or m^2 and rounded down. The ledger's epsilon and delta then hold for the
   whole unit.

A run may also bound the contribution of a unit to the whole window. Such a run costs the unit at most c_r, so that C is small enough.

Some terms are refused:

* With m > 1, filters with a delta or with the Renyi divergence at one order. Group privacy multiplies delta by a power of e^epsilon, and it
  needs the divergence at other orders. With m = 1 every filter is accepted, because j_r <= 1.
* The adjacency replace-one, because a replaced record may move between blocks. Under zero-out a blanked record may move too, so a run on
  blocks is refused unless a blank record adds nothing to the outputs of its mechanisms (RunPrices.stated_window).

Source: Lecuyer et al. 2019, arXiv:1909.01502 (block composition); Feldman & Zrnic 2021, arXiv:2008.11193 (filters for each individual).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dpcli.base.errors import InputError
from dpcli.ledger.amounts import divide_down
from dpcli.ledger.blocks.block_kinds import BlockKind, kind_named
from dpcli.ledger.plugin import MOST_IN_WINDOW

if TYPE_CHECKING:
    from dpcli.ledger.filters.filter import Filter


@dataclass(frozen=True, slots=True)
class BlockFamily:
    """The terms of a ledger that determine the blocks of its dataset.

    Attributes:
        by: The kind of the blocks: "day", "week", "region" or "hash".
        column: The column that determines the block of a record.
        max_blocks: The largest number of blocks in which the records of one unit may lie.
        names: The names of the blocks, if they are listed.
        count: The number of the blocks, if a hash determines them.
    """

    by: str
    column: str
    max_blocks: int
    names: Sequence[str] = ()
    count: int | None = None

    @property
    def kind(self) -> BlockKind:
        """The kind of the blocks: which names are blocks (`holds`), their order (`rank`), and a block in words (`word`)."""
        return kind_named(self.by, self.names, self.count)

    def content(self) -> dict[str, Any]:
        """Return the family as the opening entry states it, such as {"by": "day", "column": "date", "max_blocks": 1}."""
        content: dict[str, Any] = {"by": self.by, "column": self.column, "max_blocks": self.max_blocks}
        if self.names:
            content["names"] = list(self.names)
        if self.count:
            content["count"] = self.count
        return content

    def window_fault(self, window: object) -> str | None:
        """Return the fault of a window in an entry, as a text "expected ..."; None if the entry may state the window.

        A window is a sorted list of 1 to `MOST_IN_WINDOW` distinct blocks.
        """
        if type(window) is not list or not 1 <= len(window) <= MOST_IN_WINDOW or any(type(name) is not str for name in window):
            return f"expected a window of 1 to {MOST_IN_WINDOW} blocks"
        kind = self.kind
        unknown = next((name for name in window if not kind.holds(name)), None)
        if unknown is not None:
            return f"expected {kind.word}, found {unknown[:60]!a}"
        return None if window == sorted(set(window)) else "expected each block of a window once, in order"

    def window(self, stated: Sequence[str]) -> tuple[str, ...]:
        """Return the blocks of a stated window, sorted.

        Args:
            stated: Names of blocks, and ranges FIRST..LAST that include both ends.

        Raises:
            InputError: A name is not a block, a range is reversed, or the number of blocks is 0 or above `MOST_IN_WINDOW`.
        """
        kind, blocks = self.kind, set[str]()
        for text in stated:
            if kind.holds(text):
                blocks.add(text)
            else:
                blocks.update(self._range(text))
        names = sorted(blocks)
        wrong = self.window_fault(names)
        if wrong is not None:
            raise InputError(f"--window: {wrong}, found {len(names)}")
        return tuple(names)

    def _range(self, text: str) -> Sequence[str]:
        """Return the blocks of a range FIRST..LAST. Raises InputError if it is not a range, is reversed, or has too many blocks."""
        kind = self.kind
        first, _, last = text.partition("..")
        if not (kind.holds(first) and kind.holds(last)):
            hint = ' ("last 7 days" is accepted by --window and in schedules)' if text.startswith("last ") else ""
            raise InputError(f"--window: expected {kind.word}, or FIRST..LAST, found {text[:60]!a}{hint}")
        if kind.ordered and kind.rank(last) - kind.rank(first) >= MOST_IN_WINDOW:  # checked before the blocks are listed
            raise InputError(f"--window: expected a window of 1 to {MOST_IN_WINDOW} blocks, found {text}")
        blocks = kind.between(first, last)
        if not blocks:
            raise InputError(f"--window: expected the earlier block first, found {text}")
        return blocks

    def per_block(self, caps: Mapping[str, str], rule: Filter) -> dict[str, str]:
        """Return the caps of one block that keep the loss of the whole unit within `caps`, rounded down.

        The proof is in the docstring of this module. It needs that `missing_proof` returns None: a delta > 0 must not be divided.
        """
        if self.max_blocks == 1:
            return dict(caps)
        return {name: divide_down(value, self.max_blocks ** (rule.group_power or 0)) for name, value in caps.items()}

    def missing_proof(self, rule: Filter, adjacency: str, delta: float) -> str | None:
        """Return why no guarantee is proved for these blocks, as a text "expected ..."; None if the proof of this module applies."""
        given = {term for term in ("names", "count") if getattr(self, term)}
        needed = self.kind.needs  # the one of the two terms that the kind needs; "" for none
        if given != ({needed} if needed else set()):
            return f"expected {needed or 'neither names nor count'} with blocks by {self.by}, found {' and '.join(sorted(given)) or 'none'}"
        if adjacency == "replace-one":
            return "expected add-remove or zero-out with blocks, found replace-one: a replaced record may move between blocks"
        if self.kind.unit_in_one_block and self.max_blocks != 1:
            return f"expected max_blocks = 1 with blocks by {self.by}, as all records of a unit lie in one block, found {self.max_blocks}"
        if self.max_blocks > 1 and (rule.group_power is None or (delta > 0.0 and "delta" in rule.currency)):
            return (
                f"expected max_blocks = 1, or pure epsilon (approx-dp at delta = 0), zcdp or gdp, found {self.max_blocks} with {rule.name} "
                f"at delta = {delta!r}: no bound is proved for the cost of several blocks in that currency"
            )
        return None


def stretches(family: BlockFamily, blocks: Iterable[str]) -> list[tuple[str, ...]]:
    """Return the maximal stretches of consecutive blocks, in order. If the blocks have no order, each stretch is one block."""
    kind = family.kind
    parts: list[list[str]] = []
    for block in sorted(set(blocks), key=kind.rank):
        if kind.ordered and parts and kind.rank(block) == kind.rank(parts[-1][-1]) + 1:
            parts[-1].append(block)
        else:
            parts.append([block])
    return list(map(tuple, parts))


def window_spelling(family: BlockFamily, blocks: Iterable[str]) -> tuple[str, ...]:
    """Return blocks as privacy.window and --window take them, with FIRST..LAST for each stretch of consecutive blocks."""
    return tuple(map(stretch_spelling, stretches(family, blocks)))


def stretch_spelling(blocks: Sequence[str]) -> str:
    """Return consecutive blocks as --window takes them: "2026-01-01..2026-01-28", or the name of a single block."""
    return blocks[0] if len(blocks) == 1 else f"{blocks[0]}..{blocks[-1]}"

"""The window of a release as a condition on rows: a row of another block is not read, whatever a query asks.

Whose rows are chosen among. A query bounds what comes of one (source.unit, block), not of one source.unit in the whole window, where the
ledger's max_blocks is 1. Its unit then has all its rows in one block: it is what one source.unit has in one block (a patient-week), or a
source.unit that has no rows in others. Take two tables that differ by the rows of such a unit. They are in one (source.unit, block), as the
block of a row follows from that row alone. What is chosen of any other (source.unit, block) depends on its own rows and on the hash's key,
and is the same in both. So at most max_groups keys differ, each by at most max_rows rows and by 1 in the count of units: all that the
sensitivity of any measure is derived from (aggregate.py), whether it adds up rows, counts units, or passes thresholds. The unit's loss is
what its one block is charged. Over the whole window it would not be: without the rows of one week others of the patient may be chosen in
their place, which is a second change of that size.

Where max_blocks is more, a unit is a whole source.unit, and is bounded in the whole window: its loss is at most what one block is charged.
A unit that is neither is refused (whose.py), as far as its name tells.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dpcli.errors import InputError
from dpcli.ledger.blocks.kinds import ColumnType, Part
from dpcli.ledger.blocks.spelling import spelled, stretches
from dpcli.pipeline.window import blocks_words

if TYPE_CHECKING:
    from dpcli.ledger.blocks.family import BlockFamily
    from dpcli.release.settings import Source

WITHOUT_LEDGER = "expected --ledger with it, which knows which rows are in a block, or no window, found no ledger"


@dataclass(frozen=True, slots=True)
class RowWindow:
    """The rows that may be read.

    column: of the data, which decides a row's block; type: what it holds there. spans: its least and largest value in each stretch of
    blocks, as dates or as texts that are compared by their bytes. A row whose column has no such value is in no block.
    blocks: in words, as privacy.window has them. family: what the blocks are. each: what the rows of one block share, where what a unit
    does is bounded in each block by itself; None where it is bounded in the whole window.
    """

    column: str
    type: ColumnType
    spans: tuple[tuple[str, str], ...]
    blocks: tuple[str, ...]
    family: Mapping[str, Any]
    each: Part | None = None

    @property
    def words(self) -> str:
        """What is read, in a sentence."""
        return f'only rows whose "{self.column}" lies in {blocks_words(self.blocks)} are read'


def row_window(family: BlockFamily, window: tuple[str, ...], source: Source, place: str) -> RowWindow:
    """The condition for the blocks of a window.

    place: of the file. Raises InputError where dpcli cannot tell a row's block: of parts of a hash, which is computed elsewhere, and where
    the file computes the column anew, as what decides a block must be the same in every file.
    """
    kind, blocks = family.kind, family.window(window)
    if kind.told_by is None:
        raise InputError(
            f"{place}: expected a ledger whose blocks a column tells (day, week, region), found blocks by {family.by}: dpcli does not know "
            "how it was computed, and cannot read the window alone. Put these blocks into a table of their own, release without --ledger "
            "and without privacy.window, and charge it by dpcli budget spend --window"
        )
    declared = source.columns.get(family.column)
    if declared is not None and declared.expression is not None:
        raise InputError(
            f"{place}: source.columns.{family.column}: expected a column of the data, as the blocks of the ledger are cut by it, found one "
            "that is computed"
        )
    spans = tuple((kind.extent(first)[0], kind.extent(last)[1]) for first, last in stretches(family, blocks))
    each = kind.shared if family.max_blocks == 1 else None
    return RowWindow(family.column, kind.told_by, spans, spelled(family, blocks), family.content(), each)

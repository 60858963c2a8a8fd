"""The window of a release as a condition on rows: a row of another block is not read, whatever a query asks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dpcli.errors import InputError
from dpcli.ledger.blocks.kinds import ColumnType
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
    blocks: in words, as privacy.window has them. family: what the blocks are.
    """

    column: str
    type: ColumnType
    spans: tuple[tuple[str, str], ...]
    blocks: tuple[str, ...]
    family: Mapping[str, Any]

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
    return RowWindow(family.column, kind.told_by, spans, spelled(family, blocks), family.content())

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
A unit that is neither is refused (sessions/whose.py), as far as its name tells.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpcli.base.errors import InputError
from dpcli.ledger.blocks.rows import RowWindow, told_rows

if TYPE_CHECKING:
    from dpcli.ledger.blocks.family import BlockFamily
    from dpcli.release.settings import Source

WITHOUT_LEDGER = "expected --ledger with it, which knows which rows are in a block, or no window, found no ledger"


def row_window(family: BlockFamily, window: tuple[str, ...], source: Source, place: str) -> RowWindow:
    """The condition for the blocks of a window.

    place: of the file. Raises InputError where dpcli cannot tell a row's block: of parts of a hash, which is computed elsewhere, and where
    the file computes the column anew, as what decides a block must be the same in every file.
    """
    found = told_rows(family, family.window(window))
    if found is None:
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
    return found

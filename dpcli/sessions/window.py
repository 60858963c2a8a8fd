"""The window of a session: the blocks of its dataset that it reads and charges.

A *session* is what one charge in a ledger pays for, such as a training run (charged.py). A ledger may divide a dataset into *blocks*, such
as days, weeks or values of a column (dpcli/ledger/blocks/family.py). Each block has its own budget. The window comes from privacy.window of
the file or, if the file has none, from --window. It is written into the pipeline before any record is read or charged, and is thus part of
the fingerprint, of the charge, of a resumed session and of the disclosure statement.

A command calls `over_window` once, between reading its file and its data. The *owner* of a record is the value of a column that a key of
the file names. A command bounds what each owner contributes. unit_check.py compares the name of the column with the unit that the file
protects.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, Self, TypeVar

from dpcli.base.errors import InputError
from dpcli.file.toml.shown import quoted
from dpcli.file.toml.suggest import same_word
from dpcli.ledger.blocks.family import window_spelling
from dpcli.ledger.blocks.rows import RowWindow, rows_from_content, rows_of_blocks
from dpcli.sessions.unit_check import require_bounded

if TYPE_CHECKING:
    from dpcli.file.pipeline.model import Pipeline
    from dpcli.ledger.blocks.family import BlockFamily
    from dpcli.ledger.ledger import Ledger


class Windowed(Protocol):
    """A plan that can be restricted to some blocks of its dataset: a `FilePlan` (priced.py, which explains the members), or a sweep."""

    @property
    def pipeline(self) -> Pipeline: ...

    @property
    def private_file(self) -> str | None: ...

    @property
    def path(self) -> str: ...

    @property
    def rows(self) -> RowWindow | None: ...

    @property
    def bounded(self) -> tuple[str, str] | None: ...

    def on_blocks(self, window: tuple[str, ...]) -> Self: ...

    def on_rows(self, rows: RowWindow | None) -> Self: ...


Plan = TypeVar("Plan", bound=Windowed)


def over_window(plan: Plan, ledger: Ledger | None, flag: Sequence[str] = ()) -> Plan:
    """Return the plan restricted to its window. The window is written into its pipeline, and only the rows of the window are read.

    Without a ledger that has blocks, the plan is returned unchanged. If the data are not a table with the column that assigns rows to
    blocks, all rows are read, and the window is what the person who states it vouches for.

    Args:
        flag: Blocks that --window names.

    Raises:
        InputError: The window is missing, or contradicts the window in the file. --window was given without a ledger that has blocks. Or
            the name of the column with the owners contradicts the unit in the file.
    """
    if ledger is None:
        if flag:
            raise InputError(f"--window: expected --ledger with it, because {flag[0][:60]!a} names blocks of a ledger")
        _require_bounded(plan, None)
        return plan
    # The blocks that the file or --window names. `resolve_trailing` replaces a window such as "last 7 days" by its blocks.
    blocks = ledger.stated_window(plan.pipeline, ledger.resolve_trailing(flag))
    family = ledger.state().open_terms().family  # how the dataset is divided into blocks; None if it is not
    if family is None:
        _require_bounded(plan, None)
        return plan
    if plan.pipeline.privacy.window is None:
        plan = plan.on_blocks(window_spelling(family, blocks))  # spelled as in a file: FIRST..LAST for consecutive blocks
    plan = plan.on_rows(rows_in_table(plan.private_file, plan.path, rows_of_blocks(family, blocks)))
    each_row_has_a_block = plan.rows is not None or len(blocks) == 1  # the one block holds all records
    _require_bounded(plan, family if each_row_has_a_block else None)
    return plan


def _require_bounded(plan: Windowed, family: BlockFamily | None) -> None:
    """Check that the name of the column with the owners does not contradict the unit in the file. Raises InputError if it does.

    Args:
        family: Blocks of the ledger. None if records cannot be assigned to one of several blocks. An owner's contributions are then bounded
            over all blocks together.
    """
    if plan.bounded is not None:
        key, column = plan.bounded
        require_bounded(plan.pipeline.privacy.unit, column, family, place=plan.path, key=key, what="this run")


def as_at_start(plan: Plan, window: Sequence[str], rows: object) -> Plan:
    """Return the plan as it was when its session began. Commands that read the results of a session use it.

    Args:
        window: Blocks of the session. They apply if the file has no window, because later commands have no option --window.

    Raises:
        ValueError: `rows` does not describe a RowWindow.
    """
    blocks = tuple(window)
    if blocks and plan.pipeline.privacy.window is None:
        plan = plan.on_blocks(blocks)
    return plan.on_rows(rows_from_content(rows, blocks))


def rows_in_table(source: str | None, path: str, rows: RowWindow | None) -> RowWindow | None:
    """Return the rows of the window if the table has the column that assigns rows to blocks; None otherwise.

    The header of a .csv file or the schema of a .parquet file decides this. A .jsonl file has neither, and its private records must not
    decide whether all of them are read. Its rows are therefore always restricted, and a record without the column is in no block.

    Args:
        source: Path of the table, relative to the pipeline file; None if the data are not a table. For a table that cannot be read, the
            result is None. The code that reads its rows reports the error.
        rows: Rows of the window; None if the whole dataset may be read.

    Raises:
        InputError: The table has the column under another spelling.
    """
    if rows is None or source is None:
        return None
    place = os.path.join(os.path.dirname(os.path.abspath(path)), source)
    if not os.path.isfile(place):
        return None
    ending = os.path.splitext(source)[1]
    if ending == ".jsonl":  # declares no columns
        return rows
    read_names = COLUMN_READERS.get(ending)
    columns = [] if read_names is None else read_names(place)
    if rows.column in columns:
        return rows
    near = next((name for name in columns if same_word(name, rows.column)), None)
    if near is not None:  # without this error, all rows would be read although only the blocks of the window are charged
        raise InputError(
            f'{source}: expected the column "{rows.column}", which determines the ledger\'s blocks, found {quoted(near)}: use the exact '
            "name, or a clearly different one if this column does not determine the blocks"
        )
    return None


def _csv_columns(place: str) -> list[str]:
    """Return the names of the columns in the header of a .csv file; [] if the file cannot be read as .csv."""
    try:
        with open(place, newline="", encoding="utf-8-sig") as file:
            return next((line for line in csv.reader(file, strict=True) if line), [])
    except (ValueError, csv.Error):
        return []


def _parquet_columns(place: str) -> list[str]:
    """Return the names of the columns in the schema of a .parquet file; [] if the file cannot be read as .parquet."""
    try:
        import pyarrow.parquet

        return list(pyarrow.parquet.read_schema(place).names)
    except Exception:  # pyarrow is not installed, or the file is not Parquet
        return []


# Functions that return the names of a table's columns, by the ending of the file.
COLUMN_READERS = {".csv": _csv_columns, ".parquet": _parquet_columns}

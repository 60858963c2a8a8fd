"""The window of a session, which is the list of blocks of its dataset that it reads. It is known before any record is read or charged.

A ledger may divide a dataset into blocks, such as days, weeks or values of a column. Each block has its own budget. A run reads the blocks
of its window, and each of them is charged. The window comes from privacy.window of the file or, if the file has none, from --window. It is
then written into the pipeline, and is thus part of the fingerprint, of the charge, of a resumed session and of the statement.

The module also checks the unit of privacy (`require_bounded`). A run bounds the contributions of an owner. An owner is one value of the
column that source.unit, train.units or a similar key names. The bound holds over the whole window, or in each block if every record is read
in a single block of a ledger with max_blocks = 1. The owner must be the unit that privacy.unit claims to protect:

* If the column is finer than the claimed unit (patient_week for "patient"), the run bounds each part of a unit separately. The loss of a
  unit with k parts is then up to k times the claimed epsilon.
* If the column is coarser than the claimed unit (patient for "patient_week"), the run bounds many units together by a choice of some of
  their rows. The removal of one unit changes the choice among the rows of the others. The loss is then up to twice the claimed epsilon.

Only names can be compared, and names are arbitrary: a "visitor" may have the column `cookie`. The check therefore refuses a column only if
its name contradicts the unit.
"""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, Self, TypeVar

from dpcli.base.errors import InputError
from dpcli.file.toml.shown import quoted
from dpcli.file.toml.suggest import same_word
from dpcli.ledger.blocks.family import spelled
from dpcli.ledger.blocks.rows import RowWindow, rows_from_content, rows_of_blocks

if TYPE_CHECKING:
    from dpcli.file.pipeline.model import Pipeline
    from dpcli.ledger.blocks.family import BlockFamily
    from dpcli.ledger.ledger import Ledger


# Words for periods of time.
PERIODS = frozenset({"minute", "hour", "day", "date", "week", "month", "quarter", "year"})
# Words for things of which one person can have several.
PARTS = PERIODS | {
    "visit",
    "session",
    "event",
    "row",
    "record",
    "encounter",
    "stay",
    "admission",
    "order",
    "trip",
    "message",
    "device",
}
# Words that mark a column as an identifier, but do not say what it identifies.
IDENTIFIER_WORDS = frozenset({"id", "key", "no", "nr", "number", "uuid", "guid", "hash", "code"})


def require_bounded(
    unit: str | None,
    column: str | None,
    family: BlockFamily | None,
    place: str,
    key: str = "source.unit",
    what: str = "this release",
) -> None:
    """Check that the names of the unit and of the column whose values are bounded do not contradict each other.

    Args:
        unit: Unit that the file claims to protect (privacy.unit); None if the file claims none.
        column: Column whose values are bounded, which `key` names; None if there is none.
        family: Blocks of the ledger. None if there is no ledger, if it has no blocks, or if records cannot be assigned to blocks.
        place: Path of the file, for the message.
        key: Key of the file that names the column.
        what: Subject of the message: the run that bounds contributions.

    Raises:
        InputError: The name of the column says that it is finer or coarser than the unit.
    """
    if unit is None or column is None:
        return
    per_block = family is not None and family.max_blocks == 1
    block_words = _block_words(family) if family is not None and per_block else frozenset()
    column_words = _words(column)
    unit_words = [part for word in _words(unit) for part in _split_compound(word, column_words)]
    unmatched = [word for word in unit_words if word not in column_words and word not in block_words]
    unit_is_finer = any(word in PARTS for word in unmatched) or (
        set(column_words) <= set(unit_words) and unit_words[-1:] == unmatched[-1:] != []
    )
    unit_is_coarser = any(word in PARTS and word not in unit_words for word in column_words) or not set(unit_words) - (
        block_words - set(column_words)
    )
    if not (unit_is_finer or unit_is_coarser):
        return
    bounded = f'the records of one "{column}" in one block' if per_block else f'all records of one "{column}"'
    raise InputError(
        f'{place}: {key}: expected the column that says which "{unit}" of privacy.unit a row belongs to, found "{column}": '
        f'{what} bounds {bounded}, and by its name that is no "{unit}". Name another column, set privacy.unit to the bounded unit, '
        "or charge a ledger with max_blocks = 1 whose blocks divide the data into such units, on a table that has the column of the blocks"
    )


def _block_words(family: BlockFamily) -> frozenset[str]:
    """Return the words by which the name of a unit may refer to a block: week in patient-week, region in patient-region."""
    of_column = set() if family.kind.column_type == "date" else set(_words(family.column)) - PARTS
    return frozenset({*_words(family.by), *of_column})


def _words(name: str) -> list[str]:
    """Return the words of a name in lower case and in the singular, without `IDENTIFIER_WORDS`."""
    words = re.findall(r"[^\W_]+", re.sub("(?<=[a-z])(?=[A-Z])", " ", name).lower())
    singular = [word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word for word in words]
    return [word for word in singular if word not in IDENTIFIER_WORDS] or singular


def _split_compound(word: str, stems: list[str]) -> list[str]:
    """Return the two words of a compound that begins with a stem. If user is a stem, userday gives user and day.

    Any other word is returned unchanged.
    """
    for stem in stems:
        if word.startswith(stem) and word[len(stem) :] in PARTS:
            return [stem, word[len(stem) :]]
    return [word]


def in_table(source: str | None, path: str, rows: RowWindow | None) -> RowWindow | None:
    """Return the rows of the window if the table has the column that assigns rows to blocks; None otherwise.

    The header of a .csv file or the schema of a .parquet file decides this. A .jsonl file has neither, and its private records must not
    decide whether all of them are read. Its rows are therefore always restricted, and a record without the column is in no block.

    Args:
        source: Path of the table, relative to the pipeline file; None if the data are not a table. For a table that cannot be read, the
            result is None. The code that reads its rows reports the error.
        path: Path of the pipeline file.
        rows: Rows of the window; None if the whole dataset may be read.

    Raises:
        InputError: The table has the column under another spelling.
    """
    if rows is None or source is None:
        return None
    place = os.path.join(os.path.dirname(os.path.abspath(path)), source)
    read_names = COLUMN_READERS.get(os.path.splitext(source)[1])
    if read_names is None or not os.path.isfile(place):
        return None
    columns = read_names(place)
    if columns is None or rows.column in columns:
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


def _jsonl_columns(place: str) -> None:
    return None  # a .jsonl file does not declare its columns


# Functions that return the names of a table's columns, by the ending of the file.
COLUMN_READERS = {".csv": _csv_columns, ".parquet": _parquet_columns, ".jsonl": _jsonl_columns}


class Windowed(Protocol):
    """A plan that can be restricted to some blocks of its dataset."""

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

    def over(self, window: tuple[str, ...]) -> Self: ...

    def on_rows(self, rows: RowWindow | None) -> Self: ...


class Resumable(Windowed, Protocol):
    """A plan whose later sessions are recognised by its fingerprint."""

    def fingerprint(self) -> str: ...


Plan = TypeVar("Plan", bound=Windowed)
Begun = TypeVar("Begun", bound=Resumable)


def over_window(plan: Plan, ledger: Ledger | None, given: Sequence[str] = ()) -> Plan:
    """Return the plan restricted to its window. The window is written into its pipeline, and only the rows of the window are read.

    The plan is returned unchanged if the dataset is not divided into blocks. All rows are read if the data are not a table with the column
    that assigns rows to blocks.

    Args:
        plan: Plan of the run.
        ledger: Ledger that the run is charged to; None without a ledger.
        given: Blocks that --window names.

    Raises:
        InputError: The window is missing, or contradicts the window in the file. --window was given without a ledger that has blocks. Or
            the name of the column with the owners contradicts the unit in the file.
    """
    if ledger is None:
        if given:
            raise InputError(f"--window: expected --ledger with it, because {given[0][:60]!a} names blocks of a ledger")
        _require_bounded(plan, None)
        return plan
    blocks, family = ledger.stated_window(plan.pipeline, ledger.resolve_trailing(given)), ledger.state().open_terms().family
    if family is None:
        _require_bounded(plan, None)
        return plan
    plan = plan if plan.pipeline.privacy.window is not None else plan.over(spelled(family, blocks))
    plan = plan.on_rows(in_table(plan.private_file, plan.path, rows_of_blocks(family, blocks)))
    _require_bounded(plan, family if plan.rows is not None or len(blocks) == 1 else None)
    return plan


def _require_bounded(plan: Windowed, family: BlockFamily | None) -> None:
    """Check that the name of the column with the owners does not contradict the unit that the file protects.

    Args:
        plan: Plan of the run.
        family: Blocks of the ledger. None if records cannot be assigned to one of several blocks. An owner's contributions are then bounded
            over all blocks together.

    Raises:
        InputError: The names contradict each other.
    """
    if plan.bounded is not None:
        key, column = plan.bounded
        require_bounded(plan.pipeline.privacy.unit, column, family, plan.path, key, "this run")


def as_begun(plan: Begun, window: Sequence[str], rows: object) -> Begun:
    """Return the plan as it was when its session began. Commands that read the results of a session use it.

    Args:
        plan: Plan of the file.
        window: Blocks of the session. They apply if the file has no window, because later commands have no option --window.
        rows: Rows of the session in the form of RowWindow.content; None if all rows were read.

    Raises:
        ValueError: `rows` does not describe a RowWindow.
    """
    from_flag = plan.pipeline.privacy.window is None and len(window) > 0
    return (plan.over(tuple(window)) if from_flag else plan).on_rows(rows_from_content(rows, tuple(window)))

"""Which tables tell the block of a row: those that have the column by which their dataset is cut."""

from __future__ import annotations

import csv
import os

from dpcli.base.errors import InputError
from dpcli.file.toml.shown import quoted
from dpcli.file.toml.suggest import same_word
from dpcli.ledger.blocks.rows import RowWindow


def in_table(source: str | None, path: str, rows: RowWindow | None) -> RowWindow | None:
    """The rows, where the table tells which they are: by its line of names or its schema; None where it does not.

    A .jsonl file has neither. What its records have would decide whether all of them are read: it is always held to the rows, and a record
    without the column is in no block.

    Args:
        source: as the file at `path` names it, None where the data are no table. What cannot be read is told by whoever reads all of it.

    Raises InputError where the column is spelled otherwise.
    """
    if rows is None or source is None:
        return None
    place = os.path.join(os.path.dirname(os.path.abspath(path)), source)
    names = COLUMNS.get(os.path.splitext(source)[1])
    if names is None or not os.path.isfile(place):
        return None
    found = names(place)
    if found is None or rows.column in found:
        return rows
    near = next((name for name in found if same_word(name, rows.column)), None)
    if near is not None:  # else all rows would be read, and these blocks alone charged
        raise InputError(
            f'{source}: expected the column "{rows.column}", by which the ledger\'s blocks are cut, found {quoted(near)}: give it that '
            "name, or another one where it is not what the blocks are cut by"
        )
    return None


def _csv(place: str) -> list[str]:
    try:
        with open(place, newline="", encoding="utf-8-sig") as file:
            return next((line for line in csv.reader(file, strict=True) if line), [])
    except (ValueError, csv.Error):
        return []


def _parquet(place: str) -> list[str]:
    try:
        import pyarrow.parquet

        return list(pyarrow.parquet.read_schema(place).names)
    except Exception:  # there is no pyarrow, or whatever it raises for a file that is none
        return []


def _jsonl(place: str) -> None:
    return None


COLUMNS = {".csv": _csv, ".parquet": _parquet, ".jsonl": _jsonl}

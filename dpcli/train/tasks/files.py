"""Files of records, read so that no error message quotes one."""

from __future__ import annotations

import csv
import json
from datetime import date
from functools import cache
from typing import Any

from dpcli.base.errors import InputError, Unavailable
from dpcli.file.toml.suggest import instead_of
from dpcli.ledger.blocks.rows import RowWindow

Rows = list[list[Any]]
EPOCH = date(1970, 1, 1).toordinal()
PER_DAY = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}


def text_of(place: str) -> str:
    """The content of a file in UTF-8, with or without a byte-order mark."""
    try:
        with open(place, encoding="utf-8-sig") as file:
            return file.read()
    except UnicodeDecodeError:
        raise InputError(f"{place}: expected text in UTF-8, found another encoding") from None


def csv_table(place: str, only: RowWindow | None = None) -> tuple[list[str], list[list[str]]]:
    """The names of the columns, and the lines below that are not empty; of these rows alone, where they are given.

    Raises:
        InputError: no line of names, names that are not distinct, lines of another length, another encoding or form.
    """
    lines = [line for line in _csv_lines(place) if line]
    if not lines:
        raise InputError(f"{place}: expected the names of the columns in the first line, found an empty file")
    names, *rows = lines
    if all(_is_number(name) for name in names):
        raise InputError(f"{place}: expected the names of the columns in the first line, found numbers only")
    if any(len(row) != len(names) for row in rows):
        raise InputError(f"{place}: expected as many values in each line as in the first, found another number")
    require_distinct(names, place)
    if only is None:
        return names, rows
    at, held = _deciding(names, only, place), only.judge()
    return names, some([row for row in rows if held(row[at])], only, place)


def _deciding(names: list[str], only: RowWindow, place: str) -> int:
    """Where the column is that decides a row's block."""
    if only.column not in names:
        there = instead_of(only.column, names)
        raise InputError(f'{place}: expected a column "{only.column}", by which the ledger\'s blocks are cut, found {there}')
    return names.index(only.column)


def some(rows: list[Any], only: RowWindow, place: str) -> list[Any]:
    """The rows of a window. Raises InputError where there is none."""
    if not rows:
        raise InputError(f"{place}: expected {only.which}, found none")
    return rows


def _csv_lines(place: str) -> list[list[str]]:
    try:
        with open(place, newline="", encoding="utf-8-sig") as file:
            return list(csv.reader(file, strict=True))  # else an open quote takes in the records below it
    except UnicodeDecodeError:
        raise InputError(f"{place}: expected text in UTF-8, found another encoding") from None
    except csv.Error:
        longest = csv.field_size_limit()
        raise InputError(
            f"{place}: expected comma-separated values of at most {longest} characters, where a value that begins with a quote ends with "
            "one and has those within it twice, found something else: .jsonl has no such limit"
        ) from None


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def require_distinct(names: list[str], place: str) -> None:
    """Of two columns of one name one would silently be lost."""
    if len(set(names)) < len(names):
        raise InputError(f"{place}: expected columns of different names, found two of the same")


def parquet_table(place: str, only: RowWindow | None = None) -> tuple[list[str], Rows]:
    """The names of the columns, and the rows; these alone, where they are given. No value of another row is looked at."""
    try:
        import pyarrow.parquet
    except ImportError:
        raise Unavailable(f"{place}: expected pyarrow, which reads .parquet files, found none: pip install pyarrow") from None
    try:
        table = pyarrow.parquet.read_table(place)
        require_distinct(list(table.column_names), place)
        if only is not None:
            table = table.filter(pyarrow.array(rows_held(table, only, place), pyarrow.bool_()))
        names, columns = list(table.column_names), [column.to_pylist() for column in table.columns]
    except InputError:
        raise
    except Exception:  # whatever pyarrow raises for a file that is none
        raise InputError(f"{place}: expected a .parquet file, found one that cannot be read as such") from None
    found = [list(row) for row in zip(*columns, strict=True)]
    return names, found if only is None else some(found, only, place)


def rows_held(table: Any, only: RowWindow, place: str) -> list[bool]:
    """Whether each row of an arrow table is one of these, (n,). Raises InputError for a column that holds values of another kind."""
    import pyarrow

    column = table.column(_deciding(list(table.column_names), only, place))
    kind, types = column.type, pyarrow.types
    kind = kind.value_type if types.is_dictionary(kind) else kind
    dated = only.type == "date"
    if dated and (types.is_date(kind) or (types.is_timestamp(kind) and kind.tz is None)):
        held = cache(lambda day: held_day(day, only))
        return [held(day) for day in days(column, kind)]
    text = types.is_string(kind) or types.is_large_string(kind) or types.is_null(kind)
    if not text and (dated or not types.is_integer(kind)):
        raise InputError(f'{place}: expected values of type {only.type} in the column "{only.column}", found {kind}')
    return list(map(only.judge(), column.to_pylist()))


def days(column: Any, kind: Any) -> list[int | None]:
    """Of dates and times, the days from 1970-01-01 on: also those that no calendar of Python's has."""
    import pyarrow

    if not pyarrow.types.is_timestamp(kind):
        return [*column.cast(pyarrow.date32()).cast(pyarrow.int32()).to_pylist()]
    each = PER_DAY[kind.unit]
    return [None if value is None else value // each for value in column.cast(pyarrow.int64()).to_pylist()]


def held_day(day: int | None, only: RowWindow) -> bool:
    """Whether a day, counted from 1970-01-01, is in the window."""
    number = 0 if day is None else day + EPOCH
    return 1 <= number <= date.max.toordinal() and only.holds(date.fromordinal(number))


def row_place(place: str, row: int, only: RowWindow | None = None) -> str:
    """Where a row of a table is, counted from 0: the line of a .csv file that it begins on, else its number from 1.

    only: the rows that are counted, where those are not all.
    """
    if only is not None:
        row = _nth(place, row, only)
    if not place.endswith(".csv"):
        return f"{place}: row {row + 1:,}"
    with open(place, newline="", encoding="utf-8-sig") as file:
        reader, before, found = csv.reader(file, strict=True), 0, -1  # row -1 is the line of names
        for line in reader:
            if line and found == row:
                break
            found, before = found + bool(line), reader.line_num
    return f"{place}:{before + 1}"


def _nth(place: str, row: int, only: RowWindow) -> int:
    """Among all rows, the place of one that is counted among these."""
    if place.endswith(".csv"):
        names, rows = csv_table(place)
        held = [only.holds(line[_deciding(names, only, place)]) for line in rows]
    else:
        import pyarrow.parquet

        held = rows_held(pyarrow.parquet.read_table(place), only, place)
    counted = [number for number, one in enumerate(held) if one]
    if row >= len(counted):
        raise InputError(f"{place}: expected a file that nobody writes to, found fewer rows than were read before")
    return counted[row]


def json_lines(place: str, only: RowWindow | None = None) -> list[Any]:
    """What stands on each line that is not empty; of these rows alone, where they are given."""
    found = []
    for line in text_of(place).split("\n"):
        if line.strip():
            try:
                found.append(json.loads(line))
            except (ValueError, RecursionError):
                raise InputError(f"{place}: expected a JSON object on each line, found something else (where is private)") from None
    if only is None:
        return found
    held = only.judge()
    return some([row for row in found if isinstance(row, dict) and held(row.get(only.column))], only, place)

"""Readers of .csv, .parquet and .jsonl files, and of the owners of records. No message quotes a value."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Sequence
from datetime import date
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from dpcli.base.errors import InputError, Unavailable
from dpcli.file.toml.suggest import instead_of
from dpcli.ledger.blocks.rows import RowWindow

if TYPE_CHECKING:
    from numpy.typing import NDArray


Rows = list[list[Any]]
EPOCH = date(1970, 1, 1).toordinal()
PER_DAY = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}


def text_of(place: str) -> str:
    """Return the content of a file in UTF-8, with or without a byte-order mark."""
    try:
        with open(place, encoding="utf-8-sig") as file:
            return file.read()
    except UnicodeDecodeError:
        raise InputError(f"{place}: expected text in UTF-8") from None


def csv_table(place: str, only: RowWindow | None = None) -> tuple[list[str], list[list[str]]]:
    """Return the names of the columns, and the rows that are not empty; only those of `only`, if it is given.

    Raises:
        InputError: No line of names, names that are not distinct, lines of another length, another encoding or form.
    """
    lines = [line for line in _csv_lines(place) if line]
    if not lines:
        raise InputError(f"{place}: expected the names of the columns in the first line, found an empty file")
    names, *rows = lines
    if all(_is_number(name) for name in names):
        raise InputError(f"{place}: expected the names of the columns in the first line, found numbers only")
    if any(len(row) != len(names) for row in rows):
        raise InputError(f"{place}: expected as many values in each line as in the first; one has more or fewer")
    require_distinct(names, place)
    if only is None:
        return names, rows
    at, in_window = _deciding(names, only, place), only.judge()
    return names, some([row for row in rows if in_window(row[at])], only, place)


def _deciding(names: list[str], only: RowWindow, place: str) -> int:
    """Return the index of the column by which the ledger's blocks are cut."""
    if only.column not in names:
        columns = instead_of(only.column, names)
        raise InputError(f'{place}: expected a column "{only.column}", by which the ledger\'s blocks are cut, found {columns}')
    return names.index(only.column)


def some(rows: list[Any], only: RowWindow, place: str) -> list[Any]:
    """Return the rows of a window. Raises InputError if there are none."""
    if not rows:
        raise InputError(f"{place}: there are no {only.which}")
    return rows


def _csv_lines(place: str) -> list[list[str]]:
    try:
        with open(place, newline="", encoding="utf-8-sig") as file:
            return list(csv.reader(file, strict=True))  # strict, as an open quote would take in the records below it
    except UnicodeDecodeError:
        raise InputError(f"{place}: expected text in UTF-8") from None
    except csv.Error:
        longest = csv.field_size_limit()
        raise InputError(
            f"{place}: expected comma-separated values of at most {longest} characters, where a value that begins with a quote ends with "
            "one and has those within it twice: .jsonl has no such limit"
        ) from None


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def require_distinct(names: list[str], place: str) -> None:
    """Raise InputError for two columns of one name, of which one would silently be lost."""
    if len(set(names)) < len(names):
        raise InputError(f"{place}: expected columns of different names, found two of the same")


def parquet_table(place: str, only: RowWindow | None = None) -> tuple[list[str], Rows]:
    """Return the names of the columns, and the rows; only those of `only`, if it is given. No value of another row is read."""
    try:
        import pyarrow.parquet
    except ImportError:
        raise Unavailable(f"{place}: .parquet files need pyarrow: pip install pyarrow") from None
    try:
        table = pyarrow.parquet.read_table(place)
        require_distinct(list(table.column_names), place)
        if only is not None:
            table = table.filter(pyarrow.array(rows_held(table, only, place), pyarrow.bool_()))
        names, columns = list(table.column_names), [column.to_pylist() for column in table.columns]
    except InputError:
        raise
    except Exception:  # a file of another kind may raise anything
        raise InputError(f"{place}: expected a .parquet file, found one that cannot be read as such") from None
    rows = [list(row) for row in zip(*columns, strict=True)]
    return names, rows if only is None else some(rows, only, place)


def column_table(place: str, only: RowWindow | None = None) -> tuple[list[str], Rows]:
    """Return the names of the columns of a .csv or .parquet file, and the rows; only those of `only`, if it is given."""
    return parquet_table(place, only) if place.endswith(".parquet") else csv_table(place, only)


def rows_held(table: Any, only: RowWindow, place: str) -> list[bool]:
    """Return whether each row of an arrow table is in the window, (n,). Raises InputError for a column of another type."""
    import pyarrow

    column = table.column(_deciding(list(table.column_names), only, place))
    kind, types = column.type, pyarrow.types
    kind = kind.value_type if types.is_dictionary(kind) else kind
    dated = only.type == "date"
    if dated and (types.is_date(kind) or (types.is_timestamp(kind) and kind.tz is None)):
        in_window = cache(lambda day: held_day(day, only))
        return [in_window(day) for day in days(column, kind)]
    text = types.is_string(kind) or types.is_large_string(kind) or types.is_null(kind)
    if not text and (dated or not types.is_integer(kind)):
        raise InputError(f'{place}: expected values of type {only.type} in the column "{only.column}", found {kind}')
    return list(map(only.judge(), column.to_pylist()))


def days(column: Any, kind: Any) -> list[int | None]:
    """Return the days since 1970-01-01 of dates and times, also of those that Python's calendar does not have."""
    import pyarrow

    if not pyarrow.types.is_timestamp(kind):
        return [*column.cast(pyarrow.date32()).cast(pyarrow.int32()).to_pylist()]
    each = PER_DAY[kind.unit]
    return [None if value is None else value // each for value in column.cast(pyarrow.int64()).to_pylist()]


def held_day(day: int | None, only: RowWindow) -> bool:
    """Return whether a day, counted since 1970-01-01, is in the window."""
    number = 0 if day is None else day + EPOCH
    return 1 <= number <= date.max.toordinal() and only.holds(date.fromordinal(number))


def row_place(place: str, row: int, only: RowWindow | None = None) -> str:
    """Return where a row of a table is, counted from 0: the line of a .csv file that it begins on, else its number from 1.

    Args:
        only: The rows that are counted, where those are not all.
    """
    if only is not None:
        row = _nth(place, row, only)
    if not place.endswith(".csv"):
        return f"{place}: row {row + 1:,}"
    with open(place, newline="", encoding="utf-8-sig") as file:
        reader, before, counted = csv.reader(file, strict=True), 0, -1  # row -1 is the line of names
        for line in reader:
            if line and counted == row:
                break
            counted, before = counted + bool(line), reader.line_num
    return f"{place}:{before + 1}"


def _nth(place: str, row: int, only: RowWindow) -> int:
    """Return the number, among all rows of the file, of a row that is counted among those of the window."""
    if place.endswith(".csv"):
        names, rows = csv_table(place)
        in_window = [only.holds(line[_deciding(names, only, place)]) for line in rows]
    else:
        import pyarrow.parquet

        in_window = rows_held(pyarrow.parquet.read_table(place), only, place)
    counted = [number for number, one in enumerate(in_window) if one]
    if row >= len(counted):
        raise InputError(f"{place}: expected a file that nobody writes to, found fewer rows than were read before")
    return counted[row]


def json_lines(place: str, only: RowWindow | None = None) -> list[Any]:
    """Return the value on each line that is not empty; only those of `only`, if it is given."""
    result = []
    for line in text_of(place).split("\n"):
        if line.strip():
            try:
                result.append(json.loads(line))
            except (ValueError, RecursionError):
                raise InputError(f"{place}: a line is no JSON (which one is private)") from None
    if only is None:
        return result
    in_window = only.judge()
    return some([row for row in result if isinstance(row, dict) and in_window(row.get(only.column))], only, place)


UNIT_TYPES = ({int}, {str}, {bytes}, {float})  # in which equal values are one owner


def owners_of(units: Any, path: str) -> NDArray[np.generic]:
    """Return the owner of each record, (n,): whole numbers, texts or finite numbers, all of one type.

    None, NaN (which is unlike itself) and an empty text are refused, and so are mixed types, of which 1 and "1" would be two owners.

    Raises:
        InputError: Anything else. The message shows no value.
    """
    values = _listed(units, path)
    types = {type(value) for value in values}
    if type(None) in types or any(value != value or value in ("", b"") for value in values if type(value) in (float, str, bytes)):
        raise _refusal(path, "some that are missing")
    if types and types not in UNIT_TYPES:
        raise _refusal(path, "values of type " + " and ".join(sorted(one.__name__ for one in types)))
    if types == {float} and not all(math.isfinite(value) for value in values):
        raise _refusal(path, "some that are not finite")
    owners = np.asarray(values)
    # As text if they are whole numbers beyond 64 bits, which numpy would round.
    return owners if types != {int} or owners.dtype.kind in "iu" else np.asarray([str(value) for value in values])


def in_blocks(units: Any, blocks: Sequence[str] | None, path: str) -> NDArray[np.generic]:
    """Return a unit for each pair of an owner and a block that occurs, (n,): whole numbers.

    Which of its records a unit keeps would otherwise depend on those of its other blocks: where the records of one block are gone, others
    take their place, which is a second change. Raises InputError as `owners_of` does, and where there is another number of blocks.

    Args:
        blocks: Block of each record; None if a unit is bounded in the whole window, and the units are as `owners_of` has them.
    """
    owners = owners_of(units, path)
    if blocks is None:
        return owners
    if owners.shape != (len(blocks),):
        raise InputError(f"{path}: train.units: expected an owner for each record, but their numbers differ")
    owners, parts = (np.unique(values, return_inverse=True)[1].astype(np.int64) for values in (owners, np.asarray(blocks)))
    return owners * (int(parts.max(initial=0)) + 1) + parts


def _listed(units: Any, path: str) -> list[Any]:
    """Return values of Python's own types."""
    try:
        values = list(units.tolist() if hasattr(units, "tolist") else units)
        return [value.item() if hasattr(value, "item") else value for value in values]
    except Exception:  # an array of another library may raise anything
        raise _refusal(path, f"a value of type {type(units).__name__}") from None


def _refusal(path: str, problem: str) -> InputError:
    return InputError(f"{path}: train.units: expected the owner of each record, found {problem}")


def held_out(count: int, share: float, units: object, path: str) -> NDArray[np.bool_]:
    """Return which records are declared public: every k-th of the file, the same in every run.

    Raises:
        InputError: If records have owners, or the share is over one half.
    """
    if units is not None:
        raise InputError(
            f"{path}: train.public: expected a file of its own with units, found held-out, which would split a unit's records"
        )
    every = round(1.0 / share)
    if every < 2:
        raise InputError(f"{path}: train.held_out: expected at most half of the records, found {share:g}")
    return np.arange(count) % every == 0  # type: ignore[no-any-return]

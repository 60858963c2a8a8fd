"""Readers of .csv, .parquet and .jsonl files, and checks of the owners of records.

An *owner* is whom a record belongs to; a *window* is a part of the data by blocks of a ledger, and rows outside it are never returned. A
*unit* is an owner or, if owners are bounded in each block, an owner in a block. No error message quotes a value of the data, because the
data are private. The readers refuse what is ambiguous: of two columns with the same name one would be lost, and an owner who is written as
1 and as "1" would count as two people. `place` is the path of the data file, with which messages begin, and `only` the window to which rows
are restricted, None for all.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Sequence
from datetime import date
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dpcli.base.errors import InputError, Unavailable
from dpcli.base.stated import held_out_interval
from dpcli.file.toml.suggest import instead_of
from dpcli.ledger.blocks.rows import RowWindow

if TYPE_CHECKING:
    from numpy.typing import NDArray

EPOCH = date(1970, 1, 1).toordinal()  # number of 1970-01-01 in Python's calendar
# Number of units of each type of timestamp in a day.
PER_DAY = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}

# Sets of types that the owners of a file may have. Two equal values of one type are the same owner.
UNIT_TYPES = ({int}, {str}, {bytes}, {float})


class ColumnTable(NamedTuple):
    """The content of a file with columns.

    Attributes:
        names: Names of the columns.
        rows: Values of each row, in the order of the names. Values of a .csv file are texts.
    """

    names: list[str]
    rows: list[list[Any]]


def read_text(place: str) -> str:
    """Return the content of a text file in UTF-8 without its byte-order mark. Raises InputError for another encoding."""
    try:
        with open(place, encoding="utf-8-sig") as file:
            return file.read()
    except UnicodeDecodeError:
        raise InputError(f"{place}: expected text in UTF-8") from None


def csv_table(place: str, only: RowWindow | None = None) -> ColumnTable:
    """Return the columns and rows of a .csv file. Empty lines are skipped.

    Raises:
        InputError: The file has no line of names, two equal names, or lines of different lengths. It is not in UTF-8, or not in the csv
            format. Or the window contains no row.
    """
    lines = [line for line in _csv_lines(place) if line]
    if not lines:
        raise InputError(f"{place}: expected the names of the columns in the first line, found an empty file")
    names, *rows = lines
    if all(_is_number(name) for name in names):
        raise InputError(f"{place}: expected the names of the columns in the first line, found numbers only")
    if any(len(row) != len(names) for row in rows):
        raise InputError(f"{place}: expected as many values in each line as in the first line; a line has more or fewer")
    require_distinct(names, place)
    if only is None:
        return ColumnTable(names, rows)
    block_index, is_in_window = _block_column(names, only, place), only.cached_holds()
    return ColumnTable(names, require_rows([row for row in rows if is_in_window(row[block_index])], only, place))


def _block_column(names: list[str], only: RowWindow, place: str) -> int:
    """Return the index of the column that determines the block of a row. Raises InputError if the column is missing."""
    if only.column not in names:
        columns = instead_of(only.column, names)
        raise InputError(f'{place}: expected a column "{only.column}", which determines the ledger\'s blocks, found {columns}')
    return names.index(only.column)


def require_rows(rows: list[Any], only: RowWindow, place: str) -> list[Any]:
    """Return the rows of a window unchanged. Raises InputError if there are none."""
    if not rows:
        raise InputError(f"{place}: there are no {only.which}")
    return rows


def _csv_lines(place: str) -> list[list[str]]:
    """Return the values of every line of a .csv file."""
    try:
        with open(place, newline="", encoding="utf-8-sig") as file:
            return list(csv.reader(file, strict=True))  # strict: otherwise an open quote would swallow the records below it
    except UnicodeDecodeError:
        raise InputError(f"{place}: expected text in UTF-8") from None
    except csv.Error:
        longest = csv.field_size_limit()
        raise InputError(
            f"{place}: expected comma-separated values of at most {longest} characters; a value that begins with a quote must end with a "
            "quote, and quotes inside it must be doubled; .jsonl has no such limits"
        ) from None


def _is_number(text: str) -> bool:
    """Return whether a text is a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def require_distinct(names: list[str], place: str) -> None:
    """Raise InputError if two columns have the same name, because one of them would be lost silently."""
    if len(set(names)) < len(names):
        raise InputError(f"{place}: expected columns of different names, found two columns of the same name")


def parquet_table(place: str, only: RowWindow | None = None) -> ColumnTable:
    """Return the columns and rows of a .parquet file. Values of rows outside of the window are not converted.

    Raises:
        InputError: The file cannot be read, has two columns of the same name, or has no rows in the window.
        Unavailable: pyarrow is not installed.
    """
    try:
        import pyarrow.parquet
    except ImportError:
        raise Unavailable(f"{place}: .parquet files need pyarrow: pip install pyarrow") from None
    try:
        table = pyarrow.parquet.read_table(place)
        require_distinct(list(table.column_names), place)
        if only is not None:
            table = table.filter(pyarrow.array(in_window_mask(table, only, place), pyarrow.bool_()))
        names, columns = list(table.column_names), [column.to_pylist() for column in table.columns]
    except InputError:
        raise
    except Exception:  # a file of another kind may raise anything
        raise InputError(f"{place}: expected a .parquet file, found one that cannot be read as such") from None
    rows = [list(row) for row in zip(*columns, strict=True)]
    return ColumnTable(names, rows if only is None else require_rows(rows, only, place))


def column_table(place: str, only: RowWindow | None = None) -> ColumnTable:
    """Return the columns and rows of a .csv or .parquet file, restricted to the window `only` if it is given."""
    return parquet_table(place, only) if place.endswith(".parquet") else csv_table(place, only)


def in_window_mask(table: Any, only: RowWindow, place: str) -> list[bool]:
    """Return for each row of an arrow table whether it is in the window.

    Raises InputError if the column that determines the block is missing, or has the wrong type.
    """
    import pyarrow

    column = table.column(_block_column(list(table.column_names), only, place))
    types = pyarrow.types
    arrow_type = column.type.value_type if types.is_dictionary(column.type) else column.type
    by_date = only.type == "date"
    # A column of texts may also hold dates. They are compared at the end, in the way of a .csv file.
    if by_date and (types.is_date(arrow_type) or (types.is_timestamp(arrow_type) and arrow_type.tz is None)):
        in_window = cache(lambda day: contains_day(day, only))
        return [in_window(day) for day in days(column, arrow_type)]
    is_text = types.is_string(arrow_type) or types.is_large_string(arrow_type) or types.is_null(arrow_type)
    if not is_text and (by_date or not types.is_integer(arrow_type)):
        raise InputError(f'{place}: expected values of type {only.type} in the column "{only.column}", found {arrow_type}')
    return list(map(only.cached_holds(), column.to_pylist()))


def days(column: Any, arrow_type: Any) -> list[int | None]:
    """Return the dates or timestamps of an arrow column as days since 1970-01-01. Years outside of Python's calendar are included."""
    import pyarrow

    if not pyarrow.types.is_timestamp(arrow_type):
        return [*column.cast(pyarrow.date32()).cast(pyarrow.int32()).to_pylist()]
    per_day = PER_DAY[arrow_type.unit]
    return [None if value is None else value // per_day for value in column.cast(pyarrow.int64()).to_pylist()]


def contains_day(day: int | None, only: RowWindow) -> bool:
    """Return whether a day is in the window. The day is a number of days since 1970-01-01.

    None and years outside of Python's calendar are in no window.
    """
    number = 0 if day is None else day + EPOCH  # the first day of Python's calendar has the number 1
    return 1 <= number <= date.max.toordinal() and only.holds(date.fromordinal(number))


def row_place(place: str, row: int, only: RowWindow | None = None) -> str:
    """Return the place of a row for messages: "people.csv:7" for the row that begins in line 7, "people.parquet: row 6" in another file.

    Args:
        row: Number of the row, from 0.
        only: Window whose rows are counted; None if all rows are counted.
    """
    if only is not None:
        row = _number_in_file(place, row, only)
    if not place.endswith(".csv"):
        return f"{place}: row {row + 1:,}"
    with open(place, newline="", encoding="utf-8-sig") as file:
        reader = csv.reader(file, strict=True)
        number, first_line = -1, 1  # number -1 is the row of the names
        for values in reader:  # a row may have several lines, and an empty line is not a row
            if values and number == row:
                break
            number += bool(values)
            first_line = reader.line_num + 1
    return f"{place}:{first_line}"


def _number_in_file(place: str, row: int, only: RowWindow) -> int:
    """Return the number of a row among all rows of the file, given its number among the rows of the window. Both count from 0."""
    if place.endswith(".csv"):
        names, rows = csv_table(place)
        block_column = _block_column(names, only, place)
        in_window = [only.holds(row_values[block_column]) for row_values in rows]
    else:
        import pyarrow.parquet

        in_window = in_window_mask(pyarrow.parquet.read_table(place), only, place)
    counted = [number for number, is_counted in enumerate(in_window) if is_counted]
    if row >= len(counted):
        raise InputError(f"{place}: the file changed while it was read: it has fewer rows than before")
    return counted[row]


def json_lines(place: str, only: RowWindow | None = None) -> list[Any]:
    """Return the JSON value on each line that is not empty, restricted to the window `only` if it is given."""
    result = []
    for line in read_text(place).split("\n"):
        if line.strip():
            try:
                result.append(json.loads(line))
            except (ValueError, RecursionError):
                raise InputError(f"{place}: a line is not JSON (its number is private)") from None
    if only is None:
        return result
    in_window = only.cached_holds()
    return require_rows([row for row in result if isinstance(row, dict) and in_window(row.get(only.column))], only, place)


def owners_of(units: Any, path: str, key: str = "train.units") -> NDArray[np.generic]:
    """Return the owner of each record, of shape (n,). All owners are integers, texts, bytes or finite numbers of one type.

    Raises:
        InputError: An owner is missing or infinite; NaN and the empty text count as missing. Owners of different types are also refused,
            because 1 and "1" would be two owners. The message shows no value.
    """
    place = f"{path}: {key}"
    values = _as_list(units, place)
    types = {type(value) for value in values}
    if any(map(_is_missing, values)):
        raise _refusal(place, "some that are missing")
    if types and types not in UNIT_TYPES:
        type_names = " and ".join(sorted(kind.__name__ for kind in types))
        raise _refusal(place, f"values of type {type_names}")
    if types == {float} and not all(math.isfinite(value) for value in values):
        raise _refusal(place, "some that are not finite")
    owners = np.asarray(values)
    if types == {int} and owners.dtype.kind not in "iu":
        return np.asarray([str(value) for value in values])  # numpy would round integers beyond 64 bits
    return owners


def _is_missing(owner: Any) -> bool:
    """Return whether an owner is None, NaN, or an empty text. NaN is the only value that differs from itself."""
    return owner is None or (type(owner) in (float, str, bytes) and (owner != owner or owner in ("", b"")))


def in_blocks(units: Any, blocks: Sequence[str] | None, path: str) -> NDArray[np.generic]:
    """Return the unit of each record, of shape (n,). A unit is an integer that identifies a pair of an owner and a block.

    The records of an owner are then bounded in each block separately. Otherwise the selection of records in one block would depend on the
    owner's records in other blocks, because records of another block would take the places of those that are removed.

    Args:
        blocks: Block of each record; None if a unit is bounded in the whole window. The result is then that of `owners_of`.

    Raises:
        InputError: `owners_of` refuses an owner, or the numbers of owners and blocks differ.
    """
    owners = owners_of(units, path)
    if blocks is None:
        return owners
    if owners.shape != (len(blocks),):
        raise InputError(f"{path}: train.units: expected an owner for each record, but their numbers differ")
    _, owner_codes = np.unique(owners, return_inverse=True)
    _, block_codes = np.unique(np.asarray(blocks), return_inverse=True)
    block_count = int(block_codes.max(initial=0)) + 1
    pair_codes: NDArray[np.int64] = owner_codes.astype(np.int64) * block_count + block_codes.astype(np.int64)
    return pair_codes


def _as_list(units: Any, place: str) -> list[Any]:
    """Return the owners as a list of Python's own types."""
    try:
        values = list(units.tolist() if hasattr(units, "tolist") else units)
        return [value.item() if hasattr(value, "item") else value for value in values]
    except Exception:  # an array of another library may raise anything
        raise _refusal(place, f"a value of type {type(units).__name__}") from None


def _refusal(place: str, problem: str) -> InputError:
    """Return the error for owners that cannot be used."""
    return InputError(f"{place}: expected the owner of each record, found {problem}")


def held_out(count: int, share: float, units: object, path: str) -> NDArray[np.bool_]:
    """Return for each of `count` records whether it is held out as public. Every k-th is, with k of `held_out_interval`.

    Raises InputError if the records have owners, or the share is more than one half.
    """
    if units is not None:
        raise InputError(
            f"{path}: train.public: expected a separate file with units, found held-out, which would split a unit's records"
        )
    interval = held_out_interval(share, f"{path}: train.held_out")
    return np.arange(count) % interval == 0  # type: ignore[no-any-return]

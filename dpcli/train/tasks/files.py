"""Files of records, read so that no error message quotes one."""

from __future__ import annotations

import csv
import json
from typing import Any

from dpcli.errors import InputError, Unavailable

Rows = list[list[Any]]


def text_of(place: str) -> str:
    """The content of a file in UTF-8, with or without a byte-order mark."""
    try:
        with open(place, encoding="utf-8-sig") as file:
            return file.read()
    except UnicodeDecodeError:
        raise InputError(f"{place}: expected text in UTF-8, found another encoding") from None


def csv_table(place: str) -> tuple[list[str], list[list[str]]]:
    """The names of the columns, and the lines below that are not empty.

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
    return names, rows


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


def parquet_table(place: str) -> tuple[list[str], Rows]:
    """The names of the columns, and the rows."""
    try:
        import pyarrow.parquet
    except ImportError:
        raise Unavailable(f"{place}: expected pyarrow, which reads .parquet files, found none: pip install pyarrow") from None
    try:
        table = pyarrow.parquet.read_table(place)
        names, columns = list(table.column_names), [column.to_pylist() for column in table.columns]
    except Exception:  # whatever pyarrow raises for a file that is none
        raise InputError(f"{place}: expected a .parquet file, found one that cannot be read as such") from None
    require_distinct(names, place)
    return names, [list(row) for row in zip(*columns, strict=True)]


def row_place(place: str, row: int) -> str:
    """Where a row of a table is, counted from 0: the line of a .csv file that it begins on, else its number from 1."""
    if not place.endswith(".csv"):
        return f"{place}: row {row + 1:,}"
    with open(place, newline="", encoding="utf-8-sig") as file:
        reader, before, found = csv.reader(file, strict=True), 0, -1  # row -1 is the line of names
        for line in reader:
            if line and found == row:
                break
            found, before = found + bool(line), reader.line_num
    return f"{place}:{before + 1}"


def json_lines(place: str) -> list[Any]:
    """What stands on each line that is not empty."""
    found = []
    for number, line in enumerate(text_of(place).split("\n"), 1):
        if line.strip():
            try:
                found.append(json.loads(line))
            except (ValueError, RecursionError):
                raise InputError(f"{place}:{number}: expected a JSON object on each line, found something else") from None
    return found

"""Answers of a release as a table, as lines of text, and as rows for csv and parquet. documents/release.py puts them into documents.

An answer has a row for each *key*, a combination of values of the columns by which the query groups, with a value and its confidence
interval. The answers are noisy already. The ends of an interval are rounded outward in a table, and have all digits in a *sheet*, the table
for programs. The columns of a sheet are promised to programs; tables and lines may change.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR
from typing import TYPE_CHECKING

from dpcli.base.extras import require
from dpcli.base.rounding import figures
from dpcli.document.document import Sheet, Table
from dpcli.release.aggregate import quoted

if TYPE_CHECKING:
    from dpcli.release.query_answer import AnswerRow, QueryAnswer, Value

# Columns of a sheet before and after the columns of the keys.
QUERY_COLUMNS, VALUE_COLUMNS = ("query", "measure"), ("value", "lower", "upper", "confidence")
CHOSEN = "chosen"  # parquet column for values that are text, such as a chosen key
MOST_SHOWN = 1_000  # largest number of answers in a table, which nobody reads further; csv and json contain all answers


def sheet_of(answers: Sequence[QueryAnswer]) -> Sheet:
    """Return a sheet with one row for each answer.

    It has a column for each key of any query; the column is empty in rows without that key.
    """
    column_names = _key_columns(dict.fromkeys(name for answer in answers for name in answer.by))
    rows = []
    for answer in answers:
        for row in answer.rows:
            key = dict(zip(answer.by, row.key, strict=True))
            key_cells = (key.get(name) for name in column_names)
            rows.append((answer.query, answer.measure, *key_cells, row.value, row.lower, row.upper, answer.confidence))
    return Sheet((*QUERY_COLUMNS, *column_names.values(), *VALUE_COLUMNS), tuple(rows))


def _key_columns(names: Iterable[str]) -> dict[str, str]:
    """Return the column name of each key: the name of the key, with the prefix `key.` if another column has this name up to case.

    DuckDB, which writes the parquet file, ignores case in names of columns.
    """
    taken = {*QUERY_COLUMNS, *VALUE_COLUMNS, CHOSEN}
    column_names = {}
    for name in names:
        column = name
        while column.lower() in taken:  # repeated, because a key may be named "key.value"
            column = f"key.{column}"
        taken.add(column.lower())
        column_names[name] = column
    return column_names


def parquet_of(sheet: Sheet) -> bytes:
    """Return the rows of a sheet as parquet. Numeric values are in the column `value`, and text values in the column `chosen`.

    Raises Unavailable if DuckDB is not installed.
    """
    require("duckdb")
    import os
    import tempfile

    import duckdb

    value_place = sheet.columns.index("value")
    columns = [*sheet.columns[: value_place + 1], CHOSEN, *sheet.columns[value_place + 1 :]]
    declared = [f"{quoted(name)} {'DOUBLE' if name in VALUE_COLUMNS else 'VARCHAR'}" for name in columns]
    rows = [(*row[:value_place], *_number_and_text(row[value_place]), *row[value_place + 1 :]) for row in sheet.rows]
    with tempfile.TemporaryDirectory() as folder, duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE answers ({', '.join(declared)})")
        if rows:
            connection.executemany(f"INSERT INTO answers VALUES ({', '.join('?' for _ in declared)})", rows)
        path = os.path.join(folder, "answers.parquet")
        escaped_path = path.replace("'", "''")
        connection.execute(f"COPY answers TO '{escaped_path}' (FORMAT parquet)")
        with open(path, "rb") as file:
            return file.read()


def _number_and_text(value: Value) -> tuple[float | None, str | None]:
    """Return the pair (number, None) for a number, (None, text of the csv) for another value, and (None, None) for no value."""
    if value is None:
        return None, None
    if isinstance(value, bool | str):
        return None, _cell_text(value)
    return float(value), None


def answer_table(answer: QueryAnswer) -> Table:
    """Return the first MOST_SHOWN answers to a query as a table, with their intervals if there are any."""
    columns = [*answer.by, answer.measure]
    rows = [[*map(_cell_text, row.key), value_text(row.value)] for row in answer.rows[:MOST_SHOWN]]
    if any(row.lower is not None for row in answer.rows):
        columns.append(f"{_percent(answer.confidence)} interval")
        for cells, row in zip(rows, answer.rows, strict=False):  # `rows` has only the first MOST_SHOWN
            cells.append(interval_text(row))
    footnotes = [answer.covers]
    if answer.postprocessed:
        footnotes.append(f"postprocessing: {', '.join(answer.postprocessed)}")
    if len(answer.rows) > MOST_SHOWN:
        footnotes.append(f"{len(answer.rows) - MOST_SHOWN:,} further answers are in csv and json")
    numeric = frozenset({len(answer.by), len(answer.by) + 1})  # the value and its interval
    return Table(answer.query, tuple(columns), tuple(map(tuple, rows)), numeric=numeric, footnotes=tuple(footnotes))


def answer_lines(answer: QueryAnswer) -> Iterator[str]:
    """Yield the first MOST_SHOWN answers to a query as lines of text."""
    for row in answer.rows[:MOST_SHOWN]:
        key, interval = key_text(answer, row), interval_text(row)
        label = f"{answer.query}, {key}" if key else answer.query
        line = f"{label}: {value_text(row.value)}"
        yield f"{line} ({interval}, {_percent(answer.confidence)})" if interval else line


def key_text(answer: QueryAnswer, row: AnswerRow) -> str:
    """Return the key of a row as text, such as "state=NY, city=Albany"; "" if it has no parts."""
    return ", ".join(f"{name}={_cell_text(value)}" for name, value in zip(answer.by, row.key, strict=True))


def value_text(value: Value) -> str:
    """Return a value as text for a table. A double is rounded to six digits, and keeps all digits before the decimal point."""
    if value is None:
        return "none"
    if isinstance(value, bool | str):
        return _cell_text(value)
    return f"{value:,}" if isinstance(value, int) else figures(value)


def interval_text(row: AnswerRow) -> str:
    """Return the interval of a row as text; "" if it has none."""
    if row.lower is None or row.upper is None:
        return ""
    return f"{figures(row.lower, 6, ROUND_FLOOR)} to {figures(row.upper, 6, ROUND_CEILING)}"


def _cell_text(value: Value) -> str:
    """Return a key or a value as text; a boolean in lower case, as in SQL."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _percent(confidence: float) -> str:
    """Return a confidence in percent."""
    return f"{100.0 * confidence:.10g} %"

"""Answers as a parquet file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpcli.base.extras import require

if TYPE_CHECKING:
    from dpcli.document.document import Sheet

NUMBERS = ("lower", "upper", "confidence")
CHOSEN = "chosen"  # the column of values that are words


def parquet_of(sheet: Sheet) -> bytes:
    """The rows of a sheet. A value that is a number is in the column `value`, one that is a word in `chosen`.

    Raises Unavailable where DuckDB is not installed.
    """
    require("duckdb")
    import os
    import tempfile

    import duckdb

    place = sheet.columns.index("value")
    columns = [f"{_quoted(name)} {'DOUBLE' if name in NUMBERS else 'VARCHAR'}" for name in sheet.columns]
    rows = [(*row[:place], *_parted(row[place]), *row[place + 1 :]) for row in sheet.rows]
    columns[place : place + 1] = ["value DOUBLE", f"{CHOSEN} VARCHAR"]
    with tempfile.TemporaryDirectory() as folder, duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE answers ({', '.join(columns)})")
        if rows:
            connection.executemany(f"INSERT INTO answers VALUES ({', '.join('?' for _ in columns)})", rows)
        path = os.path.join(folder, "answers.parquet")
        connection.execute(f"COPY answers TO '{path}' (FORMAT parquet)")
        with open(path, "rb") as file:
            return file.read()


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _parted(value: object) -> tuple[float | None, str | None]:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value), None
    return None, str(value).lower() if isinstance(value, bool) else None if value is None else str(value)  # as a csv has it

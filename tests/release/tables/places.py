"""One table in each kind of place that a source may name, with the servers that some places need."""

from __future__ import annotations

import csv
import datetime
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from dpcli.release.data_source import Column, Source
from tests.ledger.postgres.cluster import Cluster

Row = Mapping[str, Any]
DUCKDB = {"text": "VARCHAR", "integer": "BIGINT", "decimal": "DOUBLE", "boolean": "BOOLEAN", "date": "DATE"}
POSTGRES = {"text": "text", "integer": "bigint", "decimal": "float8", "boolean": "boolean", "date": "date"}
PLACES = ("csv", "parquet", "duckdb", "postgres", "spark-csv", "spark-parquet")
# How long a test of one of them may take; csv alone is asked by day.
MARKS = {
    **dict.fromkeys(("parquet", "duckdb", "postgres"), pytest.mark.long),
    **dict.fromkeys(("spark-csv", "spark-parquet"), pytest.mark.nightly),
}


@dataclass(frozen=True)
class Table:
    """What is stored. types: by name of the column."""

    types: Mapping[str, str]
    rows: Sequence[Row]

    @property
    def columns(self) -> dict[str, Column]:
        return {name: Column(type=kind) for name, kind in self.types.items()}  # type: ignore[arg-type]


def source_of(place: str, table: Table, folder: Path, cluster: Cluster | None, unit: str | None) -> Source:
    """Store the table in a place, and return [source] for it. Paths are relative to a file in the folder."""
    engine, _, ending = place.rpartition("-")
    if ending == "postgres":
        assert cluster is not None
        return Source(columns=table.columns, url=in_postgres(table, cluster), table="rows", unit=unit)
    path = folder / f"rows.{ending}"
    {"csv": as_csv, "parquet": as_parquet, "duckdb": as_duckdb}[ending](table, path)
    found = Source(columns=table.columns, path=path.name, engine="spark" if engine else "duckdb", unit=unit)
    return replace(found, table="rows") if ending == "duckdb" else found


def as_csv(table: Table, path: Path) -> None:
    """Write the table as csv. Null is an empty cell without quotes, and empty text is an empty cell with quotes."""
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerow(table.types)
        for row in table.rows:
            file.write(",".join(cell(row[name]) for name in table.types) + "\n")


def cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return '"{}"'.format(value.replace('"', '""'))
    return str(value).lower() if isinstance(value, bool) else str(value)


def as_parquet(table: Table, path: Path) -> None:
    with_duckdb(table, f"COPY rows TO '{path}' (FORMAT parquet)", ":memory:")


def written(folder: Path, name: str, *rows: str) -> None:
    """Write a .parquet file of rows, each given as SQL."""
    import duckdb

    with duckdb.connect() as connection:
        connection.execute(f"COPY ({' UNION ALL '.join(f'SELECT {row}' for row in rows)}) TO '{folder / name}' (FORMAT parquet)")


def as_duckdb(table: Table, path: Path) -> None:
    with_duckdb(table, "CHECKPOINT", str(path))


def with_duckdb(table: Table, statement: str, path: str) -> None:
    import duckdb

    with duckdb.connect(path) as connection:
        columns = ", ".join(f"{quoted(name)} {DUCKDB[kind]}" for name, kind in table.types.items())
        connection.execute(f"CREATE TABLE rows ({columns})")
        marks = ", ".join("?" * len(table.types))
        if table.rows:
            connection.executemany(f"INSERT INTO rows VALUES ({marks})", [list(row.values()) for row in table.rows])
        connection.execute(statement)


def in_postgres(table: Table, cluster: Cluster) -> str:
    """Store the table in a new database, and return its URL."""
    name = cluster.database()
    columns = ", ".join(f"{quoted(name)} {POSTGRES[kind]}" for name, kind in table.types.items())
    with cluster.connect(name) as connection:
        connection.execute(f"CREATE TABLE rows ({columns})")
        marks = ", ".join(["%s"] * len(table.types))
        with connection.cursor() as cursor:
            cursor.executemany(f"INSERT INTO rows VALUES ({marks})", [list(row.values()) for row in table.rows])
    return cluster.url(name)


def quoted(name: str) -> str:
    return '"{}"'.format(name.replace('"', '""'))


def seen(value: Any) -> Any:
    """Return the value as queries see it: NaN, infinities and nearly infinite numbers count as null, and tiny ones as 0."""
    if isinstance(value, float):
        return None if not math.isfinite(value) or abs(value) > 1.79e308 else 0.0 if abs(value) < 1e-300 else value
    if isinstance(value, datetime.date):
        return value
    return value


SECRET = bytes(range(32))


def everywhere(spark: str) -> list[Any]:
    """Return all places for `parametrize`. Those of Spark are slow: one of them is long, and the other nightly."""
    dear = {place: pytest.mark.long if place == spark else pytest.mark.nightly for place in PLACES if place.startswith("spark")}
    return [pytest.param(place, marks=[dear[place]] if place in dear else []) for place in PLACES]


def cluster_of(place: str, request: pytest.FixtureRequest) -> Any:
    if place.startswith("spark"):
        request.getfixturevalue("spark_session")
    return request.getfixturevalue("release_cluster") if place == "postgres" else None


def made(folder: Path) -> Path:
    folder.mkdir()
    return folder

"""The column that decides the block of a row, in every type and spelling of an engine: read exactly, or refused before a charge."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpcli.base.errors import InputError
from dpcli.release.aggregate import Aggregation
from dpcli.release.data_source import Source
from dpcli.release.engines.source_engine import open_source, require_source
from dpcli.release.release_plan import row_window
from tests.cases import of_each
from tests.ledger.postgres.cluster import Cluster
from tests.release.tables.places import written
from tests.release.window.windows import family

pytestmark = pytest.mark.needs("duckdb", "sqlglot")
ROWS = Aggregation(None, None, (), (), 1, 1)
DAY = "2026-01-31"
NANOSECONDS = {
    f"{DAY} 23:59:59.999999999": 1,
    f"{DAY} 00:00:00": 1,
    "2026-02-01 00:00:00": 0,
    "2026-01-30 23:59:59.9999995": 0,
    "infinity": 0,
}


def rows_of(source: Source, folder: Path) -> int:
    """Of one day: checked as before a charge, then read."""
    only = row_window(family("day", "day"), (DAY,), source, "file.toml")
    require_source(source, str(folder / "file.toml"), (ROWS,), only)
    with open_source(source, str(folder / "file.toml"), only) as engine:
        return engine.totals(ROWS, b"s" * 32)[()].rows


@pytest.mark.long
@of_each("twin", ["Day", "DAY"])
def test_columns_that_differ_by_case_are_refused_in_several_files(twin: str, tmp_path: Path) -> None:
    """Whichever file has them, in whatever order; in one file a name is its own column."""
    one, other = f"DATE '{DAY}'", "DATE '2026-02-01'"
    written(tmp_path, "a.parquet", f"{one} AS day, {other} AS x")
    written(tmp_path, "c.parquet", f"{other} AS x, {one} AS day")
    assert rows_of(Source(columns={}, path="*.parquet"), tmp_path) == 2
    assert rows_of(Source(columns={}, path="*.parquet"), tmp_path) == 2
    twins(tmp_path, twin)
    assert rows_of(Source(columns={}, path="b.parquet"), tmp_path) == 0
    for path in ("*.parquet", "[ab].parquet", "[bc].parquet"):
        with pytest.raises(InputError, match=f'expected "day" in one spelling in all files, found "{twin}" too'):
            rows_of(Source(columns={}, path=path), tmp_path)


def twins(folder: Path, twin: str) -> None:
    """b.parquet with one more column, whose name differs by case alone: DuckDB would not write it, so that it is renamed in the file."""
    written(folder, "b.parquet", f"DATE '{DAY}' AS qqq, DATE '2026-02-01' AS day")
    found = (folder / "b.parquet").read_bytes()
    assert b"qqq" in found
    (folder / "b.parquet").write_bytes(found.replace(b"qqq", twin.encode()))


@of_each("stamp, inside", NANOSECONDS.items())
def test_the_last_nanosecond_of_a_day_is_in_that_day(stamp: str, inside: int, tmp_path: Path) -> None:
    import duckdb

    with duckdb.connect(str(tmp_path / "rows.duckdb")) as connection:
        connection.execute(f"CREATE TABLE rows AS SELECT TIMESTAMP_NS '{stamp}' AS day")
    assert rows_of(Source(columns={}, path="rows.duckdb", table="rows"), tmp_path) == inside


@pytest.mark.long
@pytest.mark.needs("psycopg")
def test_types_of_a_server_are_what_they_come_from(release_cluster: Cluster, tmp_path: Path) -> None:
    """Through every domain, whatever its name; an enum is its words."""
    database = release_cluster.database()
    release_cluster.run(
        f"CREATE TYPE mood AS ENUM ('{DAY}', '2026-02-01')",
        "CREATE SCHEMA x",
        "CREATE DOMAIN x.date AS timestamptz",
        "CREATE DOMAIN x.timestamp AS x.date",
        "CREATE DOMAIN zoned AS x.timestamp",
        "CREATE DOMAIN plain AS date",
        "CREATE DOMAIN x.timestamptz AS plain",
        "CREATE TYPE x.text AS (a int)",
        database=database,
    )
    kinds = {"mood": 1, "plain": 1, "x.timestamptz": 1, "date": 1, "timestamp": 1, "text": 1, "varchar(30)": 1, "uuid": 0}
    refused = ("x.date", "x.timestamp", "zoned", "timestamptz", "x.text")
    for number, kind in enumerate((*kinds, *refused)):
        value = {"uuid": "'00000000-0000-0000-0000-000000000000'", "x.text": "ROW(1)"}.get(kind, f"'{DAY}'")
        release_cluster.run(f"CREATE TABLE t{number} (day {kind})", f"INSERT INTO t{number} VALUES ({value})", database=database)
        source = Source(columns={}, url=release_cluster.url(database), table=f"t{number}")
        if kind in kinds:
            assert rows_of(source, tmp_path) == kinds[kind], kind
        else:
            with pytest.raises(InputError, match="expected values of type date"):
                rows_of(source, tmp_path)

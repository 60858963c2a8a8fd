"""A view that returns other rows each time it is read: still no unit counts with more rows than it is charged for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dpcli.release.aggregate import Aggregation, GroupKey, Steps
from dpcli.release.data_source import Column, Source
from dpcli.release.engines.source_engine import open_source
from tests.cases import fresh_random

UNITS, ROWS, CAP, TIMES = 40, 20, 8, 12
COLUMNS = {"visitor": Column(type="text"), "n": Column(type="integer", min=0, max=ROWS)}
STEPS = Steps("n", 0, ROWS, 1.0)
ASKED = {
    "counted by value": ((GroupKey("n", steps=STEPS),), ()),
    "added up": ((), (STEPS,)),
    "by key": ((GroupKey("n"),), (STEPS,)),
    "different values": ((), ()),
}
EACH, SAME = "select * from t where random() < 0.5", "select * from t"


def most(source: Source, folder: Path, unit: str | None, asked: str) -> int:
    """The most rows that were counted in a few answers, of one unit or of all."""
    keys, values = ASKED[asked]
    distinct = GroupKey("n") if asked == "different values" else None
    aggregation = Aggregation("visitor", unit and f"visitor = '{unit}'", keys, values, 1, CAP, distinct=distinct)
    with open_source(source, str(folder / "x.toml")) as engine:
        return max(
            sum(total.rows for total in engine.totals(aggregation, fresh_random().randbytes(32)).values()) for _ in range(TIMES)
        )


@pytest.mark.sampled
@pytest.mark.needs("duckdb", "sqlglot")
@pytest.mark.parametrize("view", [EACH, "select * from t using sample 50% (bernoulli)", SAME])
@pytest.mark.parametrize("asked", ASKED)
def test_no_unit_of_a_view_counts_more_rows_than_it_may(view: str, asked: str, tmp_path: Path) -> None:
    import duckdb

    with duckdb.connect(str(tmp_path / "a.duckdb")) as connection:
        connection.execute(
            f"create table t as select 'u' || (i // {ROWS}) as visitor, i % {ROWS} as n from range({UNITS * ROWS}) r(i)"
        )
        connection.execute(f"create view v as {view}")
    source = Source(columns=COLUMNS, path="a.duckdb", table="v", unit="visitor")
    assert most(source, tmp_path, "u1", asked) <= CAP
    assert most(source, tmp_path, None, asked) <= CAP * UNITS


@pytest.mark.sampled
@pytest.mark.needs("psycopg", "sqlglot")
@pytest.mark.parametrize("view", [EACH, "select * from t tablesample bernoulli(50)", SAME])
@pytest.mark.parametrize("asked", ASKED)
def test_no_unit_of_a_view_on_a_server_does(view: str, asked: str, release_cluster: Any, tmp_path: Path) -> None:
    name = release_cluster.database()
    with release_cluster.connect(name) as connection:
        rows = f"generate_series(0, {UNITS * ROWS - 1}) i"
        connection.execute(f"create table t as select 'u' || (i / {ROWS}) as visitor, (i % {ROWS})::bigint as n from {rows}")
        connection.execute(f"create view v as {view}")
    source = Source(columns=COLUMNS, url=release_cluster.url(name), table="v", unit="visitor")
    assert most(source, tmp_path, "u1", asked) <= CAP
    assert most(source, tmp_path, None, asked) <= CAP * UNITS

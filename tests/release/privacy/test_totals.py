"""Exact totals by key (aggregate.py): every engine gives what plain Python gives, whatever the table holds."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from dpcli.release.aggregate import Total
from dpcli.release.data_source import Source
from dpcli.release.engines.source_engine import open_source
from dpcli.release.engines.spark_engine import VIEW, Spark
from tests.cases import fresh_random
from tests.release.privacy import brute
from tests.release.privacy.aggregations_drawn import TYPES, WHO, aggregation, table
from tests.release.tables.places import SECRET, Table, as_csv, cluster_of, everywhere, made, source_of

pytestmark = pytest.mark.needs("duckdb", "sqlglot")


@pytest.mark.sampled(1, 1)
@pytest.mark.parametrize("place", everywhere("spark-csv"))
def test_every_engine_gives_what_plain_python_gives(place: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    seed = fresh_random().randrange(2**32)
    draw = random.Random(seed)
    few = place.startswith("spark")
    for count, questions in ((0, 1), (1, 1), (60, 3)) if few else ((0, 2), (1, 2), (60, 12)):
        rows = table(draw, count)
        source = source_of(place, Table(TYPES, rows), made(tmp_path / str(count)), cluster_of(place, request), WHO)
        with open_source(source, str(tmp_path / str(count) / "file.toml")) as engine:
            for _ in range(questions):
                asked = aggregation(draw)
                assert dict(engine.totals(asked.aggregation, SECRET)) == brute.totals(asked, rows, SECRET), (seed, place, asked)


def test_exact_totals_are_not_shown() -> None:
    assert repr(Total(123, 456, (789,))) == "Total(...)"


@pytest.mark.nightly
@pytest.mark.long
def test_spark_over_four_partitions_gives_what_duckdb_gives(tmp_path: Path, spark_session: Any) -> None:
    draw = random.Random(5)
    rows = table(draw, 400)
    for part in range(4):
        as_csv(Table(TYPES, rows[part::4]), tmp_path / f"part-{part}.csv")
    asked = [aggregation(draw) for _ in range(2)]
    found = []
    for engine_name in ("duckdb", "spark"):
        source = Source(columns=Table(TYPES, rows).columns, path="part-*.csv", engine=engine_name, unit=WHO)  # type: ignore[arg-type]
        with open_source(source, str(tmp_path / "file.toml")) as engine:
            found.append([dict(engine.totals(each.aggregation, SECRET)) for each in asked])
            if isinstance(engine, Spark):
                assert engine.session.table(VIEW).rdd.getNumPartitions() >= 4
    assert found[0] == found[1] == [brute.totals(each, rows, SECRET) for each in asked]

"""A column with `rows_of_unit = true`, the number of rows of a row's unit, in each engine."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from dpcli.release.aggregate import Aggregation, GroupKey
from dpcli.release.data_source import Column
from dpcli.release.engines.source_engine import open_source
from dpcli.release.release_plan import row_window
from tests.cases import fresh_random
from tests.release.tables.places import MARKS, PLACES, SECRET, Table, cluster_of, source_of
from tests.release.window.windows import family

pytestmark = pytest.mark.needs("duckdb", "sqlglot")
VISITS = Column(type="integer", rows_of_unit=True, min=0, max=100)
DAYS = [date(2021, 3, day) for day in (1, 2, 3)]


@pytest.mark.parametrize("place", [pytest.param(place, marks=MARKS.get(place, [])) for place in PLACES])
def test_a_row_has_the_number_of_rows_of_its_unit(place: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Whatever `where` leaves out; of the days that may be read, each by itself or together."""
    seed = fresh_random().randrange(10**9)
    draw = random.Random(seed)
    whose = [draw.choice(["a", "b", "b ", "B", "", None]) for _ in range(40)]
    rows = [{"who": who, "day": draw.choice([*DAYS, None]), "keep": draw.random() < 0.5} for who in whose]
    table = Table({"who": "text", "day": "date", "keep": "boolean"}, rows)
    stored = source_of(place, table, tmp_path, cluster_of(place, request), "who")
    source = replace(stored, columns={**stored.columns, "visits": VISITS, "twice": Column(type="integer", expression="2 * visits")})
    asked = Aggregation("who", "keep or visits < 0", (GroupKey("visits"), GroupKey("twice")), (), 10, 10**6)
    for read, blocks in [(None, 1), (DAYS[:2], 1), (DAYS[:2], 2)]:
        only = None if read is None else row_window(family("day", "day", blocks), tuple(map(str, read)), source, "x.toml")
        kept = [row for row in rows if row["who"] and (read is None or row["day"] in read)]
        part = [(row["who"], row["day"] if read and blocks == 1 else None) for row in kept]
        numbers = Counter(part)
        expected = Counter((numbers[each], 2 * numbers[each]) for each, row in zip(part, kept, strict=True) if row["keep"])
        with open_source(source, str(tmp_path / "x.toml"), only) as engine:
            found = {key: total.rows for key, total in engine.totals(asked, SECRET).items()}
        assert found == dict(expected), (seed, read, blocks)

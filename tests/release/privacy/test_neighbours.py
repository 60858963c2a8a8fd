"""Sensitivity by search, for every measure: random small tables and all that reaches the noise of their neighbours."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from dpcli.mechanisms.neighbours import Adjacency
from dpcli.release.engines import sql_statement as statements
from dpcli.release.engines.duckdb_engine import DuckDB
from dpcli.release.plugin import MEASURES
from tests.release.privacy.neighbours import seen_of, too_far
from tests.release.searched import TYPES, drawn, literal, neighbour, put, table

pytestmark = pytest.mark.needs("duckdb", "sqlglot")
SECRET = b"s" * 32
TABLES = 4  # for each question


def breaches(
    engine: DuckDB, seeds: range, folder: Path, measures: Sequence[str] = tuple(MEASURES), tables: int = TABLES
) -> Iterator[str]:
    """What moved too far; each measure in its turn."""
    for seed in seeds:
        draw = random.Random(seed)
        question = drawn(measures[seed % len(measures)], draw, folder)
        if question is None:
            continue
        one, source, by_unit = question
        at = replace(engine, table=replace(engine.table, columns=source.columns))
        for _ in range(tables):
            rows = table(draw, by_unit)
            pair = (rows, neighbour(draw, rows, by_unit, one.setting.adjacency is Adjacency.REPLACE_ONE))
            seen = []
            for each in pair:
                put(at, TYPES, [map(literal, row, TYPES) for row in each])
                seen.append(seen_of(one, at.totals(one.query.aggregation(one.setting), SECRET)))
            yield from (f"seed {seed}: {one.query}: {words}" for words in too_far(one, *seen))


@pytest.mark.parametrize(
    ("seeds", "tables"),
    [
        pytest.param(range(1000, 1039), 1, marks=pytest.mark.long),
        pytest.param(range(1039, 1279), TABLES, marks=pytest.mark.nightly),
    ],
    ids=["few", "many"],
)
def test_nothing_moves_further_than_is_priced(seeds: range, tables: int, engine: DuckDB, tmp_path: Path) -> None:
    assert list(breaches(engine, seeds, tmp_path, tables=tables)) == []


@pytest.mark.parametrize("limit", [pytest.param("max_groups", marks=pytest.mark.long), "max_rows"])
def test_a_limit_that_is_forgotten_is_seen(limit: str, engine: DuckDB, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sound = statements._bounded
    monkeypatch.setattr(statements, "_bounded", lambda asked, *others: sound(replace(asked, **{limit: 10}), *others))
    assert next(breaches(engine, range(600), tmp_path, ("count", "sum", "histogram")), None) is not None

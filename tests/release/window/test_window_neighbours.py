"""The unit that is protected where a ledger has blocks: what it does in one block, by every measure, as the block is charged."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from dpcli.base.lazy import load
from dpcli.ledger.plugin import BLOCKS
from dpcli.mechanisms.neighbours import Adjacency
from dpcli.release.data_source import Source
from dpcli.release.engines.duckdb_engine import DuckDB
from dpcli.release.plugin import MEASURES
from dpcli.release.query_entries import PricedQuery
from dpcli.release.release_plan import RowWindow, row_window
from tests.release.privacy.neighbours import seen_of, too_far
from tests.release.random_queries import TYPES, Row, drawn, literal, put, table
from tests.release.window.windows import REGIONS, TOLD, block_of, family

pytestmark = pytest.mark.needs("duckdb", "sqlglot")
SECRET = b"s" * 32
# Of three blocks by any kind; the turns of a year are where weeks and years part.
CELLS = {
    "day": [date(2020, 12, 30), date(2020, 12, 31), date(2021, 1, 1)],
    "week": [date(2020, 12, 27), date(2020, 12, 28), date(2021, 1, 3), date(2021, 1, 4)],
    "region": list(REGIONS[:3]),
}
OUTSIDE: dict[str, list[Any]] = {
    "day": [date(2020, 12, 29), date(2021, 1, 2)],
    "week": [date(2020, 12, 20), date(2021, 1, 11)],
    "region": [REGIONS[3], "EU", ""],
}


def put_by(engine: DuckDB, by: str, rows: Sequence[Row]) -> None:
    """The last cell of a row decides its block."""
    kinds = {**TYPES, "when": ("text", "VARCHAR") if by == "region" else ("date", "DATE")}
    put(engine, kinds, [[*map(literal, row, TYPES), cast(row[-1], kinds["when"][1])] for row in rows])


def cast(value: Any, kind: str) -> str:
    return "CAST('{}' AS {})".format(str(value).replace("'", "''"), kind)


def over(engine: DuckDB, source: Source, only: RowWindow) -> DuckDB:
    """The engine on the rows of a window."""
    from dpcli.release.engines.source_engine import source_table

    return replace(engine, table=source_table(source, "file.toml", only))


def moved(engine: DuckDB, one: PricedQuery, by: str, pair: Sequence[Sequence[Row]], secret: bytes = SECRET) -> list[str]:
    """What moves further between two tables than is priced."""
    seen = []
    for rows in pair:
        put_by(engine, by, rows)
        seen.append(seen_of(one, engine.totals(one.query.aggregation(one.setting), secret)))
    return too_far(one, *seen)


def breaches(
    engine: DuckDB, seeds: range, folder: Path, tables: int = 1, most: int = 1, bounded: int | None = None
) -> Iterator[str]:
    """What moves too far where a unit has rows in at most so many blocks of a ledger: one of it goes, of 1 what somebody has in one block.

    Rows of blocks outside of the window are there too. bounded: NOT PRIVATE: by another max_blocks than the ledger's.
    """
    for seed in seeds:
        draw, by = random.Random(seed), TOLD[seed % len(TOLD)]
        question = drawn(tuple(MEASURES)[seed // len(TOLD) % len(MEASURES)], draw, folder)
        if question is None or not question[2] or question[0].setting.adjacency is Adjacency.REPLACE_ONE:
            continue
        one, source, _ = question
        window = sorted({str(block_of(by, cell)) for cell in CELLS[by]})
        at = over(engine, source, row_window(family(by, max_blocks=bounded or most), tuple(window), source, "file.toml"))
        for _ in range(tables):
            drawn_rows = table(draw, True)
            busy = draw.choice(drawn_rows)[0] if drawn_rows else None  # has rows in every block, more than are chosen
            rows = [
                (busy if draw.random() < 0.5 else row[0], *row[1:], draw.choice((OUTSIDE if draw.random() < 0.1 else CELLS)[by]))
                for row in drawn_rows
            ]
            whose = lambda row: (str(row[0]), str(block_of(by, row[-1])) if most == 1 else "")  # noqa: B023, E731
            gone = draw.choice(sorted({*map(whose, rows)}) or [("", "")])
            rest = draw.sample(rows, len(rows))
            rest = [row for row in rest if whose(row) != gone]
            yield from (f"seed {seed}: {by}: {one.query}: {words}" for words in moved(at, one, by, (rows, rest)))


def test_the_blocks_are_those_that_dpcli_tells() -> None:
    assert set(CELLS) == {by for by, target in BLOCKS.items() if load(target).column_type is not None}


EVERY = range(len(MEASURES) * len(TOLD))  # every measure under every kind of blocks


@pytest.mark.parametrize(
    ("most", "seeds"),
    [
        (1, EVERY),
        pytest.param(2, EVERY, marks=pytest.mark.long),
        pytest.param(3, EVERY, marks=pytest.mark.long),
        pytest.param(1, range(1000, 1800), marks=pytest.mark.nightly),
    ],
    ids=["one", "two", "three", "others"],
)
def test_a_unit_moves_no_further_than_is_priced(most: int, seeds: range, engine: DuckDB, tmp_path: Path) -> None:
    assert list(breaches(engine, seeds, tmp_path, most=most)) == []


def test_a_choice_in_each_block_is_seen_where_a_unit_has_several(engine: DuckDB, tmp_path: Path) -> None:
    assert next(breaches(engine, range(80, 600), tmp_path, tables=2, most=2, bounded=1), None) is not None


@pytest.mark.nightly
def test_a_choice_among_all_blocks_is_seen(engine: DuckDB, tmp_path: Path) -> None:
    assert next(breaches(engine, range(900, 1800), tmp_path, 2, bounded=2), None) is not None

"""Who is protected where a ledger has blocks: what one unit does in one of them, by every measure, as the block is charged."""

from __future__ import annotations

import itertools
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
from dpcli.release.release_plan import RowWindow, plan_of, row_window
from tests.release.neighbours import seen_of, too_far
from tests.release.questions_drawn import TYPES, Row, table
from tests.release.searched import drawn, literal, put
from tests.release.windows import REGIONS, TOLD, block_of, family

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
EXAMPLE = Path(__file__).parents[2] / "examples" / "clinic-weeks.toml"


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
    assert set(CELLS) == {by for by, target in BLOCKS.items() if load(target).told_by is not None}


def test_one_unit_in_one_block_moves_no_further_than_is_priced(engine: DuckDB, tmp_path: Path) -> None:
    """Every measure under every kind of blocks."""
    assert list(breaches(engine, range(len(MEASURES) * len(TOLD)), tmp_path)) == []


@pytest.mark.parametrize("most", [2, pytest.param(3, marks=pytest.mark.long)])
def test_a_unit_of_several_blocks_moves_no_further_as_a_whole(most: int, engine: DuckDB, tmp_path: Path) -> None:
    assert list(breaches(engine, range(len(MEASURES) * len(TOLD)), tmp_path, most=most)) == []


@pytest.mark.parametrize(
    ("seeds", "tables"),
    [pytest.param(range(1000, 1078), 1, marks=pytest.mark.long), pytest.param(range(1078, 1800), 2, marks=pytest.mark.nightly)],
    ids=["few", "many"],
)
def test_one_unit_in_one_block_moves_no_further_in_others(seeds: range, tables: int, engine: DuckDB, tmp_path: Path) -> None:
    assert list(breaches(engine, seeds, tmp_path, tables)) == []


@pytest.mark.nightly
def test_a_choice_among_all_blocks_is_seen(engine: DuckDB, tmp_path: Path) -> None:
    assert next(breaches(engine, range(1800), tmp_path, 2, bounded=2), None) is not None


@pytest.mark.long
def test_a_choice_in_each_block_is_seen_where_a_unit_has_several(engine: DuckDB, tmp_path: Path) -> None:
    assert next(breaches(engine, range(600), tmp_path, most=2, bounded=1), None) is not None


@pytest.mark.parametrize("secrets", [pytest.param(1, marks=pytest.mark.long), pytest.param(3, marks=pytest.mark.nightly)])
def test_every_small_table_of_the_example(secrets: int, engine: DuckDB) -> None:
    """All tables of one patient with up to two reasons in each of two weeks, whatever the hash chooses.

    Noise on counts of L1 distance d costs epsilon d / 2: the rows of one week cost 0.5, as their week is charged. Chosen over the window,
    those of the first leave room for others: up to twice that.
    """
    plan = plan_of(str(EXAMPLE))
    (one,) = plan.queries
    reasons = [*(plan.source.columns["reason"].domain or ()), None]
    weeks = (date(2026, 1, 6), date(2026, 1, 13))
    only = row_window(family("week", "day"), ("2026-W02..2026-W05",), plan.source, "file.toml")
    assert one.releases[0].keys["sensitivity"] / one.releases[0].keys["scale"] == 0.5
    worst = {"each": 0, "window": 0}
    of_a_week = list(itertools.combinations_with_replacement(reasons, 2))
    pairs = list(itertools.product(of_a_week, of_a_week) if secrets > 1 else itertools.combinations_with_replacement(of_a_week, 2))
    for name, window in (("each", only), ("window", replace(only, each=None))):
        at = over(engine, plan.source, window)
        for secret in (bytes([n] * 32) for n in range(secrets)):
            alone = {(which, each): counts(at, one, visits(weeks[which], each), secret) for which in (0, 1) for each in of_a_week}
            for first, second in pairs:
                both = counts(at, one, [*visits(weeks[0], first), *visits(weeks[1], second)], secret)
                far = max(
                    sum(abs(a - b) for a, b in zip(both, other, strict=True)) for other in (alone[0, first], alone[1, second])
                )
                worst[name] = max(worst[name], far)
    assert worst == {"each": 2, "window": 4}


def visits(day: date, reasons: Sequence[str | None]) -> list[tuple[date, str]]:
    return [(day, reason) for reason in reasons if reason is not None]


def counts(engine: DuckDB, one: PricedQuery, rows: Sequence[tuple[date, str]], secret: bytes) -> list[int]:
    """Of the rows by reason, in a fixed order."""
    kinds = {"patient": ("text", "VARCHAR"), "day": ("date", "DATE"), "reason": ("text", "VARCHAR")}
    put(engine, kinds, [("'p'", cast(day, "DATE"), f"'{reason}'") for day, reason in rows])
    totals = engine.totals(one.query.aggregation(one.setting), secret)
    return [totals[key].rows for key in sorted(totals)]

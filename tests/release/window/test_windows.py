"""The window of a release: a row of another block is not read, in any engine, by any measure; and what cannot be told is refused."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from dpcli.base.errors import InputError
from dpcli.ledger.blocks.block_kinds import kind_named
from dpcli.release import release_run as running
from dpcli.release.aggregate import Totals
from dpcli.release.data_source import Join, Source
from dpcli.release.engines.duckdb_engine import DuckDB
from dpcli.release.engines.source_engine import open_source
from dpcli.release.release_plan import row_window
from dpcli.release.release_run import release
from dpcli.sessions.window import over_window
from tests.cases import fresh_random, of_each
from tests.release.privacy import brute
from tests.release.privacy.aggregations_drawn import TYPES, WHO, aggregation, table
from tests.release.tables.files import queries
from tests.release.tables.places import PLACES, SECRET, Table, cluster_of, made, source_of
from tests.release.window.windows import COUNT, DAYS, REGIONS, TOLD, block_of, csv, family, ledger, planned, windows

pytestmark = pytest.mark.needs("duckdb", "sqlglot")

Row = dict[str, Any]


def engines_and_blocks() -> Iterator[Any]:
    """Every place and every kind of blocks in a quick run, all of both in a long one, but for Spark: of it a part is long."""
    tiers: list[list[pytest.MarkDecorator]] = [[], [pytest.mark.long], [pytest.mark.nightly]]
    for row, place in enumerate(PLACES):
        for column, by in enumerate(TOLD):
            yield pytest.param(place, by, marks=tiers[(row % len(TOLD) != column) + place.startswith("spark")])


def cell(by: str, stored: str, draw: random.Random) -> Any:
    """What the column may hold, nonsense and nothing among it."""
    if by == "region":
        return draw.choice([None, "", "EU", "eu ", "e\u0301", "asia", *REGIONS])
    day = draw.choice([None, *DAYS])
    if stored == "date" or day is None:
        return day
    return draw.choice([f"{day}", f" {day} ", f"{day}T23:59:59", f"{day} 00:00", f"{day}x", "soon", f"{day}"[:9], "2020-02-30", ""])


def told(by: str, value: Any) -> str:
    """The block as the hash has it: its first day, or the text."""
    block = block_of(by, value)
    assert block is not None
    return f"{date.fromisoformat(f'{block}-1')}" if by == "week" else block


@pytest.mark.sampled(1, 1)
@pytest.mark.parametrize(("at", "by"), list(engines_and_blocks()))
def test_every_engine_reads_the_rows_of_the_window(at: str, by: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """As plain Python over these rows alone; whatever the other rows hold, and whether the file declares the column or not."""
    seed = fresh_random().randrange(2**32)
    draw, few = random.Random(seed), at.startswith("spark")
    stored = "text" if by == "region" else draw.choice(["date", "text"])
    for number, window in enumerate([*windows(by, draw)][:: 2 if few else 1]):
        rows = [{**row, "when": cell(by, stored, draw)} for row in table(draw, 60)]
        inside = [row for row in rows if block_of(by, row["when"]) in window]
        others = [{**one, "when": row["when"]} for one, row in zip(table(draw, 60), rows, strict=True) if row not in inside]
        for turn, held in enumerate((rows, inside + others + others)):
            folder = made(tmp_path / f"{number}-{turn}")
            source = source_of(at, Table({**TYPES, "when": stored}, held), folder, cluster_of(at, request), WHO)
            if turn:
                source = replace(source, columns={name: column for name, column in source.columns.items() if name != "when"})
            most = draw.choice([1, 1, 3])
            block = (lambda row: (told(by, row["when"]),)) if most == 1 else (lambda row: ())
            only = row_window(family(by, max_blocks=most), window, source, "file.toml")
            with open_source(source, str(folder / "file.toml"), only) as engine:
                for _ in range(1 if few else 3):
                    asked = aggregation(draw)
                    found = dict(engine.totals(asked.aggregation, SECRET))
                    assert found == brute.totals(asked, inside, SECRET, block), (seed, at, by, window, most, asked)


@of_each("by", TOLD)
def test_the_extent_of_a_block_is_its_own(by: str) -> None:
    """Every day is in the extent of its own block, and of no other."""
    if by == "region":
        assert [family(by).kind.extent(name) for name in REGIONS] == [(name, name) for name in REGIONS]
        return
    kind = kind_named(by, (), None)
    days = [date(1, 1, 1), date(9999, 12, 31), *(date(y, 1, 1) + timedelta(d) for y in (2015, 2020, 2026) for d in range(-9, 9))]
    blocks = {block_of(by, day) for day in days}
    for day in days:
        holding = [block for block in blocks if block and kind.extent(block)[0] <= f"{day}" <= kind.extent(block)[1]]
        assert holding == [block_of(by, day)]


# A whole release, of every measure.


@pytest.mark.nightly
@pytest.mark.needs("opendp")
@of_each("query", [query for _, query in queries() if query["name"] == "q0"], told=lambda query: query["measure"])
def test_no_measure_sees_a_record_outside_of_the_window(
    query: Mapping[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All that an answer is drawn from stays as it is while every other record changes; NOT PRIVATE: the choice of rows is repeated."""
    stated = query["measure"] == "count"  # a statement takes longer than all else and is of every measure alike
    if not stated:
        monkeypatch.setattr("dpcli.release.documents.release.statement", lambda plan, answers: "")
    draw, window = random.Random(query["name"]), ("2020-12-28..2021-01-06",)
    seen: list[list[Totals]] = []
    real = DuckDB.totals

    def recorded(self: DuckDB, asked: Any, secret: bytes) -> Totals:
        found = real(self, asked, secret)
        seen[-1].append(dict(found))
        return found

    monkeypatch.setattr(DuckDB, "totals", recorded)
    monkeypatch.setattr(running.secrets, "token_bytes", lambda count: bytes(count))
    within = lambda day: "2020-12-28" <= day <= "2021-01-06"  # noqa: E731
    lines = csv(tmp_path, draw)
    with ledger(str(tmp_path / "l.db")) as books:
        for turn, change in enumerate((None, within, *[lambda day: not within(day)] * 4)):
            lines = lines if change is None else csv(tmp_path, draw, change, lines)
            seen.append([])
            plan = planned(tmp_path, query, ("window", list(window)), output=str(tmp_path / f"out{turn}"))
            assert release(plan, books).answers
        runs = books.state().runs.values()
    assert seen[0] == seen[1] and seen[0]
    assert any(other != seen[0] for other in seen[2:])  # the records in the window are what is read; a number may stay by chance
    assert {run.window for run in runs} == {tuple(f"{day}" for day in DAYS if within(f"{day}"))}
    said = (tmp_path / "out0" / "statement.md").read_text()
    assert ('Only rows whose "when" lies in 2020-12-28..2021-01-06 are read' in said) == stated


@pytest.mark.needs("opendp")
@of_each("by", TOLD)
@of_each("unit", [None, "visitor"])
@of_each("most", [None, 1, 2])
def test_whoever_reads_the_number_reads_what_it_is_about(most: int | None, unit: str | None, by: str, tmp_path: Path) -> None:
    """In the statement, which is signed, in the plan and in the answers. most: blocks of a unit; None: no ledger was named."""
    from dpcli.release.documents.release import explanation_document, statement
    from dpcli.release.documents.release import plan_document as told_before

    blocks = tuple(sorted({str(block_of(by, day)) for day in DAYS[:3]})) if by != "region" else REGIONS[:2]
    query = {"name": "q", "measure": "count", "rho": 0.1, "max_rows": 2}
    plan = planned(tmp_path, query, ("window", list(blocks)))
    plan = replace(plan, source=replace(plan.source, unit=unit))
    only = None if most is None else row_window(family(by, max_blocks=most), blocks, plan.source, "file.toml")
    plan, each = replace(plan, window=only), unit is not None and most == 1
    signed, before = statement(plan, ()), told_before(plan).notes
    assert ("All rows of one" in signed and "in several blocks get the weaker protection of a group" in signed) == each
    assert (f'rows of one "{unit}" in one block count' in signed.replace("\\", "")) == each
    assert (f'rows of one "{unit}" in one block are protected together; rows without a "{unit}" are left out' in before) == each
    assert (f'rows of one "{unit}" are protected together; rows without a "{unit}" are left out' in before) == (
        most == 2 and unit is not None
    )
    assert any("if the ledger has max_blocks = 1" in note for note in (*before, *explanation_document(plan).notes)) == (
        most is None and unit is not None
    )
    assert any("without --ledger nothing would be answered" in note for note in before) == (most is None)


def test_a_release_goes_on_with_its_own_window_alone(tmp_path: Path) -> None:
    """Charged on each of its blocks; the answers are given again for that window, however it is spelled, and in that ledger."""
    csv(tmp_path, random.Random(1))
    with ledger(str(tmp_path / "l.db")) as books:
        plan = planned(tmp_path, COUNT)
        with pytest.raises(InputError, match="--window: expected the blocks"):
            release(plan, books)
        first = release(over_window(plan, books, ["2020-12-20..2020-12-22"]), books)
        again = release(over_window(plan, books, ["2020-12-22", "2020-12-21", "2020-12-20"]), books)
        assert (first.fresh, again.fresh) == (True, False) and first.answers == again.answers
        for other in (["2020-12-20"], ["2020-12-20..2020-12-23"], ["2020-12-21..2020-12-23"]):
            with pytest.raises(InputError, match="the file and the window with which this release began, found a change"):
                release(over_window(plan, books, other), books)
        with pytest.raises(InputError):
            release(plan, None)
        (run,) = books.state().runs.values()
        assert run.window == ("2020-12-20", "2020-12-21", "2020-12-22") and run.status == "committed"


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a column that the source lacks": ({"column": "day"}, 'expected one column "day"'),
    "parts of a hash": ({"by": "hash"}, "blocks by hash"),
}


@pytest.mark.needs("opendp")
@pytest.mark.parametrize(("opened_with", "said"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_told_is_refused_before_the_charge(opened_with: dict[str, Any], said: str, tmp_path: Path) -> None:
    csv(tmp_path, random.Random(1))
    with ledger(str(tmp_path / "l.db"), **opened_with) as books:
        window = ["0..3"] if opened_with.get("by") == "hash" else ["2020-12-20"]
        with pytest.raises(InputError, match=said):
            release(over_window(planned(tmp_path, COUNT), books, window), books)
        assert not books.state().runs


def test_a_column_that_is_computed_or_joined_decides_no_block(tmp_path: Path) -> None:
    source = planned(tmp_path, COUNT).source
    moved = {**source.columns, "when": replace(source.columns["age"], type="date", expression="name")}
    with pytest.raises(InputError, match="found a computed column"):
        row_window(family("day"), ("2020-12-20",), replace(source, columns=moved), "file.toml")
    joined = replace(source, join=(Join(path="days.csv", on="name", columns=("when",)),))
    with pytest.raises(InputError, match="found a joined column"):
        row_window(family("day"), ("2020-12-20",), joined, "file.toml")


def test_a_window_without_a_ledger_is_refused(tmp_path: Path) -> None:
    csv(tmp_path, random.Random(1))
    with pytest.raises(InputError, match=r"privacy\.window: expected --ledger"):
        release(planned(tmp_path, COUNT, ("window", ["2020-12-20"])))


def test_a_time_with_a_zone_is_in_no_block(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Its day depends on who asks: it is refused, and nothing is read."""
    import duckdb

    with duckdb.connect(str(tmp_path / "rows.duckdb")) as connection:
        connection.execute('CREATE TABLE rows (who VARCHAR, "when" TIMESTAMPTZ, stamp TIMESTAMP)')
        connection.execute("INSERT INTO rows VALUES ('a', '2020-12-20 23:00:00+00', '2020-12-20 23:00')")
    source = Source(columns={}, path="rows.duckdb", table="rows")
    asked = aggregation(random.Random(0), unit=False)
    plain = replace(asked.aggregation, where=None, keys=(), values=())
    for column, sees in (("stamp", 1), ("when", None)):
        only = row_window(family("day", column), ("2020-12-20",), source, "file.toml")
        with open_source(source, str(tmp_path / "file.toml"), only) as engine:
            if sees is None:
                with pytest.raises(InputError, match="expected values of type date"):
                    engine.totals(plain, SECRET)
            else:
                assert engine.totals(plain, SECRET)[()].rows == sees


@pytest.mark.needs("opendp")
def test_rows_of_a_table_in_memory_outside_of_the_window_are_not_read(tmp_path: Path) -> None:
    import duckdb

    import dpcli

    inside = f"select date '{DAYS[3]}' as \"when\", 'v' || i as visitor, 40 as age from range(1000) r(i)"
    outside = f"select date '{DAYS[9]}', 'w' || i, 40 from range(5000) r(i)"
    table = duckdb.connect().sql(f"{inside} union all {outside}")
    planned(tmp_path, COUNT, ("unit", "visitor"))
    with ledger(str(tmp_path / "ledger.db")):
        pass
    answers = dpcli.release(table, tmp_path / "file.toml", ledger=tmp_path / "ledger.db", window=f"{DAYS[3]}")
    assert abs(answers.rows()[0]["value"] - 1000) < 300  # noise of scale 3 / 0.5 is above 300 with probability e^-50
    with pytest.raises(InputError, match="the file"):
        dpcli.release(table, tmp_path / "file.toml", ledger=tmp_path / "ledger.db", window=f"{DAYS[9]}")
    with pytest.raises(InputError, match='expected a column "when"'):
        dpcli.release(
            table.project("visitor, age"),
            tmp_path / "file.toml",
            ledger=tmp_path / "ledger.db",
            window=f"{DAYS[3]}",
            out=tmp_path / "b",
        )

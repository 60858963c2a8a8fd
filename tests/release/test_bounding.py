"""What one unit moves: no neighbour's exact answer is further away than the bounds say, and planted bugs are."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from dpcli.release.aggregate import Aggregation, GroupKey, Steps, Total
from dpcli.release.data_source import Column, Source
from dpcli.release.engines import sql_statement as row_terms
from dpcli.release.engines import sql_statement as statements
from dpcli.release.engines.duckdb_engine import DuckDB
from dpcli.release.engines.sql_engine import opened
from tests.release.searched import put

pytestmark = pytest.mark.needs("duckdb", "sqlglot")

SECRET = b"s" * 32
TABLES = 14
Row = tuple[str, str, int | None, bool]
COLUMNS = {"who": Column(type="text"), "state": Column(type="text"), "age": Column(type="integer"), "vip": Column(type="boolean")}
LEAST, MOST = -2, 5
VALUES = [Steps("age", LEAST, MOST, 1.0), Steps("age", LEAST, MOST, 1.0, squared=1), Steps("age / 2", -4, 4, 0.5, missing=1.0)]
Totals = Mapping[tuple[Any, ...], Total]


def question(draw: random.Random) -> Aggregation:
    keys = draw.choice([(), (GroupKey("state", ("a", "b", "c", "d")),), (GroupKey("state", None), GroupKey("vip", None))])
    values = tuple(draw.sample(VALUES, draw.choice([0, 1, 2])))
    return Aggregation("who", draw.choice([None, "vip or age > 0"]), keys, values, draw.choice([1, 2]), draw.choice([1, 2]))


def rows_of(draw: random.Random, who: str) -> list[Row]:
    count = draw.choice([0, 1, 6, 12])
    return [(who, draw.choice("abcd"), draw.choice([None, -9, -1, 0, 2, 4, 50]), draw.random() < 0.6) for _ in range(count)]


KINDS = {"who": ("text", "VARCHAR"), "state": ("text", "VARCHAR"), "age": ("whole", "BIGINT"), "vip": ("boolean", "BOOLEAN")}


def cells(row: Row) -> list[str]:
    who, state, age, vip = row
    return [f"'{who}'", f"'{state}'", "NULL" if age is None else f"{age}", f"{vip}"]


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DuckDB]:
    folder = tmp_path_factory.mktemp("bounding")
    (folder / "rows.csv").write_text("who,state,age,vip\n")
    with opened(Source(columns=COLUMNS, path="rows.csv", unit="who"), str(folder / "file.toml")) as found:
        assert isinstance(found, DuckDB)
        yield found


def too_far(old: Totals, new: Totals, asked: Aggregation, units: int) -> list[str]:
    """How the answers differ by more than `units` units may bring about that are in one of them alone."""
    nothing = Total(0, 0, (0,) * len(asked.values))
    pairs = [(old.get(key, nothing), new.get(key, nothing)) for key in old.keys() | new.keys()]
    moved = [(a, b) for a, b in pairs if a != b]
    found = ["groups"] if len(moved) > units * asked.max_groups else []
    for a, b in moved:
        changes = [abs(a.units - b.units), abs(a.rows - b.rows), *(abs(x - y) for x, y in zip(a.sums, b.sums, strict=True))]
        limits = [1, asked.max_rows, *(asked.max_rows * reach(steps, units) for steps in asked.values)]
        found += [f"column {n}" for n, (change, limit) in enumerate(zip(changes, limits, strict=True)) if change > limit]
    if sum(abs(a.rows - b.rows) for a, b in moved) > units * asked.max_groups * asked.max_rows:
        found.append("L1 of rows")
    for number, steps in enumerate(asked.values):
        if sum(abs(a.sums[number] - b.sums[number]) for a, b in moved) > units * asked.max_groups * asked.max_rows * steps.furthest:
            found.append("L1 of sums")
    return found


def reach(steps: Steps, units: int) -> int:
    """How far one row moves a sum, where it comes or goes, or (2 units) where another takes its place."""
    if units == 1 or steps.squared is not None:
        return steps.furthest
    return max(steps.furthest, steps.maximum - steps.minimum)


def breaches(engine: DuckDB, seed: int, tables: int) -> list[str]:
    """Over random tables: without each of the units, and with other rows of it."""
    draw = random.Random(seed)
    found = []
    for _ in range(tables):
        asked = question(draw)
        own = {who: rows_of(draw, who) for who in ("ann", "bob", "cem")}
        whole = answer(engine, own.values(), asked)
        for who in own:
            without = answer(engine, (rows for other, rows in own.items() if other != who), asked)
            others = answer(engine, ({**own, who: rows_of(draw, who)}).values(), asked)
            found += too_far(whole, without, asked, 1) + too_far(whole, others, asked, 2)
    return found


def answer(engine: DuckDB, parts: Any, asked: Aggregation) -> Totals:
    put(engine, KINDS, map(cells, [row for rows in parts for row in rows]))
    return engine.totals(asked, SECRET)


@pytest.mark.long
def test_no_unit_moves_an_answer_further_than_its_bounds_say(engine: DuckDB) -> None:
    assert breaches(engine, 2, TABLES) == []


@contextmanager
def replaced(patch: pytest.MonkeyPatch, owner: Any, name: str, change: Callable[..., Any]) -> Iterator[None]:
    """A function of the plan, with a bug in it."""
    sound = getattr(owner, name)
    with patch.context() as inner:
        inner.setattr(owner, name, lambda *arguments: change(sound, *arguments))
        yield


def without_l0(sound: Callable[..., Any], aggregation: Aggregation, *others: Any) -> Any:
    for name, hint, sql in sound(aggregation, *others):
        yield name, hint, sql.replace(f"place <= {aggregation.max_groups}", "place >= 1") if name == "chosen" else sql


def without_rows(sound: Callable[..., Any], aggregation: Aggregation, *others: Any) -> Any:
    for name, hint, sql in sound(aggregation, *others):
        yield (
            name,
            hint,
            sql.replace("WHERE n > ", "WHERE n < 0 AND n > ")
            .replace("WHERE n <= ", "WHERE n >= 0 OR n <= ")
            .replace("least(n", "greatest(n"),
        )


def unbounded_where_filtered(sound: Callable[..., Any], aggregation: Aggregation, *others: Any) -> Any:
    return (without_rows if aggregation.where else lambda own, *all_: own(*all_))(sound, aggregation, *others)


def unclamped(sound: Callable[..., Any], steps: Steps, value: Any, counted: Any, layers: Any) -> Any:
    return counted


def of_all_units(sound: Callable[..., Any], columns: Sequence[str], dialect: Any, secret: bytes) -> str:
    """The choice for one unit depends on how many rows the others have."""
    return str(sound(columns, dialect, secret)).replace("sha256(", "sha256((SELECT count(*) FROM kept) || ", 1)


PLANTED = {
    "max_groups forgotten": (statements, "_bounded", without_l0),
    "max_rows forgotten": (statements, "_bounded", without_rows),
    "bounding left out where there is a filter": (statements, "_bounded", unbounded_where_filtered),
    "values added before they are clamped": (row_terms, "_clamped", unclamped),
    "a hash of others' rows": (statements, "_hashed", of_all_units),
}


@pytest.mark.sampled(1, 2)
@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_bug_is_caught(name: str, engine: DuckDB, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, function, change = PLANTED[name]
    with replaced(monkeypatch, owner, function, change):
        assert breaches(engine, 2, TABLES) != []


def test_an_answer_is_the_sum_of_what_each_unit_adds_alone(engine: DuckDB) -> None:
    """Nothing that is chosen for one unit depends on another: the strongest of these laws."""
    draw = random.Random(4)
    for _ in range(6):
        asked = question(draw)
        own = [rows_of(draw, who) for who in ("ann", "bob", "cem")]
        parts = [answer(engine, [rows], asked) for rows in own]
        nothing = Total(0, 0, (0,) * len(asked.values))
        for key, total in answer(engine, own, asked).items():
            alone = [part.get(key, nothing) for part in parts]
            assert (total.units, total.rows) == (sum(each.units for each in alone), sum(each.rows for each in alone))
            assert total.sums == tuple(map(sum, zip(*(each.sums for each in alone), strict=True)))

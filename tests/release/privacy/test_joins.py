"""Joins with public tables: each row gets what a dictionary would give it, and no neighbour moves further than without the join."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dpcli.base.errors import InputError
from dpcli.release.aggregate import Aggregation, GroupKey
from dpcli.release.data_source import Column, Join, Source
from dpcli.release.engines import source_table
from dpcli.release.engines.duckdb_engine import DuckDB
from dpcli.release.engines.source_engine import open_source, require_source
from dpcli.release.plugin import MEASURES
from tests.cases import fresh_random
from tests.release.privacy.neighbours import seen_of, too_far
from tests.release.random_queries import TYPES, drawn, literal, neighbour, put, table
from tests.release.tables.places import MARKS, PLACES, POSTGRES, Table, as_csv, as_parquet, cluster_of, quoted, source_of, written

pytestmark = pytest.mark.needs("duckdb", "sqlglot")
SECRET = b"s" * 32
MEASURED = tuple(name for name in MEASURES if name not in ("linear", "threshold"))

# The columns of a search that a public table adds, and those that the source keeps. The key takes the values 0, 1, 2, 5 and null.
ADDED, KEY = ("state", "vip", "age", "money"), "small"
PUBLIC = {name: TYPES[name] for name in (KEY, *ADDED)}
OWN = {name: kind for name, kind in TYPES.items() if name not in ADDED}


def public_table(draw: random.Random, repeated: bool = False) -> list[tuple[Any, ...]]:
    """A few keys, with what they add; several rows have no key."""
    keys: list[Any] = draw.sample([0, 1, 2, 5], draw.choice([0, 1, 3, 4])) + [None] * draw.choice([0, 2])
    return [(key, *values) for key in (keys * 2 if repeated else keys) for _, *values in [others(draw)]]


def others(draw: random.Random) -> list[Any]:
    """A place, and a value of each added column."""
    (row,) = (dict(zip(TYPES, each, strict=True)) for each in table(draw, False)[:1])
    return [None, *(row[name] for name in ADDED)]


def put_joined(at: DuckDB, rows: Sequence[Sequence[Any]], public: Sequence[Sequence[Any]]) -> None:
    """The engine's tables are these from now on."""
    put(at, PUBLIC, [map(literal, row, PUBLIC) for row in public])
    assert at.actual is not None
    joined = (at.actual,)
    put(at, OWN, [[literal(cell, name) for cell, name in zip(row, TYPES, strict=True) if name in OWN] for row in rows])
    at.actual = replace(at.actual, joined=joined)


def breaches(
    engine: DuckDB, seeds: range, folder: Path, measures: Sequence[str] = MEASURED, repeated: bool = False, private: bool = False
) -> Iterator[str]:
    """What moved too far. repeated: keys are in two rows. private: the joined table changes with the rows."""
    for seed in seeds:
        draw = random.Random(seed)
        question = drawn(measures[seed % len(measures)], draw, folder)
        if question is None:
            continue
        one, source, by_unit = question
        at = replace(
            engine,
            table=replace(engine.table, columns=source.columns, unit=source.unit, joins=(Join(path="-", on=KEY, columns=ADDED),)),
        )
        for _ in range(2):
            rows = table(draw, by_unit)
            pair = (rows, neighbour(draw, rows, by_unit, one.setting.adjacency))
            public, other = public_table(draw, repeated), public_table(draw)
            seen = []
            for each, joined in zip(pair, (public, other if private else public), strict=True):
                put_joined(at, each, joined)
                seen.append(seen_of(one, at.totals(one.query.aggregation(one.setting), SECRET)))
            yield from (f"seed {seed}: {one.query}: {words}" for words in too_far(one, *seen))


@pytest.mark.parametrize(
    "count", [pytest.param(12, marks=pytest.mark.long, id="few"), pytest.param(240, marks=pytest.mark.nightly, id="many")]
)
def test_nothing_moves_further_with_a_join(count: int, engine: DuckDB, tmp_path: Path) -> None:
    start = fresh_random().randrange(10**9)
    assert list(breaches(engine, range(start, start + count), tmp_path)) == [], start


@pytest.mark.long
def test_a_key_in_several_rows_multiplies_nothing(engine: DuckDB, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table may change after it was checked. Joined as it is, it is seen: a row that is a unit of its own would count twice."""
    assert list(breaches(engine, range(16), tmp_path, ("count", "sum"), repeated=True)) == []
    monkeypatch.setattr(source_table, "joined_rows", lambda public, number, join: public)
    assert next(breaches(engine, range(600), tmp_path, ("count", "sum"), repeated=True), None) is not None


def test_of_several_rows_with_a_key_the_same_one_is_joined(engine: DuckDB) -> None:
    """Whatever order they are read in, so that the row that is joined depends on the public table alone."""
    at = replace(engine, table=replace(engine.table, columns=DECLARED, joins=(Join(path="-", on="number", columns=("size",)),)))
    for sizes in (["3", "2", "NULL"], ["NULL", "2", "3"]):
        put(at, {"number": TYPES["age"], "size": TYPES["age"]}, [["1", f"CAST({size} AS BIGINT)"] for size in sizes])
        assert at.actual is not None
        joined = (at.actual,)
        put(at, {"number": TYPES["age"]}, [["1"]])
        at.actual = replace(at.actual, joined=joined)
        assert at.totals(Aggregation(None, None, (GroupKey("size"),), (), 1, 1), SECRET).keys() == {(2,)}, sizes


@pytest.mark.long
def test_a_joined_table_that_is_private_is_seen(engine: DuckDB, tmp_path: Path) -> None:
    assert next(breaches(engine, range(600), tmp_path, ("count", "sum"), private=True), None) is not None


TEXTS = ["CA", "ca", "CA ", " CA", "é", "e\u0301", "", "it's", '"', "1", "01", "\u00df", "SS", "ss", "\u0131", "I"]
WHOLE = [0, 1, -1, 2**53 + 1, 2**63 - 1, -(2**63)]
ADDS = 'region"; DROP TABLE rows; --'
STORED = {"who": "text", "key": "text", "number": "integer"}
REGION, SIZE = Table({"key": "text", ADDS: "text"}, []), Table({"number": "integer", "size": "integer"}, [])
DECLARED = {
    **{name: Column(type=kind) for name, kind in {**STORED, ADDS: "text", "size": "integer"}.items()},  # type: ignore[arg-type]
    "low": Column(type="text", expression="lower(trim(key))"),
    "lowest": Column(type="text"),
}


def stored_public(place: str, tables: dict[str, Table], folder: Path, source: Source) -> tuple[Join, ...]:
    """The public tables in the place of the source, or in files beside it."""
    joins = []
    for name, each in tables.items():
        on, *added = each.types
        keys: dict[str, Any] = {"on": on, "columns": tuple(added)}
        if place == "postgres":
            import psycopg

            columns = ", ".join(f"{quoted(column)} {POSTGRES[kind]}" for column, kind in each.types.items())
            with psycopg.connect(str(source.url), autocommit=True) as connection:
                connection.execute(f"CREATE TABLE {name} ({columns})")
                for row in each.rows:
                    connection.execute(f"INSERT INTO {name} VALUES ({', '.join(['%s'] * len(row))})", list(row.values()))
            joins.append(Join(table=name, **keys))
            continue
        ending = "parquet" if place.endswith("parquet") else "csv"
        {"csv": as_csv, "parquet": as_parquet}[ending](each, folder / f"{name}.{ending}")
        joins.append(Join(path=f"{name}.{ending}", **keys))
    return tuple(joins)


@pytest.mark.parametrize("place", [pytest.param(place, marks=MARKS.get(place, [])) for place in PLACES])
def test_a_row_gets_what_a_dictionary_gives_it(place: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Keys that differ by case, spaces or Unicode form are different ones; a computed key, and a key that another join adds."""
    seed = fresh_random().randrange(10**9)
    draw, cluster = random.Random(seed), cluster_of(place, request)
    rows = [{"who": f"u{n}", "key": draw.choice([None, *TEXTS]), "number": draw.choice([None, 7, *WHOLE])} for n in range(60)]
    regions = {key: draw.choice([None, "r", "R", "low", ""]) for key in draw.sample(TEXTS, 10)}
    sizes: dict[int, int | None] = {key: draw.choice([None, 3, 4]) for key in draw.sample(WHOLE, 4)}
    lowest = {"ca": "x", "it's": "y", "ss": None}
    tables = {
        "regions": replace(REGION, rows=[{"key": key, ADDS: region} for key, region in [*regions.items(), (None, "r")]]),
        "sizes": replace(SIZE, rows=[{"number": n, "size": size} for n, size in [*sizes.items(), (None, 3), (None, 4)]]),
        "lows": Table({"low": "text", "lowest": "text"}, [{"low": low, "lowest": value} for low, value in lowest.items()]),
    }
    found = source_of(place, Table(STORED, rows), tmp_path, cluster, "who")
    source = replace(found, columns=DECLARED, join=stored_public(place, tables, tmp_path, found))

    def low(text: str | None) -> str | None:
        return None if text is None else "".join(c.lower() if c.isascii() else c for c in text).strip(" ")

    expected = Counter(
        (regions.get(row["key"]), sizes.get(row["number"]), lowest.get(low(row["key"])))
        for row in rows  # type: ignore[arg-type]
    )
    asked = Aggregation(
        "who",
        None,
        tuple(GroupKey(f"coalesce({text}, {other})") for text, other in ((quoted(ADDS), "'-'"), ("size", "-1"), ("lowest", "'-'"))),
        (),
        1,
        1,
    )
    require_source(source, str(tmp_path / "x.toml"), [asked])
    with open_source(source, str(tmp_path / "x.toml")) as engine:
        totals = {key: total.rows for key, total in engine.totals(asked, SECRET).items()}
    marked = Counter(
        {tuple(b if a is None else a for a, b in zip(key, ("-", -1, "-"), strict=True)): n for key, n in expected.items()}
    )
    assert totals == dict(marked), seed


def test_a_join_may_need_another_one_but_not_itself(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("zip\n1\n2\n3\n")
    (tmp_path / "counties.csv").write_text("zip,county\n1,A\n2,B\n")
    (tmp_path / "states.csv").write_text("county,state\nB,NY\nA,CA\n")
    columns = {name: Column(type="text") for name in ("zip", "county", "state")}
    joins = (Join(path="states.csv", on="county", columns=("state",)), Join(path="counties.csv", on="zip", columns=("county",)))
    source = Source(columns=columns, path="rows.csv", join=joins)
    asked = Aggregation(None, "state is null or state = 'NY'", (), (), 1, 1)
    with open_source(source, str(tmp_path / "x.toml")) as engine:
        assert engine.totals(asked, SECRET)[()].rows == 2
    circle = replace(source, columns={**columns, "zip": Column(type="text", expression="state || 'x'")})
    with pytest.raises(InputError, match=r"source\.join\.on: expected a column that does not need the join"):
        require_source(circle, str(tmp_path / "x.toml"), [asked])


def test_the_number_of_rows_of_a_unit_may_be_a_key(tmp_path: Path) -> None:
    """The public table has a column of its name, and no units."""
    (tmp_path / "rows.csv").write_text("who\na\na\nb\n")
    (tmp_path / "sizes.csv").write_text("visits,size\n1,10\n2,20\n")
    columns = {"who": Column(type="text"), "visits": Column(type="integer", rows_of_unit=True), "size": Column(type="integer")}
    join = Join(path="sizes.csv", on="visits", columns=("size",))
    source = Source(columns=columns, path="rows.csv", unit="who", join=(join,))
    asked = Aggregation("who", None, (GroupKey("size"),), (), 1, 5)
    require_source(source, str(tmp_path / "x.toml"), [asked])
    with open_source(source, str(tmp_path / "x.toml")) as engine:
        assert {key: total.rows for key, total in engine.totals(asked, SECRET).items()} == {(10,): 1, (20,): 2}


def test_a_table_of_a_duckdb_file_is_joined(tmp_path: Path) -> None:
    """In any place that it has there; its NaN and fractions are no keys of whole numbers."""
    import duckdb

    with duckdb.connect(str(tmp_path / "a.duckdb")) as connection:
        connection.execute("create table rows as select * from (values (1, 'a'), (2, 'b'), (3, 'c')) r(n, who)")
        connection.execute("create schema public_data")
        connection.execute(
            "create table public_data.sizes as select * from (values (1.0, 10), ('NaN'::double, 20), (2.5, 30), (3.0, 30)) s(n, size)"
        )
    columns = {"n": Column(type="integer"), "who": Column(type="text"), "size": Column(type="integer")}
    join = Join(table="public_data.sizes", on="n", columns=("size",))
    source = Source(columns=columns, path="a.duckdb", table="rows", unit="who", join=(join,))
    asked = Aggregation("who", None, (GroupKey("size"),), (), 1, 1)
    with open_source(source, str(tmp_path / "x.toml")) as engine:
        engine.require_joinable()
        assert engine.totals(asked, SECRET).keys() == {(10,), (30,)}


def test_a_key_of_another_type_is_refused(tmp_path: Path) -> None:
    written(tmp_path, "rows.parquet", "'a' AS who, 1 AS n")
    written(tmp_path, "sizes.parquet", "[1] AS n, 2 AS size")
    columns = {"n": Column(type="integer"), "who": Column(type="text"), "size": Column(type="integer")}
    source = Source(columns=columns, path="rows.parquet", join=(Join(path="sizes.parquet", on="n", columns=("size",)),))
    with pytest.raises(InputError, match=r'sizes.parquet: expected values of type integer in the column "n", found INTEGER\[\]'):
        require_source(source, str(tmp_path / "x.toml"), [])

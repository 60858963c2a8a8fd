"""SQL scalars: each engine gives what plain Python gives on every row, and what is not allowed is refused."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dpcli.base.errors import InputError
from dpcli.release.data_source import Column
from dpcli.release.engines.dialects import DuckDBSql
from dpcli.release.engines.source_engine import open_source
from dpcli.release.engines.source_table import Values
from dpcli.release.expressions.scalars import LONGEST_JOINED, Layers, Term
from dpcli.release.expressions.sql_grammar import Expressions
from tests.cases import fresh_random, of_each
from tests.release import expressions_drawn as drawn
from tests.release.tables.places import Table, cluster_of, everywhere, seen, source_of

pytestmark = pytest.mark.needs("duckdb", "sqlglot")

COLUMNS = {
    "age": Column(type="integer"),
    "name": Column(type="text"),
    "paid": Column(type="decimal"),
    "vip": Column(type="boolean"),
    "born": Column(type="date"),
    'a b"c': Column(type="integer"),
    "heavy": Column(type="boolean", expression="paid > 100"),
    "half": Column(type="decimal", expression="age"),
    "loop": Column(type="integer", expression="loop + 1"),
    "wrong": Column(type="text", expression="age"),
}


@pytest.mark.sampled(1, 2)
@pytest.mark.parametrize("place", everywhere("spark-parquet"))
def test_every_engine_gives_what_plain_python_gives(place: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    seed = fresh_random().randrange(2**32)
    draw = random.Random(seed)
    rows = drawn.rows(draw, 40)
    many = 25 if place.startswith("spark") else 60  # which compiles each of them
    asked = [drawn.expression(draw, draw.choice(list(drawn.MADE)), 3) for _ in range(many)]
    table = Table({"id": "integer", **drawn.TYPES}, rows)
    source = source_of(place, table, tmp_path, cluster_of(place, request), None)
    found = evaluated(place, source, tmp_path, [each.sql for each in asked])
    kept = {row["id"]: {name: seen(value) for name, value in row.items()} for row in rows}
    assert set(found) == set(kept)
    for number, each in enumerate(asked):
        for key, row in kept.items():
            assert same(found[key][number], each.value(row)), (seed, place, each.sql, row, found[key][number], each.value(row))


@pytest.mark.nightly
@pytest.mark.parametrize("place", everywhere("spark-parquet"))
def test_a_joined_text_longer_than_a_million_characters_is_null_everywhere(
    place: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    texts = [(sign * (LONGEST_JOINED // 2), sign * (LONGEST_JOINED // 2 + more)) for sign in "x\U0001f600" for more in (0, 1)]
    rows = [{"id": number, "s": first, "t": second} for number, (first, second) in enumerate(texts)]
    source = source_of(place, Table({"id": "integer", "s": "text", "t": "text"}, rows), tmp_path, cluster_of(place, request), None)
    found = evaluated(place, source, tmp_path, ["length(s || t)", "length(concat(s, t))", "concat(s || t, 'z') = 'z'"])
    assert found == {number: (None, None, True) if number % 2 else (LONGEST_JOINED, LONGEST_JOINED, None) for number in range(4)}


def test_a_server_writes_a_date_as_text_as_every_engine_does(tmp_path: Path, release_cluster: Any) -> None:
    rows = [{"id": number, "d": day} for number, day in enumerate(drawn.DAYS)]
    source = source_of("postgres", Table({"id": "integer", "d": "date"}, rows), tmp_path, release_cluster, None)
    for style in ("SQL", "German", "Postgres"):
        styled = replace(source, url=f"{source.url}&options=-c%20DateStyle%3D{style}")
        found = evaluated("postgres", styled, tmp_path, ["cast(d as text)"])
        assert found == {row["id"]: (row["d"] and row["d"].isoformat(),) for row in rows}


def same(left: Any, right: Any) -> bool:
    return left == right and type(left) is type(right)


def evaluated(place: str, source: Any, folder: Path, texts: list[str]) -> dict[int, tuple[Any, ...]]:
    """What an engine makes of each expression, by row: asked of it below the statement that only adds up."""
    with open_source(source, str(folder / "file.toml")) as engine:
        own: Any = engine
        values = Values(own.table, own._find())
        layers = Layers(own.dialect, values)
        expressions = Expressions(source.columns)
        terms = [expressions.scalar(text, "where").write(layers).sql for text in ("id", *texts)]
        columns = ", ".join(f"{term} AS e{number}" for number, term in enumerate(terms))
        return {key: tuple(others) for key, *others in own._rows(f"SELECT {columns} FROM {layers.over(values.base())}")}


ALLOWED = [
    "age >= 18 and name is not null",
    "not (vip or heavy)",
    "age between 1 and 2 and name in ('a', 'it''s')",
    "-age // 2 % 3 = 1",
    "year(born) = 2020 or extract(isodow from born) = 1",
    "substr(lower(name), 1, 3) = 'abc'",
    '"a b""c" = 1',
    "half / 2 > 1e3",
    "born >= date '2020-01-31'",
    "case when vip then 1 when heavy then 2.5 else age end > 1",
    "case when vip then heavy end",
    "coalesce(age, half, 0) > 1",
    "nullif(name, '') is null",
    "name like 'a%' or name not ilike '_b'",
    "length(trim(name)) > 3",
    "abs(paid) < 3 and floor(paid) = ceil(age)",
    "round(paid) = round(age) and name || 'a' = concat(name, 'a', name)",
    "least(age, paid, 7) > greatest(1, age)",
    "date_trunc('month', born) = date_trunc('month', date '2020-01-31')",
    "cast(name as integer) = 1 and try_cast(name as double) > .5 and cast(vip as integer) = 1",
    "name::date = born and cast(born as text) = '2020-01-31' and age::text = '7'",
]
REFUSED = {
    "count(*) > 1": "count",
    "exists (select 1)": "exists",
    "age in (select 1)": "select",
    "sum(age) over () > 1": "over",
    "pg_sleep(10) is null": "pg_sleep",
    "read_csv('/etc/passwd') is null": "read",
    "cast(paid as integer) = 1": "floor, ceil or round",
    "cast(paid as text) = '1'": "decimal to text",
    "cast(age as boolean)": "integer to boolean",
    "cast(age as decimal(3, 1)) = 1": "a cast to int, bigint, double",
    "cast(name as timestamp) = born": "a cast to int, bigint, double",
    "age = $1": "$1",
    "age = ?": "?",
    "*": "*",
    "visits.age = 1": "visits.age",
    "age = 1 -- all": "comment",
    "age /* all */ = 1": "comment",
    "age = 1; drop table rows": "one SQL expression",
    "age || name = 'aa'": "text",
    "concat(age, name) = 'aa'": "text",
    "name like name": "a pattern in quotes",
    "name like 'a!%' escape '!'": "escape",
    "name like any ('a')": "a pattern in quotes",
    "age like '1%'": "text",
    "least(name, 'a') = 'a'": "numbers or dates",
    "least(vip, true)": "numbers or dates",
    "greatest(age, born) = 1": "one type",
    "greatest(age) = 1": "at least two values",
    "abs(name) = 1": "integer or decimal",
    "floor(paid, 1) = 1": "floor",
    "round(paid, 1) = 1": "round",
    "round(name) = 1": "integer or decimal",
    "concat_ws('a', name) = 'a'": "concat",
    "trim(name, 'x') = ''": "trim",
    "ltrim(name) = ''": "trim",
    "date_trunc('day', born) = born": "date_trunc of year",
    "date_trunc('month', name) = born": "date",
    "name ~ 'a'": "regexp",
    "case age when 1 then 2 end = 2": "case when",
    "case when age then 1 end = 1": "boolean",
    "case when vip then 1 else 'a' end = 1": "one type",
    "case when vip then null end = 1": "null",
    "coalesce(age, 'a') = 1": "one type",
    "nullif(age, born) = 1": "one type",
    "vip is true": "is null",
    "length(age) = 1": "text",
    "age ^ 2 = 1": "pow",
    '"ag" = 1': "did you mean 'age'",
    '"Age" = 1': "did you mean 'age'",
    "age = '1'": "one type",
    "born = '2020-01-01'": "date '2020-01-31'",
    "date '2020-13-01' = born": "YYYY-MM-DD",
    "vip < true": "booleans",
    "paid % 2 = 0": "integer",
    "name and vip": "boolean",
    "substr(name, 0) = 'a'": "start of at least 1",
    "substr(name, -1) = 'a'": "start of at least 1",
    "substr(name, age) = 'a'": "start of at least 1",
    "age in (age)": "literals",
    "age in ()": "a list of 1",
    "age = 9223372036854775808": "64 bits",
    "paid = 1e999": "finite",
    "extract(epoch from born) = 1": "extract of",
    "loop = 1": "computed from itself",
    "wrong = 'a'": "type text",
    "age": "a condition",
    "null": "null",
    "": "1 to 10,000",
    "(" * 2000 + "age" + ")" * 2000 + " = 1": "expression",
    " or ".join(["age = 1"] * 500): "nested expressions",
    "name = '\ud800'": "Unicode",
    "name = 'a\0'": "1 to 10,000",
    "select 1": "one SQL expression",
    "set threads = 1": "expression",
    "age = 1 limit 1": "expression",
    "{'a': 1} is null": "only",
    "[1] is null": "only",
    "age is not distinct from 1": "only",
    "lower(name, 'x') = 'a'": "expression",
    "week(born, 1) = 1": "week",
    "name = x'41'": "",
    "name collate nocase = 'a'": "collate",
    "interval '1' day is null": "interval",
    "current_date = born": "current_date",
    "random() < 1": "rand",
}


@of_each("text", ALLOWED)
def test_what_the_page_lists_is_read(text: str) -> None:
    assert Expressions(COLUMNS).condition(text, "query[0].where").type == "boolean"


@of_each("text", REFUSED, told=lambda text: ascii(text[:30]))
def test_all_else_is_refused_by_its_name(text: str) -> None:
    with pytest.raises(InputError, match=r"^(query\[0\]\.where|source\.columns\.\w+\.expression): expected ") as caught:
        Expressions(COLUMNS).condition(text, "query[0].where")
    assert REFUSED[text].lower() in str(caught.value).lower() and len(str(caught.value)) < 420


@of_each("wrapped", ["abs({})", "cast(cast({} = 1 as text) = 'true' as bigint)", "cast({} = 1 as integer)"])
def test_an_expression_in_many_others_is_written_once(wrapped: str) -> None:
    text, columns = "age", {"age": Column(type="integer"), "c0": Column(type="integer", expression="age")}
    for number in range(1, 8):
        text = wrapped.format(text)
        columns[f"c{number}"] = Column(type="integer", expression=f"c{number - 1} + c{number - 1} * c{number - 1}")
    for expression in (text, "c7"):
        table = Counting()
        layers = Layers(DuckDBSql(), table)
        sql = Expressions(columns).scalar(expression, "where").write(layers).sql
        assert table.written == ["age"]
        assert len(layers.over("rows")) + len(sql) < 4_000


@of_each("length, refused", [(60, False), (120, True), (2000, True)])
def test_a_long_chain_of_computed_columns_is_refused_in_words(length: int, refused: bool) -> None:
    columns = {"c0": Column(type="integer")}
    columns |= {f"c{n}": Column(type="integer", expression=f"c{n - 1} + 1") for n in range(1, length + 1)}
    if refused:
        with pytest.raises(InputError, match="at most 150 nested expressions, those of computed columns included"):
            Expressions(columns).column(f"c{length}", "where")
    else:
        assert Expressions(columns).column(f"c{length}", "where").write(Layers(DuckDBSql(), Counting())).depth > length


class Counting:
    """A table whose columns have their declared types, and the names that were asked for."""

    def __init__(self) -> None:
        self.written: list[str] = []

    def term(self, name: str, layers: Layers) -> Term:
        self.written.append(name)
        return Term(name)


def test_every_node_of_the_grammar_says_which_parts_it_may_have() -> None:
    """What the parser's classes allow besides is refused: a new part of a node, in a later version, too."""
    from sqlglot import exp

    from dpcli.release.expressions.sql_nodes import MEANINGS

    for name, meaning in MEANINGS.items():
        assert meaning.parts <= set(getattr(exp, name).arg_types) | {"to", "negate"}, name  # later versions have more

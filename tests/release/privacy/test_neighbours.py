"""The sensitivity of every measure by search: random small tables, and all that reaches the noise of their neighbours."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dpcli.base.errors import InputError
from dpcli.mechanisms.neighbours import Adjacency
from dpcli.release import group_keys
from dpcli.release.aggregate import Aggregation, GroupKey
from dpcli.release.engines import sql_statement as statements
from dpcli.release.engines.duckdb_engine import DuckDB
from dpcli.release.engines.source_table import Values
from dpcli.release.expressions.scalars import Term
from dpcli.release.measures import most_common, quantiles
from dpcli.release.plugin import MEASURES
from dpcli.release.vectors import Contribution, sensitivity
from tests.cases import fresh_random
from tests.release.privacy import brute
from tests.release.privacy.neighbours import seen_of, too_far
from tests.release.random_queries import TYPES, drawn, literal, neighbour, put, table
from tests.release.tables.files import priced

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
        at = replace(engine, table=replace(engine.table, columns=source.columns, unit=source.unit))
        for _ in range(tables):
            rows = table(draw, by_unit)
            pair = (rows, neighbour(draw, rows, by_unit, one.setting.adjacency))
            seen = []
            for each in pair:
                put(at, TYPES, [map(literal, row, TYPES) for row in each])
                seen.append(seen_of(one, at.totals(one.query.aggregation(one.setting), SECRET)))
            yield from (f"seed {seed}: {one.query}: {words}" for words in too_far(one, *seen))


@pytest.mark.parametrize(
    ("seeds", "tables"),
    [
        pytest.param(range(1000, 1042), 1, marks=pytest.mark.long),
        pytest.param(range(1042, 1282), TABLES, marks=pytest.mark.nightly),
    ],
    ids=["few", "many"],
)
def test_nothing_moves_further_than_is_priced(seeds: range, tables: int, engine: DuckDB, tmp_path: Path) -> None:
    assert list(breaches(engine, seeds, tmp_path, tables=tables)) == []


def test_every_measure_is_drawn_with_and_without_what_it_may_have(tmp_path: Path) -> None:
    """A measure whose questions are all refused would never be searched."""
    asked = {(measure, seed): drawn(measure, random.Random(seed), tmp_path) for measure in MEASURES for seed in range(8)}
    assert {measure for (measure, _), one in asked.items() if one is not None} == set(MEASURES)
    assert {measure for (measure, _), one in asked.items() if one is not None and one[0].query.by} >= {"quantile", "mode", "top-k"}


@pytest.mark.long
def test_distinct_values_move_as_far_as_is_priced_and_no_further() -> None:
    """All rows that a unit may have of two keys and three values, beside a unit that has one of them."""
    cells = list(itertools.product("ab", "xyz"))
    versions = [rows for size in range(len(cells) + 1) for rows in itertools.combinations(cells, size)]
    for by, groups, most, adjacency in itertools.product((True, False), (1, 2), (1, 2), Adjacency):
        keys = (GroupKey("key", ("a", "b")),) if by else ()
        question = Aggregation("who", None, keys, (), groups, most, distinct=GroupKey("value"))
        asked = brute.Asked(question, {name: lambda row, name=name: row[name] for name in ("key", "value")})
        secret, answers = fresh_random().randbytes(32), []
        for rows in versions:
            table = [
                {"who": who, "key": key, "value": value} for who, key, value in [("v", "a", "x"), *(("u", *row) for row in rows)]
            ]
            answers.append([total.rows for _, total in sorted(brute.totals(asked, table, secret).items())])
        pairs = itertools.product(answers, answers if adjacency is Adjacency.REPLACE_ONE else answers[:1])
        moved = [[abs(a - b) for a, b in zip(*pair, strict=True)] for pair in pairs]
        l1, squared = max(map(sum, moved)), max(sum(each * each for each in one) for one in moved)
        stated = sensitivity(adjacency, Contribution(groups, most, 1, 1, one_key=not by))
        case = (by, groups, most, adjacency, secret.hex())
        assert l1 <= stated.l1 and squared <= stated.squared_l2, case
        if not by or groups == 1 or adjacency is not Adjacency.REPLACE_ONE:  # else two versions need four keys
            assert (l1, squared) == (stated.l1, stated.squared_l2), case


@pytest.mark.parametrize(
    "measure", [pytest.param(name, marks=[pytest.mark.long] * (name != "mode")) for name in ("mode", "top-k", "quantile")]
)
def test_keys_that_are_forgotten_are_seen(measure: str, engine: DuckDB, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A unit that is replaced changes choices for the keys that it had and for those that it has."""
    module = quantiles if measure == "quantile" else most_common
    monkeypatch.setattr(module, "changed_keys", lambda query, setting: query.groups)
    start = {"mode": 28, "top-k": 0, "quantile": 104}[measure]  # near a question that shows it, so that the search is short
    assert next(breaches(engine, range(start, 600), tmp_path, (measure,)), None) is not None


@pytest.mark.parametrize(
    ("limit", "measures"),
    [
        pytest.param({"max_groups": 10}, ("count", "sum", "histogram"), marks=pytest.mark.long),
        ({"max_rows": 10}, ("count", "sum", "histogram")),
        pytest.param({"max_groups": 10}, ("distinct",), marks=pytest.mark.long),
        pytest.param({"max_rows": 10}, ("distinct",), marks=pytest.mark.long),
        pytest.param({"clip": None}, ("sum",), marks=pytest.mark.nightly),
    ],
    ids=["max_groups", "max_rows", "groups of values", "values", "totals"],
)
def test_a_limit_that_is_forgotten_is_seen(
    limit: dict[str, Any], measures: Sequence[str], engine: DuckDB, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sound = statements._bounding_subqueries
    monkeypatch.setattr(statements, "_bounding_subqueries", lambda asked, *others: sound(replace(asked, **limit), *others))
    assert next(breaches(engine, range(600), tmp_path, measures), None) is not None


def moved_between(
    engine: DuckDB, folder: Path, adjacency: str, source: dict[str, Any], query: dict[str, Any], pair: Sequence[Any]
) -> list[str]:
    """What moves further than a query is priced for. pair: rows of two tables, whose columns are the first ones of the source."""
    privacy = {"adjacency": adjacency, "delta": 1e-6, "unit": "visitor" if "unit" in source else "example"}
    more = {"max_contributions": 10} if "unit" in source else {}
    document = {
        "format": 1,
        "privacy": {**privacy, **more},
        "budget": {"epsilon": 50.0},
        "source": {"path": "rows.csv", **source},
        "query": [{"name": "q", "epsilon": 0.5, **query}],
    }
    (one,) = priced(document, str(folder))
    declared = one.setting.source
    at = replace(engine, table=replace(engine.table, columns=declared.columns, unit=declared.unit))
    kinds, seen = {name: TYPES[name] for name in declared.columns if name in TYPES}, []
    for rows in pair:
        put(at, kinds, [map(literal, row, kinds) for row in rows])
        seen.append(seen_of(one, at.totals(one.query.aggregation(one.setting), SECRET)))
    return too_far(one, *seen)


def test_a_blank_row_that_counts_is_seen(engine: DuckDB, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Empty cells have a value where a column states one, or an expression does."""
    age = {"type": "integer", "min": -3, "max": 4}
    for columns, more in [
        ({"age": {**age, "missing": -3}}, {"column": "age"}),
        ({"age": age, "known": {**age, "expression": "coalesce(age, -3)"}}, {"column": "known", "where": "known < 5"}),
    ]:
        asked = ("zero-out", {"columns": columns}, {"measure": "sum", **more}, ([(1,), (4,)], [(1,), (None,)]))
        assert moved_between(engine, tmp_path, *asked) == []
        with monkeypatch.context() as without:
            without.setattr(group_keys, "filled_columns", lambda setting: ())
            assert moved_between(engine, tmp_path, *asked) != []


def test_a_number_of_rows_that_depends_on_other_units_is_seen(
    engine: DuckDB, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    columns = {"who": {"type": "text"}, "visits": {"type": "integer", "rows_of_unit": True, "min": 1, "max": 3}}
    query = {"measure": "sum", "column": "visits", "max_rows": 1}
    asked = ("add-remove", {"columns": columns, "unit": "who"}, query, ([("a",), ("b",)], [("a",)]))
    assert moved_between(engine, tmp_path, *asked) == []
    monkeypatch.setattr(Values, "_rows_of_unit", lambda values, layers: Term("(count(*) OVER () * 2)", len(layers.names)))
    assert moved_between(engine, tmp_path, *asked) != []


def test_blank_rows_are_left_out_beside_any_condition_and_of_any_number_of_columns(engine: DuckDB, tmp_path: Path) -> None:
    """The condition is read by itself: it cannot close the parentheses around it. Without stored columns, all rows are alike and count."""
    many = {f"c{n}": {"type": "boolean"} for n in range(160)}  # more than an expression may nest
    constant = {"one": {"type": "integer", "expression": "1"}}
    for columns, where, expected in [
        (many, {}, 1),
        (constant, {}, 2),
        (many, {"where": "true) or (true"}, 'where: expected one SQL expression, found "true) or (true"'),
    ]:
        document = {
            "format": 1,
            "privacy": {"adjacency": "zero-out", "delta": 1e-6, "unit": "example"},
            "budget": {"epsilon": 50.0},
            "source": {"path": "rows.csv", "columns": columns},
            "query": [{"name": "q", "measure": "count", "epsilon": 0.5, **where}],
        }
        (one,) = priced(document, str(tmp_path))
        at = replace(engine, table=replace(engine.table, columns=one.setting.source.columns))
        put(at, dict.fromkeys(many, ("boolean", "BOOLEAN")), [["NULL"] * 160, ["NULL"] * 159 + ["true"]])
        try:
            outcome: object = at.totals(one.query.aggregation(one.setting), SECRET)[()].rows
        except InputError as error:
            outcome = str(error)
        assert outcome == expected, (len(columns), where)

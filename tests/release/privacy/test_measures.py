"""Every example of every measure (measures/): a valid file, priced, explained and planned; what it lacks is said by name."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from dpcli.analysis.account import account
from dpcli.base.errors import InputError
from dpcli.base.lazy import load
from dpcli.file.pipeline.read import parse
from dpcli.file.toml.findings import InvalidFile
from dpcli.release.data_source import Column
from dpcli.release.plugin import MEASURES
from dpcli.release.query import COSTS
from tests.cases import of_each
from tests.command import dpcli
from tests.inline import text_of
from tests.release.tables.files import COLUMNS, document, queries

QUERIES = dict(queries())
WIDE: dict[str, dict[str, Any]] = {**COLUMNS, "age": {**COLUMNS["age"], "step": 1}}  # type: ignore[dict-item]
EACH = of_each("table", QUERIES.values(), told=lambda table: f"{table['measure']} {table['name']}")


@pytest.mark.long
@EACH
def test_every_query_costs_at_most_what_it_states(table: Mapping[str, Any]) -> None:
    """epsilon as pure epsilon, rho as rho; a weight no more than the budget."""
    pipeline = parse(text_of(document(table, budget={"epsilon": 1.0})), "file.toml")
    delta = table.get("delta", 0.0)
    tested = [entry.type for entry in pipeline.mechanisms if entry.spec.needs_delta and entry.type.startswith("discrete")]
    if "epsilon" in table and not tested:
        assert account(pipeline, delta=delta).upper <= table["epsilon"] * (1 + 1e-9)
    elif "rho" in table and "delta" not in table:
        (zcdp,) = account(pipeline, ["zcdp"], delta=1e-6).rows
        from dpcli.numerics.closed.conversion import zcdp_epsilon

        assert zcdp.bound.upper <= zcdp_epsilon(table["rho"], 1e-6) * (1 + 1e-9)
    elif "weight" in table:
        assert account(pipeline).upper <= 1.0


@pytest.mark.long
@EACH
def test_every_query_is_planned_and_explained(table: Mapping[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "file.toml"
    path.write_bytes(text_of(document(table)))
    planned = dpcli("release", "--dry-run", str(path), "-f", "json")
    assert planned.code == 0, planned.err
    (query,) = json.loads(planned.out)["queries"]
    assert query["name"] == table["name"] and query["expected_error"]
    explained = dpcli("explain", "query", str(path))
    assert explained.code == 0 and table["name"] in explained.out, explained.err


@of_each(
    "quantiles, adjacency, max_rows, rows",
    [
        ([0.5], "add-remove", 1, "1 row"),
        ([0.5, 0.25], "add-remove", 1, "1.5 rows"),
        ([0.1, 0.5], "add-remove", 1000, "1,800 rows"),
        ([0.25, 0.999999], "add-remove", 1, "1.999998 rows"),
        ([0.5, 0.25], "replace-one", 5, "10 rows"),
    ],
)
def test_the_largest_move_of_all_quantiles_is_told_in_rows(
    quantiles: list[float], adjacency: str, max_rows: int, rows: str, tmp_path: Path
) -> None:
    query = {"name": "q", "measure": "quantile", "column": "age", "quantiles": quantiles, "epsilon": 0.5, "max_rows": max_rows}
    path = tmp_path / "file.toml"
    path.write_bytes(text_of(document(query, adjacency=adjacency)))
    explained = dpcli("explain", "query", str(path))
    assert explained.code == 0 and f"changes by at most {rows}\n" in explained.out, explained.err + explained.out


@of_each(
    "query, advice",
    [
        ({"measure": "count", "by": ["name"]}, 'keys = "threshold"'),
        ({"measure": "mode", "column": "name"}, 'method = "propose-test-release"'),
        ({"measure": "top-k", "column": "name", "top": 2}, 'measure = "count" with by = ["name"] and keys = "threshold"'),
        ({"measure": "top-k", "column": "name", "by": ["city"], "top": 2}, 'by = ["city", "name"]'),
        ({"measure": "count", "by": ["number"]}, "min and max in [source.columns], with a step of 1"),
        ({"measure": "count", "by": ["stat"]}, "did you mean 'state'"),
        ({"measure": "count", "by": ["year(day)"]}, 'NAME = { type = ..., expression = "..." }'),
        ({"measure": "count", "by": ["day"]}, 'expression = "cast(day as text)"'),
        ({"measure": "mean", "column": "old", "by": ["state"]}, 'expression = "cast(old as bigint)"'),
        ({"measure": "sum", "column": "age", "by": ["name"]}, 'keys = "threshold"'),
        ({"measure": "quantile", "column": "age", "by": ["name"]}, "domain = [...]"),
        ({"measure": "threshold", "column": "name", "above": 5}, "domain = [...]"),
    ],
)
def test_what_is_advised_are_keys_of_the_measure_or_of_a_column(query: dict[str, Any], advice: str) -> None:
    tables = document({"name": "q", "epsilon": 0.5, "max_groups": 1, "max_rows": 1, **query})
    more = {"number": {"type": "integer"}, "day": {"type": "date"}, "old": {"type": "boolean"}}
    tables["source"]["columns"] = {**tables["source"]["columns"], **more}
    with pytest.raises(InputError) as found:
        parse(text_of(tables), "file.toml")
    said = str(found.value)
    assert advice in said
    measures = re.findall(r'measure = "([\w-]+)"', said)
    keys = {field.name for kind in (Column, *(load(MEASURES[name]) for name in measures)) for field in fields(kind)}
    assert {*re.findall(r'(\w+) = "', said)} <= keys


def test_a_mistake_in_a_query_is_the_only_one_that_is_told() -> None:
    """What the query would bound is not asked for in [privacy]."""
    for wrong in ({"measure": "averge"}, {"measure": "count", "by": "state"}, {"measure": "count", "limit": 5}):
        tables = document({"name": "q", "epsilon": 0.5, "max_rows": 1, **wrong})
        del tables["privacy"]["max_contributions"]
        with pytest.raises(InvalidFile) as found:
            parse(text_of(tables), "file.toml")
        assert len(found.value.diagnostics) == 1 and "query[1]" in str(found.value), wrong


@of_each("column, by", [("city", ["name"]), ("name", ["city"])])
def test_a_mode_by_keys_is_not_advised_to_be_tested(column: str, by: list[str]) -> None:
    """What is advised would be refused in turn."""
    tables = document({"name": "q", "measure": "mode", "column": column, "by": by, "epsilon": 0.5, "max_groups": 1, "max_rows": 1})
    with pytest.raises(InvalidFile, match=r"domain = \[") as found:
        parse(text_of(tables), "file.toml")
    assert "propose-test-release" not in str(found.value)


@of_each(
    "query, key",
    [
        ({"measure": "count", "by": ["day"]}, "by"),
        ({"measure": "quantile", "column": "age", "by": ["day"]}, "by"),
        ({"measure": "mode", "column": "day"}, "column"),
        ({"measure": "threshold", "column": "day", "above": 5}, "column"),
    ],
)
def test_a_date_is_no_key_and_cannot_be_declared(query: Mapping[str, Any], key: str) -> None:
    tables = document({"name": "q", "epsilon": 0.5, "max_groups": 1, "max_rows": 1, **query})
    tables["source"]["columns"] = {**tables["source"]["columns"], "day": {"type": "date"}}
    with pytest.raises(
        InvalidFile, match=rf'{key}.*: expected a column of type text, integer or boolean as a key, found "day"'
    ) as found:
        parse(text_of(tables), "file.toml")
    assert "domain" not in str(found.value)


@of_each(
    "query", [{"measure": "count"}, {"measure": "quantile", "column": "age"}, {"measure": "top-k", "column": "city", "top": 1}]
)
def test_a_column_is_a_key_once(query: Mapping[str, Any]) -> None:
    tables = document({"name": "q", "by": ["state", "state"], "epsilon": 0.5, "max_groups": 1, "max_rows": 1, **query})
    with pytest.raises(InvalidFile, match='different columns, found "state" again'):
        parse(text_of(tables), "file.toml")


@of_each("query", [{"measure": "quantile"}, {"measure": "mode"}, {"measure": "top-k", "top": 1}])
def test_a_choice_by_its_own_column_is_refused_and_a_count_is_advised(query: Mapping[str, Any]) -> None:
    tables = document({"name": "q", "column": "age", "by": ["age"], "epsilon": 0.5, "max_groups": 1, "max_rows": 1, **query})
    with pytest.raises(InvalidFile, match=r'measure = "count" with by = \["age"\] counts the rows .*, found "age"'):
        parse(text_of(tables), "file.toml")


@of_each(
    "query, least",
    [
        ({"measure": "sum", "column": "age"}, -1),
        ({"measure": "mean", "column": "age"}, -1),
        ({"measure": "mean", "column": "age", "count": 100}, -1),
        ({"measure": "linear", "by": ["state"], "matrix": [[1, -1]], "max_groups": 1}, 0),
    ],
)
def test_what_may_be_negative_is_not_made_non_negative(query: Mapping[str, Any], least: int) -> None:
    """Its interval would hold the truth less often than it says."""
    tables = document({"name": "q", "epsilon": 1.0, "max_rows": 1, "postprocess": ["non-negative"], **query})
    tables["source"]["columns"] = {**tables["source"]["columns"], "age": {"type": "integer", "min": least, "max": 9}}
    with pytest.raises(InvalidFile, match="postprocess"):
        parse(text_of(tables), "file.toml")
    if query["measure"] != "linear":
        tables["source"]["columns"]["age"]["min"] = 0
        assert parse(text_of(tables), "file.toml").mechanisms


@of_each("matrix, actual", [([[0, 0], [0, 0]], "only zeros"), ([[1, 0], [1]], "lengths 1, 2"), ([], "no row")])
def test_a_matrix_without_meaning_is_refused_for_its_own_reason(matrix: list[list[int]], actual: str) -> None:
    query = {"measure": "linear", "by": ["state"], "matrix": matrix, "max_groups": 1}
    tables = document({"name": "q", "epsilon": 1.0, "max_rows": 1, **query})
    with pytest.raises(InvalidFile, match=f"rows of one length, not all zero, found {actual}"):
        parse(text_of(tables), "file.toml")


@of_each(
    "query, negative, words",
    [
        ({"max_rows": 2}, False, r"max_rows.*: expected no number with max_total, found 2"),
        ({}, True, r"min_total.*: expected the smallest total of one unit, as \"age\" may be negative, found none"),
        ({"min_total": 5}, False, r"max_total.*: expected at least one step of 1 above min_total = 5, found 5"),
        ({"max_total": 0.4}, False, r"max_total.*: expected at least one step of 1 above min_total = 0, found 0.4"),
        ({"max_total": 1e300}, False, r"max_total.*: expected below 2\^62 steps of 1 from 0, found 1e\+300"),
        ({"min_total": -1e308}, True, r"min_total.*: expected below 2\^62 steps of 1 from 0, found -1e\+308"),
        ({"column": "name"}, False, r"column.*: expected a column of numbers, found \"name\""),
        ({"min_total": -1, "postprocess": ["non-negative"]}, False, r"postprocess.*: expected non-negative only if"),
        (
            {"measure": "distinct", "max_total": None, "column": "day"},
            False,
            r"column.*: expected a column of type text, .*\"day\"",
        ),
        ({"measure": "distinct", "max_total": None, "by": ["age"]}, False, r"by.*: expected other columns than \"column\""),
    ],
)
def test_a_total_that_bounds_nothing_and_values_that_are_no_keys_are_refused(
    query: dict[str, Any], negative: bool, words: str
) -> None:
    asked = {"name": "q", "measure": "sum", "column": "age", "max_total": 5, "epsilon": 1.0, "max_groups": 1, **query}
    asked |= {"max_rows": 1} if asked["measure"] == "distinct" else {}
    tables = document({key: value for key, value in asked.items() if value is not None and (key != "max_groups" or "by" in asked)})
    age = {"type": "integer", "max": 9} if negative else COLUMNS["age"]
    tables["source"]["columns"] = {**COLUMNS, "age": age, "day": {"type": "date"}}
    with pytest.raises(InvalidFile, match=words):
        parse(text_of(tables), "file.toml")


def test_a_total_needs_no_bounds_of_its_column_and_costs_its_largest_end() -> None:
    """Of a replaced unit: twice the larger end where the keys differ, or the whole range in one key."""
    for adjacency, by, most in (
        ("add-remove", [], 7),
        ("replace-one", [], 10),
        ("add-remove", ["state"], 14),
        ("replace-one", ["state"], 28),
    ):
        query = {"name": "q", "measure": "sum", "column": "n", "min_total": -3, "max_total": 7, "epsilon": 1.0, "by": by}
        tables = document({**query, **({"max_groups": 2} if by else {})}, adjacency=adjacency)
        tables["source"]["columns"] = {**COLUMNS, "n": {"type": "integer"}}
        (entry,) = parse(text_of(tables), "file.toml").mechanisms
        assert entry.spec.sensitivity == most, (adjacency, by, entry)


EXTREME = (5e-324, 1e-300, 1e-9, 1e9, 1e300, 1.7e308)


@pytest.mark.sampled(0, 3)
@pytest.mark.parametrize(
    "numbers",
    [pytest.param((1e-9, 1e300), marks=pytest.mark.long), pytest.param(EXTREME, marks=pytest.mark.nightly)],
    ids=["two", "all"],
)
@pytest.mark.parametrize(
    "key", ["epsilon", "rho", "weight", "error", "within", "width", "max_total", "budget", "delta", "step", "max"]
)
@EACH
def test_an_extreme_number_is_refused_in_words_or_priced(table: Mapping[str, Any], key: str, numbers: tuple[float, ...]) -> None:
    """Never an error of arithmetic, never NaN, never over the budget that is shared."""
    for number in numbers:
        asked = {name: value for name, value in table.items() if key not in COSTS or name not in COSTS}
        stated: dict[str, Any] = {key: {"within": number} if key == "error" else number} if key in COSTS or key in table else {}
        tables = document({**asked, **stated})
        if key == "budget":
            tables["budget"]["epsilon"] = number
        if key in ("step", "max"):
            tables["source"]["columns"] = {name: {**own, key: number} if key in own else own for name, own in WIDE.items()}
        try:
            found = account(parse(text_of(tables), "file.toml"))
        except (InputError, InvalidFile):
            continue
        assert found.upper >= 0.0
        if "weight" in tables["query"][0] and found.budget is not None and found.winner is not None:
            assert found.budget.epsilon is not None and found.upper <= found.budget.epsilon.cap * (1.0 + 1e-9), tables


@of_each(
    "query, key",
    [
        ({"measure": "count", "by": ["day"], "keys": "threshold", "delta": 1e-9, "max_groups": 1}, "by[1]"),
        ({"measure": "count", "by": ["state", "spent"], "keys": "threshold", "delta": 1e-9, "max_groups": 1}, "by[2]"),
        ({"measure": "mode", "column": "day", "method": "propose-test-release", "delta": 1e-9, "max_groups": 1}, "column"),
        ({"measure": "top-k", "column": "city", "top": 5, "max_groups": 1}, "top"),
        ({"measure": "top-k", "column": "flag", "top": 3, "max_groups": 1}, "top"),
        ({"measure": "quantile", "column": "age", "quantiles": [0.5, 0.3333333333333]}, "quantiles[2]"),
    ],
)
def test_what_no_release_answers_is_refused_by_whoever_prices_it(query: Mapping[str, Any], key: str, tmp_path: Path) -> None:
    """A gate that passes shall not end in a refusal of dpcli release."""
    tables = document({"name": "q", "epsilon": 0.5, "max_rows": 1, **query})
    tables["source"]["columns"] = {**tables["source"]["columns"], "day": {"type": "date"}, "flag": {"type": "boolean"}}
    path = tmp_path / "file.toml"
    path.write_bytes(text_of(tables))
    result = dpcli("gate", str(path))
    assert result.code == 2 and f"query[1].{key}" in result.err + result.out, result

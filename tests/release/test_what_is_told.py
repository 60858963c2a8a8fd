"""Everything that is said about an answer is true of its noise: totals, limits, errors and intervals."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from dpcli.release.aggregate import Total
from dpcli.release.documents.release import completed_disclosure, plan_document, statement
from dpcli.release.documents.stability import document
from dpcli.release.noise import selection
from dpcli.release.noisy_answers import coverage
from dpcli.release.query_entries import PricedQuery
from dpcli.release.release_plan import ReleasePlan, plan_of
from dpcli.release.stability.mode_comparison import comparison_of
from tests.cases import fresh_random, of_each
from tests.inline import text_of
from tests.release.tables.files import COLUMNS, priced, queries
from tests.release.tables.files import document as file_of

pytestmark = pytest.mark.needs("opendp")
# Of a mode or a top-k by key, max_groups bounds the pairs of a key and a value.
BY_KEYS = [
    table
    for _, table in queries()
    if table.get("max_groups") and (table.get("by") or table.get("bins")) and table["measure"] not in ("mode", "top-k")
]


def plan(folder: Path, *tables: Mapping[str, Any], **privacy: Any) -> ReleasePlan:
    written = file_of(*tables)
    written["privacy"] = {key: value for key, value in {**written["privacy"], **privacy}.items() if value is not None}
    (folder / "file.toml").write_bytes(text_of(written))
    return plan_of(str(folder / "file.toml"))


def one(folder: Path, table: Mapping[str, Any], **privacy: Any) -> PricedQuery:
    return plan(folder, table, **privacy).queries[0]


@pytest.mark.long
@of_each("tidy", [(), ("non-negative",), ("non-negative", "whole"), ("whole",)])
def test_totals_add_up(tidy: tuple[str, ...], tmp_path: Path) -> None:
    """Whatever is done to the parts, of which most are near 0."""
    table = {"name": "q", "measure": "count", "by": ["city"], "totals": True, "epsilon": 0.2, "max_groups": 2, "max_rows": 2}
    asked = one(tmp_path, {**table, "postprocess": list(tidy)})
    for _ in range(300):
        exact = {(city,): Total(rows := fresh_random().randrange(20) * (place % 2), rows, ()) for place, city in enumerate("ABCD")}
        *parts, whole = (row.value for row in asked.query.answer(asked.setting, exact).rows)
        assert sum(parts) == whole and ("non-negative" not in tidy or min(parts) >= 0), (parts, whole)  # type: ignore[arg-type,type-var]


@pytest.mark.long
@of_each("table", BY_KEYS, told=lambda table: f"{table['measure']} {table['name']}")
def test_more_groups_than_keys_cost_nothing(table: Mapping[str, Any], tmp_path: Path) -> None:
    """What a unit cannot do is not paid for: noise and price are those of as many groups as there are keys."""
    domains = {"state": 2, "city": 4, "visitor": math.inf, "name": math.inf}
    keys = math.prod([*(domains[name] for name in table.get("by", ())), *([len(table["bins"]) - 1] if "bins" in table else [])])
    far = 10 + fresh_random().randrange(90)
    most, more = (one(tmp_path, {**table, "max_groups": groups}) for groups in (min(keys, far), far))
    assert most.mechanisms == more.mechanisms and most.query.aggregation(most.setting) == more.query.aggregation(more.setting)


def test_an_interval_names_the_bounds_beyond_which_rows_are_left_out() -> None:
    for _, table in queries():
        (one,) = priced(file_of(table))
        told = coverage(one.query)
        for bound in ("max_groups", "max_rows"):
            value = getattr(one.query, bound)
            assert (f"{bound} = {value}" in told) == (value is not None), table


@pytest.mark.long
def test_a_statement_says_of_which_answers_rows_are_not_drawn(tmp_path: Path) -> None:
    count, total, *means = (
        {"name": f"q{place}", "epsilon": 1.0, **table}
        for place, table in enumerate(
            [
                {"measure": "count", "max_rows": 2},
                {"measure": "sum", "column": "spent", "max_total": 900},
                *({"measure": measure, "column": "age", "max_rows": 2} for measure in ("sum", "mean", "variance")),
            ]
        )
    )
    told = "max_rows times their mean, rounded at random", "adds up all its rows"
    for tables, said in (([count], []), ([count, total], [1]), *(([mean], [0]) for mean in means), ([total, *means], [0, 1])):
        clipping = completed_disclosure(plan(tmp_path, *tables), ()).clipping or ""
        assert [place for place, words in enumerate(told) if words in clipping] == said, (clipping, tables)


@pytest.mark.long
def test_the_number_of_choices_is_told_beside_their_epsilon(tmp_path: Path) -> None:
    """An epsilon of one choice alone would be read as that of the query."""
    table = {"name": "q", "measure": "top-k", "column": "city", "top": 2, "by": ["state"], "epsilon": 1.0, "max_rows": 1}
    for groups, steps in ((1, 2), (9, 4)):
        found = plan(tmp_path, {**table, "max_groups": groups})
        told = f"(epsilon {1.0 / steps:g}, steps {steps})"
        assert told in str(plan_document(found)) and told in statement(found, ())


@pytest.mark.long
def test_no_number_of_contributions_is_asked_for_where_queries_bound_them(tmp_path: Path) -> None:
    """Nor does one that is stated change a price."""
    tables = [table for _, table in queries()]
    for number, table in enumerate(tables):
        (folder := tmp_path / str(number)).mkdir()
        found = [plan(folder, table, max_contributions=count) for count in (None, 1, 2 + fresh_random().randrange(50))]
        assert len({repr(each.account.upper) for each in found}) == 1, table


@of_each("measure", ["mean", "variance"])
@pytest.mark.parametrize("size", [None, 1200])
@pytest.mark.parametrize("by", [(), ("city",)])
def test_an_error_is_told_for_the_rows_of_a_key(measure: str, size: int | None, by: tuple[str, ...], tmp_path: Path) -> None:
    table = {"name": "q", "measure": measure, "column": "age", "epsilon": 1.0, "max_groups": 1, "max_rows": 1, "by": list(by)}
    if not by:
        del table["by"], table["max_groups"]
    asked = one(tmp_path, table, dataset_size=size)
    said = asked.query.expected_error(asked.setting)
    rows = 1000 if size is None else size // (4 if by else 1)
    assert f"{rows:,} rows" in said and ("in a key" in said) == bool(by), said
    unstated = one(tmp_path, table)
    assert figure(said) * rows == pytest.approx(1000 * figure(unstated.query.expected_error(unstated.setting)), rel=0.02)


def figure(said: str) -> float:
    """Return the number that an error is said to be within."""
    return float(re.findall(r"(?:about|at least) ([0-9.]+)", said)[0])


def test_an_interquartile_range_is_not_below_0(tmp_path: Path) -> None:
    table = {
        "name": "q",
        "measure": "interquartile-range",
        "column": "spent",
        "within": 10,
        "epsilon": 1.0,
        "delta": 1e-7,
        "max_rows": 1,
    }
    asked = one(tmp_path, table)
    rows = {(5000,): Total(4000, 4000, ())}
    for _ in range(50):
        (row,) = asked.query.answer(asked.setting, rows).rows
        if row.value is not None:
            assert row.lower is not None and 0.0 <= row.lower <= row.value  # type: ignore[operator]


def test_a_comparison_is_made_at_the_confidence_of_the_query_that_it_is_of(tmp_path: Path) -> None:
    """In every table and picture, wherever in the file the query stands."""
    mode = {"name": "mode", "measure": "mode", "column": "name", "method": "propose-test-release", "epsilon": 0.5, "delta": 1e-6}
    count = {"name": "count", "measure": "count", "epsilon": 0.5, "max_rows": 1, "confidence": 0.7}
    asked = plan(tmp_path, count, {**mode, "max_groups": 1, "max_rows": 1, "confidence": 0.85}).queries
    found = document(comparison_of(asked, "file.toml"))
    told = repr((found.headline, found.tables, found.pictures))
    assert "probability 0.85" in told and "probability 0.95" not in told and "probability 0.7" not in told


CHOOSING = {"exponential", "permute-and-flip"}


def chosen(table: Mapping[str, Any]) -> list[Any]:
    """The question of a table with its setting, where all that it releases is a choice."""
    return [one for one in priced(file_of(table)) if {release.type for release in one.mechanisms} <= CHOOSING]


CHOICES = [(name, table) for name, table in queries() if chosen(table)]


def held(scores: Sequence[int], *_: Any) -> int:
    return len(scores) // 2


def first(scores: Sequence[int], k: int, *_: Any) -> list[int]:
    return list(range(k))


@pytest.mark.parametrize(("name", "table"), CHOICES, ids=[name for name, _ in CHOICES])
def test_an_answer_tells_what_was_chosen_and_nothing_else(
    name: str, table: Mapping[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for choose, instead in (("exponential", held), ("permute_and_flip", held), ("top_k", first)):
        monkeypatch.setattr(selection, choose, instead)
    (one,) = chosen(table)
    keys: list[Any] = COLUMNS[table["column"]].get("domain") or list(range(20, 60))
    groups = list(itertools.product(*(COLUMNS[name]["domain"] for name in table.get("by", ()))))
    answers = [
        one.query.answer(
            one.setting, {(*group, key): Total(count, count, ()) for group in groups for count, key in enumerate(keys, start)}
        )
        for start in (1, 1000)
    ]
    assert len(answers[0].rows) == len(groups) * table.get("top", 1) * len(table.get("quantiles", (0.5,)))
    assert repr(answers[0]) == repr(answers[1])


def test_every_measure_that_chooses_is_asked() -> None:
    assert {name.rpartition("-")[0] for name, _ in CHOICES} >= {"mode", "quantile", "top-k"}

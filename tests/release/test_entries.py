"""Entries of queries, the fingerprint by which a folder knows its release again, and sensitivity by brute force."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dpcli.analysis.account import account
from dpcli.base.errors import InputError
from dpcli.file.pipeline.canonical import pipeline_from, tables_of
from dpcli.file.pipeline.model import Entry
from dpcli.file.pipeline.read import parse, section
from dpcli.file.toml.findings import InvalidFile
from dpcli.mechanisms.neighbours import Adjacency
from dpcli.release.aggregate import MOST_ROWS
from dpcli.release.column_values import value_problems
from dpcli.release.data_source import Column, Source
from dpcli.release.query_entries import priced_queries
from dpcli.release.release_plan import ReleasePlan
from dpcli.release.vectors import Contribution, sensitivity
from tests.cases import by_tier, of_each
from tests.inline import text_of
from tests.release.tables.files import BY_UNIT, document, priced, queries

QUERIES = dict(queries())
EACH = of_each("table", QUERIES.values(), told=lambda table: f"{table['measure']} {table['name']}")
CHEAP = {"measure": "count", "of": "units", "epsilon": 1e-4}


@EACH
def test_no_query_is_paid_for_by_another_of_its_mechanisms_name(table: Mapping[str, Any]) -> None:
    """A test that is followed by noise names it: found under the name of a cheaper query, the noise would be free."""
    data = text_of(document(table))
    for entry in parse(data, "file.toml").mechanisms:
        with pytest.raises(InvalidFile, match="again"):
            parse(text_of(document(table, {"name": entry.name, **CHEAP})), "file.toml")
        with pytest.raises(InvalidFile, match="again"):
            parse(text_of(document({"name": entry.name, **CHEAP}, table)), "file.toml")


def test_two_mechanisms_of_one_name_are_not_priced() -> None:
    pipeline = parse(text_of(document({"name": "q", **CHEAP})), "file.toml")
    with pytest.raises(InputError, match="two of the same name"):
        account(replace(pipeline, mechanisms=pipeline.mechanisms * 2))


@of_each("weight", [5e-324, 1e-300, 0.1, 3.0, 1e300, 1.7e308])
@pytest.mark.parametrize("others", by_tier(1, 4, None))
def test_weights_are_shares_whatever_their_size(weight: float, others: int) -> None:
    """Equal ones share the budget equally, and never more than all of it."""
    tables = [{"name": f"q{place}", "measure": "count", "max_rows": 1} for place in range(1 + others)]
    found, expected = (
        parse(text_of(document(*({**table, "weight": each} for table in tables))), "file.toml") for each in (weight, 1)
    )
    assert found.mechanisms == expected.mechanisms
    assert account(found).upper <= 50.0


@EACH
def test_of_a_unit_with_one_row_the_bounds_need_not_be_stated(table: Mapping[str, Any]) -> None:
    """They are 1: in the price, and in what the engine lets count, however many rows a unit has in truth. Of others they are asked for."""
    bounds = {name: 1 for name in table if name in BY_UNIT}
    silent = {name: value for name, value in table.items() if name not in BY_UNIT}
    one, two = ({"adjacency": "add-remove", "delta": 1e-6, "unit": "visitor", "max_contributions": most} for most in (1, 2))
    assert entries_of({**silent, **bounds}, one) == entries_of(silent, one)
    (asked,) = priced(document(silent, privacy=one))
    aggregation = asked.query.aggregation(asked.setting)
    whole = table.get("of") == "units" or "max_total" in table  # whatever rows a unit has
    most = MOST_ROWS if whole else 1
    assert (aggregation.max_rows, aggregation.max_groups) == (most, 1)
    if bounds:
        with pytest.raises(InvalidFile, match="max_"):
            entries_of(silent, two)


def entries_of(table: Mapping[str, Any], privacy: Mapping[str, Any]) -> tuple[Entry, ...]:
    return parse(text_of(document(table, privacy=privacy)), "file.toml").mechanisms


@pytest.mark.long
@EACH
@of_each("limit", [10**6, 10**18])
def test_what_a_ledger_remembers_is_priced_alike(table: Mapping[str, Any], limit: int) -> None:
    """Or the file is refused: nothing that a ledger could not read again is charged."""
    large = {key: limit for key in ("max_rows", "max_groups") if key in table}
    try:
        pipeline = parse(text_of(document({**table, **large})), "file.toml")
    except InvalidFile:
        return
    again = pipeline_from(tables_of(pipeline))
    assert tables_of(again) == tables_of(pipeline)
    assert account(again).upper == account(pipeline).upper


@of_each(
    "column",
    [
        {"type": "integer", "min": 0, "max": 10**7},
        {"type": "integer", "min": 0.2, "max": 0.7},
        {"type": "integer", "min": 0, "max": 10, "step": 2},
        {"type": "integer", "min": 0},
        {"type": "integer"},
        {"type": "text"},
        {"type": "decimal", "min": 0, "max": 3, "step": 1},
        {"type": "date"},
    ],
)
@EACH
def test_keys_of_a_column_that_lists_none_are_never_taken_from_the_data(
    table: Mapping[str, Any], column: Mapping[str, Any]
) -> None:
    """Whatever does not price the showing of keys is refused, or asks of listed ones."""
    tables = document({**table, **({"by": ["state"]} if "by" in table else {})})
    for name in ("state", "city"):
        tables["source"]["columns"] = {**tables["source"]["columns"], name: column}
    try:
        pipeline = parse(text_of(tables), "file.toml")
    except InvalidFile:
        return
    priced = {"stability-histogram", "propose-test-release"} & {entry.type for entry in pipeline.mechanisms}
    assert priced or not {"state", "city"} & {*table.get("by", ()), table.get("column")}


KNOWN = Path(__file__).resolve().parent.parent / "vectors" / "release-fingerprints.json"


def fingerprint(adjacency: str, by_unit: bool, table: Any) -> str:
    data = text_of(document(table, adjacency=adjacency, by_unit=by_unit))
    pipeline = parse(data, "file.toml")
    source, query = section(data, "file.toml", "source"), section(data, "file.toml", "query")
    account: Any = None  # no part of it
    return ReleasePlan(
        "file.toml", pipeline, account, source, priced_queries(source, query, pipeline.privacy, pipeline.budget)
    ).fingerprint()


@pytest.mark.parametrize("adjacency", [Adjacency.ADD_REMOVE.value, Adjacency.REPLACE_ONE.value])
def test_a_release_that_was_stored_is_known_again(adjacency: str) -> None:
    """Its fingerprint holds the noise to the last bit: where that must change, so that what is stored is refused, record it anew.

    Not of costs that are solved for, whose last bit may depend on the machine.
    """
    stated = [(name, table) for name, table in queries() if "weight" not in table and "error" not in table]
    found = {name: [fingerprint(adjacency, by_unit, table) for by_unit in (True, False)] for name, table in stated}
    assert len(found) > 15 and found == json.loads(KNOWN.read_text())[adjacency]


KEYS = 3


def versions(contribution: Contribution) -> Iterator[tuple[int, ...]]:
    """What one unit can add to each key, over all rows that it may have."""
    keys = 1 if contribution.one_key else KEYS
    values = range(contribution.least, contribution.most + 1)
    counts = [contribution.rows] if contribution.one_row_always else range(contribution.rows + 1)
    sums = sorted({sum(rows) for count in counts for rows in itertools.combinations_with_replacement(values, count)})
    for added in itertools.product(sums, repeat=keys):
        touched = sum(1 for each in added if each != 0)
        if touched <= (1 if contribution.one_key else contribution.groups):
            yield added


CASES = [
    Contribution(groups, rows, least, most, one_key=one_key)
    for groups, rows, (least, most), one_key in itertools.product(
        (1, 2), (1, 2), ((1, 1), (0, 3), (-1, 2), (-2, -1), (2, 3)), (False, True)
    )
    if not (one_key and groups > 1)
] + [
    Contribution(1, 1, least, most, one_row_always=True, one_key=True)
    for least, most in ((1, 1), (0, 3), (-1, 2), (-3, -1), (2, 3))
]


@of_each("adjacency", list(Adjacency), told=lambda adjacency: adjacency.value)
@of_each("contribution", CASES)
def test_no_unit_moves_a_vector_further_than_is_said(contribution: Contribution, adjacency: Adjacency) -> None:
    """And some unit moves it as far, where there are keys enough for the two versions to lie apart."""
    stated = sensitivity(adjacency, contribution)
    all_versions = list(versions(contribution))
    nothing = tuple(0 for _ in all_versions[0])
    pairs = itertools.product(all_versions, all_versions if adjacency is Adjacency.REPLACE_ONE else [nothing])
    moved = [[abs(a - b) for a, b in zip(old, new, strict=True)] for old, new in pairs]
    l1, squared = max(map(sum, moved)), max(sum(each * each for each in one) for one in moved)
    coordinates = max(sum(1 for each in one if each) for one in moved)
    assert (
        l1 <= stated.l1 and squared <= stated.squared_l2 <= stated.l2**2 * (1 + 1e-12) and coordinates <= max(stated.coordinates, 1)
    )
    if contribution.one_key or adjacency is not Adjacency.REPLACE_ONE or contribution.groups == 1:
        assert (l1, squared) == (stated.l1, stated.squared_l2)


@of_each("bounds, declared", [({}, "neither"), ({"min": 0.0}, "only min"), ({"max": 9.0}, "only max")])
def test_a_message_says_which_bound_of_a_column_is_declared(bounds: Mapping[str, Any], declared: str) -> None:
    source = Source(columns={"age": Column(type="integer", **bounds)})
    ((_, _, wrong),) = value_problems(source, "column", "age", 1)
    assert wrong == f'"age", which declares {declared}'

"""Queries as mechanisms: each is paid for, by every reader of the file, and can be read again from a ledger."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from dpcli.analysis.account import account
from dpcli.errors import InputError
from dpcli.pipeline.canonical import pipeline_from, tables_of
from dpcli.pipeline.read import parse
from dpcli.toml.render import InvalidFile
from tests.cases import of_each
from tests.inline import text_of
from tests.release.files import document, queries

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
    with pytest.raises(InputError, match="two of one"):
        account(replace(pipeline, mechanisms=pipeline.mechanisms * 2))


@of_each("weight", [5e-324, 1e-300, 0.1, 3.0, 1e300, 1.7e308])
@of_each("others", [1, 4])
def test_weights_are_shares_whatever_their_size(weight: float, others: int) -> None:
    """Equal ones share the budget equally, and never more than all of it."""
    tables = [{"name": f"q{place}", "measure": "count", "max_rows": 1} for place in range(1 + others)]
    found, expected = (
        parse(text_of(document(*({**table, "weight": each} for table in tables))), "file.toml") for each in (weight, 1)
    )
    assert found.mechanisms == expected.mechanisms
    assert account(found).upper <= 50.0


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

"""Other commands about a file with queries; and a key that only one unit has."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from dpcli.analysis.account import account
from dpcli.file.pipeline.read import parse
from dpcli.release.aggregate import Total
from tests.cases import of_each
from tests.command import dpcli
from tests.inline import text_of
from tests.release.tables.files import document, priced, queries

COSTS = ("error", "weight", "noise")


def affordable(table: Mapping[str, Any], name: str) -> dict[str, Any]:
    """A query with a cost of its own: a weight cannot stand beside an error."""
    plain = {key: value for key, value in table.items() if key not in COSTS}
    return {**plain, "name": name} if "rho" in plain or "epsilon" in plain else {**plain, "name": name, "epsilon": 0.3}


ALL = [affordable(table, label) for label, table in queries()]
FIRST = [table for table in ALL if table["name"].endswith("-0")]  # of each measure one


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with an example of every measure."""
    found = tmp_path_factory.mktemp("release") / "file.toml"
    found.write_bytes(text_of(with_delta(document(*FIRST, budget={"epsilon": 60.0}, name="visits"))))
    return found


def with_delta(tables: dict[str, Any], delta: float = 1e-4) -> dict[str, Any]:
    """More than the queries' own deltas."""
    return {**tables, "privacy": {**tables["privacy"], "delta": delta}}


def test_deltas_of_queries_that_leave_nothing_are_refused_by_name(tmp_path: Path) -> None:
    file = tmp_path / "file.toml"
    file.write_bytes(text_of(with_delta(document(*ALL), 1e-6)))
    result = dpcli("account", str(file))
    assert result.code == 2 and "privacy.delta" in result.err and "deltas" in result.err


@pytest.mark.long
@of_each("command", ["account", "lint", "gate", "release --dry-run", "explain query"])
def test_commands_read_it(command: str, path: Path) -> None:
    result = dpcli(*command.split(), str(path))
    assert result.code == 0, result.err
    assert "internal error" not in result.err


@pytest.mark.nightly
@pytest.mark.long
def test_a_report_and_an_explanation_are_of_every_query(path: Path) -> None:
    assert dpcli("explain", str(path)).code == 0
    found = dpcli("report", str(path), "-f", "json")
    assert found.code == 0, found.err
    assert all(table["name"] in found.out for table in FIRST)


@pytest.mark.long
@of_each("change", [{"rho": 0.03}, {"where": "age >= 21"}, {"max_rows": 3}, {"by": ["city"]}])
def test_a_change_of_a_query_is_told_with_its_cost(change: dict[str, Any], tmp_path: Path) -> None:
    before, after = tmp_path / "before.toml", tmp_path / "after.toml"
    query = {"name": "q", "measure": "count", "by": ["state"], "where": "age >= 18", "rho": 0.02, "max_groups": 2, "max_rows": 2}
    before.write_bytes(text_of(document(query)))
    after.write_bytes(text_of(document({**query, **change})))
    result = dpcli("diff", str(before), str(after), "-f", "json")
    (one,) = json.loads(result.out)["changes"]
    increase = account(parse(after.read_bytes(), "a")).upper - account(parse(before.read_bytes(), "b")).upper
    assert result.code == 0 and one["increase"] == pytest.approx(increase, abs=1e-12), result.out


@pytest.mark.long
@pytest.mark.needs("opendp")
def test_an_interval_that_holds_less_often_where_it_is_shown_says_so() -> None:
    """Of a key that one unit holds: it is shown only where its noise was high."""
    query = {"name": "q", "measure": "count", "of": "units", "by": ["name"], "keys": "threshold", "max_groups": 1}
    (one,) = priced(with_delta(document({**query, "epsilon": 1.0, "delta": 0.01}), 0.5))
    answers = [one.query.answer(one.setting, {("Ann",): Total(1, 1, ())}) for _ in range(2000)]
    shown = [row for answer in answers for row in answer.rows]
    held = sum(1 for row in shown if row.lower is not None and row.lower <= 1)
    assert shown and held < 0.5 * len(shown)
    assert "confidence is lower than stated" in answers[0].covers and "not far above 5 is" in answers[0].covers

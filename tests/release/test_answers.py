"""Whole releases of a small table: with hardly any noise the answers are the truth, which is computed here in plain Python."""

from __future__ import annotations

import csv
import json
import random
import statistics
from collections import Counter
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from dpcli.release.release_plan import plan_of
from dpcli.release.release_run import release
from tests.command import dpcli
from tests.inline import text_of
from tests.release.files import document

pytestmark = pytest.mark.needs("duckdb", "opendp", "sqlglot")
UNITS = 400
PLENTY = {"epsilon": 500.0}
ONE = {"max_groups": 1, "max_rows": 1}


def people(path: Path) -> list[dict[str, Any]]:
    """One row each, written as csv."""
    chance = random.Random(5)
    rows = [
        {
            "visitor": f"v{number}",
            "state": chance.choice(["CA", "CA", "NY", "TX"]),
            "city": chance.choice("AAABBC"),
            "name": chance.choice(["Ann", "Ann", "Ann", "Ann", "Bob"]),
            "age": chance.randint(10, 90),
            "spent": round(chance.lognormvariate(3.0, 0.4), 2),
        }
        for number in range(UNITS)
    ]
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return rows


ASKED: dict[str, dict[str, Any]] = {
    "states": {"measure": "count", "by": ["state"], "totals": True, **ONE},
    "adults": {"measure": "count", "where": "age >= 18 AND state IN ('CA', 'TX')", "max_rows": 1},
    "names": {"measure": "count", "of": "units", "by": ["name"], "keys": "threshold", "delta": 1e-9, "max_groups": 1},
    "spent": {"measure": "sum", "column": "spent", "epsilon": 5e5, "max_rows": 1},
    "mean": {"measure": "mean", "column": "age", "epsilon": 1e4, "max_rows": 1},
    "variance": {"measure": "variance", "column": "age", "epsilon": 1e6, "max_rows": 1},
    "ages": {"measure": "histogram", "column": "age", "bins": [10, 18, 65, 90], **ONE},
    "quantiles": {"measure": "quantile", "column": "age", "quantiles": [0.25, 0.5], "max_rows": 1},
    "mode": {"measure": "mode", "column": "city", **ONE},
    "tested-mode": {"measure": "mode", "column": "city", "method": "propose-test-release", "delta": 1e-9, **ONE},
    "top": {"measure": "top-k", "column": "city", "top": 3, **ONE},
    "reached": {"measure": "threshold", "column": "city", "above": 100, "answers": 2, **ONE},
    "linear": {"measure": "linear", "by": ["state"], "matrix": [[1, 0], [1, 1], [2, -1]], **ONE},
    "median": {"measure": "stable-quantile", "column": "spent", "within": 2, "delta": 1e-9, "max_rows": 1},
    "middle": {"measure": "interquartile-range", "column": "spent", "within": 4, "delta": 1e-9, "max_rows": 1},
    "clustered": {"measure": "clustered-mean", "column": "spent", "width": 100, "epsilon": 20.0, "delta": 1e-9, "max_rows": 1},
}
Rows = list[dict[str, Any]]


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> tuple[Rows, dict[str, Rows]]:
    """(rows of the table, rows of each answer): all of them of one release, which is priced once."""
    folder = tmp_path_factory.mktemp("answers")
    rows = people(folder / "visits.csv")
    tables = document(*({"name": name, **PLENTY, **query} for name, query in ASKED.items()), budget={"epsilon": 1e7})
    tables["source"]["output"] = str(folder / "out")
    (folder / "file.toml").write_bytes(text_of(tables))
    with mock.patch("dpcli.release.documents.release.statement", return_value=""):  # of so many queries it takes longest
        found = release(plan_of(str(folder / "file.toml"))).answers
    return rows, {
        name: [{"key": row.key, "value": row.value, "low": row.lower, "high": row.upper} for row in answer.rows]
        for name, answer in zip(ASKED, found, strict=True)
    }


@pytest.fixture(scope="module")
def rows(released: tuple[Rows, dict[str, Rows]]) -> Rows:
    return released[0]


@pytest.fixture(scope="module")
def found(released: tuple[Rows, dict[str, Rows]]) -> dict[str, Rows]:
    return released[1]


def by_key(found: Rows) -> dict[Any, Any]:
    return {row["key"]: row["value"] for row in found}


@pytest.mark.long
def test_counts_by_declared_keys_and_their_total(rows: Rows, found: dict[str, Rows]) -> None:
    truth = Counter(row["state"] for row in rows)
    assert by_key(found["states"]) == {("CA",): truth["CA"], ("NY",): truth["NY"], ("total",): truth["CA"] + truth["NY"]}


@pytest.mark.long
def test_counts_where(rows: Rows, found: dict[str, Rows]) -> None:
    assert by_key(found["adults"]) == {(): sum(row["age"] >= 18 and row["state"] in ("CA", "TX") for row in rows)}


def test_keys_that_many_hold(rows: Rows, found: dict[str, Rows]) -> None:
    assert by_key(found["names"]) == {(name,): count for name, count in Counter(row["name"] for row in rows).items()}


def test_a_sum(rows: Rows, found: dict[str, Rows]) -> None:
    assert found["spent"][0]["value"] == pytest.approx(sum(row["spent"] for row in rows), abs=0.05)


def test_a_mean_and_a_variance(rows: Rows, found: dict[str, Rows]) -> None:
    assert found["mean"][0]["value"] == pytest.approx(statistics.fmean(row["age"] for row in rows), abs=0.05)
    assert found["variance"][0]["value"] == pytest.approx(statistics.pvariance([row["age"] for row in rows]), rel=0.01)


def test_a_histogram(rows: Rows, found: dict[str, Rows]) -> None:
    ages = [row["age"] for row in rows]
    truth = {
        ("[10, 18)",): sum(age < 18 for age in ages),
        ("[18, 65)",): sum(18 <= age < 65 for age in ages),
        ("[65, 90]",): sum(age >= 65 for age in ages),
    }
    assert by_key(found["ages"]) == truth


def test_quantiles(rows: Rows, found: dict[str, Rows]) -> None:
    ages = sorted(row["age"] for row in rows)
    for row, share in zip(found["quantiles"], (0.25, 0.5), strict=True):
        assert ages[int(share * UNITS) - 12] <= row["value"] <= ages[int(share * UNITS) + 12]


@pytest.mark.parametrize("name", ["mode", "tested-mode"])
def test_the_most_common_value(name: str, found: dict[str, Rows]) -> None:
    assert by_key(found[name]) == {(): "A"}


def test_the_most_common_values_in_order(found: dict[str, Rows]) -> None:
    assert [row["value"] for row in found["top"]] == ["A", "B", "C"]


def test_which_counts_reach_a_threshold(found: dict[str, Rows]) -> None:
    assert by_key(found["reached"]) == {("A",): True, ("B",): True}


def test_weighted_sums_of_counts(rows: Rows, found: dict[str, Rows]) -> None:
    truth = Counter(row["state"] for row in rows)
    assert [row["value"] for row in found["linear"]] == [truth["CA"], truth["CA"] + truth["NY"], 2 * truth["CA"] - truth["NY"]]


def test_numbers_by_propose_test_release(rows: Rows, found: dict[str, Rows]) -> None:
    spent = [row["spent"] for row in rows]
    quarters = statistics.quantiles(spent)
    truth = {"median": statistics.median(spent), "middle": quarters[2] - quarters[0], "clustered": statistics.fmean(spent)}
    for name, value in truth.items():
        assert found[name][0]["value"] == pytest.approx(value, abs=1.0), name


def test_what_is_done_afterwards_is_named(tmp_path: Path) -> None:
    people(tmp_path / "visits.csv")
    query = {"name": "q", "measure": "count", "where": "age > 200", "epsilon": 0.1, "max_rows": 1, "postprocess": ["non-negative"]}
    tables = document(query)
    tables["source"]["output"] = str(tmp_path / "out")
    (tmp_path / "file.toml").write_bytes(text_of(tables))
    result = dpcli("release", str(tmp_path / "file.toml"), "-f", "json")
    assert result.code == 0, result.err
    (answer,) = json.loads(result.out)["answers"]
    assert answer["rows"][0]["value"] >= 0 and answer["rows"][0]["lower"] >= 0
    assert answer["postprocessed"][0].startswith("non-negative")

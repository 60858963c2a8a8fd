"""Whole releases of a small table: with hardly any noise the answers are the truth, which is computed here in plain Python."""

from __future__ import annotations

import csv
import json
import random
import statistics
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from dpcli.release.release_plan import plan_of
from dpcli.release.release_run import release
from tests.command import dpcli
from tests.inline import text_of
from tests.release.tables.files import document

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
    "totals": {"measure": "sum", "column": "age", "by": ["state"], "max_total": 30, "epsilon": 5e5, "max_groups": 1},
    "distinct": {"measure": "distinct", "column": "name", "max_rows": 1},
    "mean": {"measure": "mean", "column": "age", "epsilon": 1e4, "max_rows": 1},
    "variance": {"measure": "variance", "column": "age", "epsilon": 1e6, "max_rows": 1},
    "ages": {"measure": "histogram", "column": "age", "bins": [10, 18, 65, 90], **ONE},
    "quantiles": {"measure": "quantile", "column": "age", "quantiles": [0.25, 0.5], "max_rows": 1},
    "medians": {"measure": "quantile", "column": "age", "by": ["state"], **ONE},
    "mode": {"measure": "mode", "column": "city", **ONE},
    "tested-mode": {"measure": "mode", "column": "city", "method": "propose-test-release", "delta": 1e-9, **ONE},
    "modes": {"measure": "mode", "column": "city", "by": ["state"], **ONE},
    "top": {"measure": "top-k", "column": "city", "top": 3, **ONE},
    "tops": {"measure": "top-k", "column": "city", "by": ["state"], "top": 2, **ONE},
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


def states(rows: Rows) -> Counter[str]:
    return Counter(row["state"] for row in rows)


# What each answer is, from the rows of the table, and how far from it the answer may be.
EXACT: dict[str, Callable[[Rows], Any]] = {
    "states": lambda rows: {
        ("CA",): states(rows)["CA"],
        ("NY",): states(rows)["NY"],
        ("total",): states(rows)["CA"] + states(rows)["NY"],
    },
    "adults": lambda rows: {(): sum(row["age"] >= 18 and row["state"] in ("CA", "TX") for row in rows)},
    "names": lambda rows: {(name,): count for name, count in Counter(row["name"] for row in rows).items()},
    "ages": lambda rows: {
        ("[10, 18)",): sum(row["age"] < 18 for row in rows),
        ("[18, 65)",): sum(18 <= row["age"] < 65 for row in rows),
        ("[65, 90]",): sum(row["age"] >= 65 for row in rows),
    },
    "totals": lambda rows: {(state,): sum(min(row["age"], 30) for row in rows if row["state"] == state) for state in ("CA", "NY")},
    "distinct": lambda rows: {(): len({row["name"] for row in rows})},
    "mode": lambda _: {(): "A"},
    "tested-mode": lambda _: {(): "A"},
    "modes": lambda _: {("CA",): "A", ("NY",): "A"},
    "tops": lambda _: {(state, place): city for state in ("CA", "NY") for place, city in ((1, "A"), (2, "B"))},
    "top": lambda _: {(1,): "A", (2,): "B", (3,): "C"},
    "reached": lambda _: {("A",): True, ("B",): True},
    "linear": lambda rows: {
        (1,): states(rows)["CA"],
        (2,): states(rows)["CA"] + states(rows)["NY"],
        (3,): 2 * states(rows)["CA"] - states(rows)["NY"],
    },
}
CLOSE: dict[str, tuple[str, Callable[[list[float]], float], float]] = {
    "spent": ("spent", sum, 0.05),
    "mean": ("age", statistics.fmean, 0.05),
    "variance": ("age", statistics.pvariance, 5.0),
    "median": ("spent", statistics.median, 1.0),
    "middle": ("spent", lambda spent: statistics.quantiles(spent)[2] - statistics.quantiles(spent)[0], 1.0),
    "clustered": ("spent", statistics.fmean, 1.0),
}


@pytest.mark.parametrize("name", EXACT)
def test_an_answer_is_the_truth(name: str, released: tuple[Rows, dict[str, Rows]]) -> None:
    rows, found = released
    assert {row["key"]: row["value"] for row in found[name]} == EXACT[name](rows)


@pytest.mark.parametrize("name", CLOSE)
def test_a_number_is_near_the_truth(name: str, released: tuple[Rows, dict[str, Rows]]) -> None:
    rows, found = released
    column, truth, far = CLOSE[name]
    assert found[name][0]["value"] == pytest.approx(truth([row[column] for row in rows]), abs=far)


def test_quantiles(released: tuple[Rows, dict[str, Rows]]) -> None:
    rows, found = released
    ages = sorted(row["age"] for row in rows)
    for row, share in zip(found["quantiles"], (0.25, 0.5), strict=True):
        assert ages[int(share * UNITS) - 12] <= row["value"] <= ages[int(share * UNITS) + 12]


def test_a_median_of_each_key(released: tuple[Rows, dict[str, Rows]]) -> None:
    rows, found = released
    assert [row["key"] for row in found["medians"]] == [("CA", "0.5"), ("NY", "0.5")]
    for row in found["medians"]:
        ages = sorted(each["age"] for each in rows if each["state"] == row["key"][0])
        assert ages[len(ages) // 2 - 12] <= row["value"] <= ages[len(ages) // 2 + 12]


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

"""Whole releases of a small table: with hardly any noise the answers are the truth, which is computed here in plain Python."""

from __future__ import annotations

import csv
import json
import random
import statistics
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from dpcli.release.plan import plan_of
from dpcli.release.run import release
from tests.command import dpcli
from tests.pipeline.test_every_key import text_of
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


def answers(folder: Path, **query: Any) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """(rows of the table, rows of the answer)."""
    rows = people(folder / "visits.csv")
    tables = document({"name": "q", **PLENTY, **query}, budget={"epsilon": 1e6})
    tables["source"]["output"] = str(folder / "out")
    (folder / "file.toml").write_bytes(text_of(tables))
    (answer,) = release(plan_of(str(folder / "file.toml"))).answers
    return rows, [{"key": row.key, "value": row.value, "low": row.lower, "high": row.upper} for row in answer.rows]


def by_key(found: list[dict[str, Any]]) -> dict[Any, Any]:
    return {row["key"]: row["value"] for row in found}


def test_counts_by_declared_keys_and_their_total(tmp_path: Path) -> None:
    rows, found = answers(tmp_path, measure="count", by=["state"], totals=True, **ONE)
    truth = Counter(row["state"] for row in rows)
    assert by_key(found) == {("CA",): truth["CA"], ("NY",): truth["NY"], ("total",): truth["CA"] + truth["NY"]}


def test_counts_where(tmp_path: Path) -> None:
    rows, found = answers(tmp_path, measure="count", where="age >= 18 AND state IN ('CA', 'TX')", max_rows=1)
    assert by_key(found) == {(): sum(row["age"] >= 18 and row["state"] in ("CA", "TX") for row in rows)}


def test_keys_that_many_hold(tmp_path: Path) -> None:
    rows, found = answers(tmp_path, measure="count", of="units", by=["name"], keys="threshold", delta=1e-9, max_groups=1)
    assert by_key(found) == {(name,): count for name, count in Counter(row["name"] for row in rows).items()}


def test_a_sum(tmp_path: Path) -> None:
    rows, found = answers(tmp_path, measure="sum", column="spent", epsilon=5e5, max_rows=1)
    assert found[0]["value"] == pytest.approx(sum(row["spent"] for row in rows), abs=0.05)


def test_a_mean_and_a_variance(tmp_path: Path) -> None:
    rows, found = answers(tmp_path, measure="mean", column="age", epsilon=1e4, max_rows=1)
    assert found[0]["value"] == pytest.approx(statistics.fmean(row["age"] for row in rows), abs=0.05)
    (tmp_path / "second").mkdir()
    rows, found = answers(tmp_path / "second", measure="variance", column="age", epsilon=1e6, max_rows=1)
    assert found[0]["value"] == pytest.approx(statistics.pvariance([row["age"] for row in rows]), rel=0.01)


def test_a_histogram(tmp_path: Path) -> None:
    rows, found = answers(tmp_path, measure="histogram", column="age", bins=[10, 18, 65, 90], **ONE)
    ages = [row["age"] for row in rows]
    truth = {
        ("[10, 18)",): sum(age < 18 for age in ages),
        ("[18, 65)",): sum(18 <= age < 65 for age in ages),
        ("[65, 90]",): sum(age >= 65 for age in ages),
    }
    assert by_key(found) == truth


def test_quantiles(tmp_path: Path) -> None:
    rows, found = answers(tmp_path, measure="quantile", column="age", quantiles=[0.25, 0.5], max_rows=1)
    ages = sorted(row["age"] for row in rows)
    for row, share in zip(found, (0.25, 0.5), strict=True):
        assert ages[int(share * UNITS) - 12] <= row["value"] <= ages[int(share * UNITS) + 12]


@pytest.mark.parametrize("query", [{}, {"method": "propose-test-release", "delta": 1e-9}], ids=["noisy-max", "test"])
def test_the_most_common_value(query: Mapping[str, Any], tmp_path: Path) -> None:
    _, found = answers(tmp_path, measure="mode", column="city", **ONE, **query)
    assert by_key(found) == {(): "A"}


def test_the_most_common_values_in_order(tmp_path: Path) -> None:
    _, found = answers(tmp_path, measure="top-k", column="city", top=3, **ONE)
    assert [row["value"] for row in found] == ["A", "B", "C"]


def test_which_counts_reach_a_threshold(tmp_path: Path) -> None:
    _, found = answers(tmp_path, measure="threshold", column="city", above=100, answers=2, **ONE)
    assert by_key(found) == {("A",): True, ("B",): True}


def test_weighted_sums_of_counts(tmp_path: Path) -> None:
    rows, found = answers(tmp_path, measure="linear", by=["state"], matrix=[[1, 0], [1, 1], [2, -1]], **ONE)
    truth = Counter(row["state"] for row in rows)
    assert [row["value"] for row in found] == [truth["CA"], truth["CA"] + truth["NY"], 2 * truth["CA"] - truth["NY"]]


def test_numbers_by_propose_test_release(tmp_path: Path) -> None:
    query = {"column": "spent", "delta": 1e-9, "max_rows": 1}
    for place, (more, statistic) in enumerate(
        (
            ({"measure": "stable-quantile", "within": 2}, statistics.median),
            (
                {"measure": "interquartile-range", "within": 4},
                lambda all_: statistics.quantiles(all_)[2] - statistics.quantiles(all_)[0],
            ),
            ({"measure": "clustered-mean", "width": 100, "epsilon": 20.0}, statistics.fmean),
        )
    ):
        folder = tmp_path / str(place)
        folder.mkdir()
        rows, found = answers(folder, **query, **more)
        assert found[0]["value"] == pytest.approx(statistic([row["spent"] for row in rows]), abs=1.0), more


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

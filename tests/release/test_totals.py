"""Integers by key, from tables in files, against plain Python."""

from __future__ import annotations

import csv
import random
from pathlib import Path
from typing import Any

import pytest

from dpcli.release.aggregate import Aggregation, GroupKey, Steps
from dpcli.release.columns import Column
from dpcli.release.engines.open import opened
from dpcli.release.settings import Source
from tests.release import brute

pytestmark = pytest.mark.needs("duckdb", "sqlglot")

SECRET = bytes(range(32))
COLUMNS = {
    "who": Column(type="text"),
    "state": Column(type="text", domain=("CA", "NY")),
    "age": Column(type="integer", min=0, max=115),
}


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(COLUMNS))
        writer.writeheader()
        writer.writerows(rows)


@pytest.mark.parametrize("seed", range(5))
def test_a_csv_is_added_up_as_by_hand(tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)
    rows = [
        {"who": draw.choice("abcd"), "state": draw.choice(["CA", "NY", "ca", None]), "age": draw.choice([None, 0, 7, 40, 200])}
        for _ in range(draw.choice([0, 1, 30]))
    ]
    write(tmp_path / "t.csv", rows)
    question = Aggregation(
        "who",
        "age < 150",
        (GroupKey("state", ("CA", "NY")),),
        (Steps("age", 0, 115, 1.0),),
        draw.choice([1, 2]),
        draw.choice([1, 3]),
    )
    meanings = {
        "age < 150": lambda row: None if row["age"] is None else row["age"] < 150,
        "state": lambda row: row["state"],
        "age": lambda row: row["age"],
    }
    with opened(Source(columns=COLUMNS, path="t.csv", unit="who"), str(tmp_path / "file.toml")) as engine:
        assert engine.totals(question, SECRET) == brute.totals(brute.Asked(question, meanings), rows, SECRET)

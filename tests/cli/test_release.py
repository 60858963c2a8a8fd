"""dpcli release on a terminal: what it prints, and its exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.command import dpcli

FILE = """format = 1
name = "shop"
[privacy]
unit = "example"
adjacency = "add-remove"
delta = 1e-6
releases = "outputs"
[budget]
epsilon = 1.0
[source]
path = "shop.csv"
[source.columns]
level = {{ type = "text", domain = ["low", "medium", "high"] }}
[[query]]
name = "levels"
measure = "count"
by = ["level"]
epsilon = {epsilon}
"""
TRUTH = {"low": 3000, "medium": 2000, "high": 1000}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    rows = [level for level, count in TRUTH.items() for _ in range(count)]
    (tmp_path / "shop.csv").write_text("\n".join(("level", *rows, "")))
    path = tmp_path / "shop.toml"
    path.write_text(FILE.format(epsilon=0.5))
    return path


@pytest.mark.parametrize("arguments", [("--dry-run",), ()], ids=["dry run", "release"])
def test_over_budget_is_no_pass(arguments: tuple[str, ...], file: Path) -> None:
    file.write_text(FILE.format(epsilon=1.5))
    assert dpcli("release", str(file), *arguments, folder=file.parent).code == 1
    assert not (file.parent / "runs" / "shop" / "answers.json").exists()


def test_keys_are_shown_in_the_order_in_which_they_were_declared(file: Path) -> None:
    """Each with its own answer; a total comes last."""
    file.write_text(FILE.format(epsilon="1.0\ntotals = true"))
    found = json.loads(dpcli("release", str(file), "-f", "json", folder=file.parent).out)["answers"][0]["rows"]
    assert [row["key"] for row in found] == [["low"], ["medium"], ["high"], ["total"]]
    assert all(abs(row["value"] - true) < 200 for row, true in zip(found, (*TRUTH.values(), 6000), strict=True))


def test_the_statement_says_what_was_asked_and_how_accurate_it_is(file: Path) -> None:
    """Nothing that the file states is left to be asked."""
    file.write_text(FILE.format(epsilon=0.5))
    dpcli("release", str(file), folder=file.parent)
    said = (file.parent / "runs" / "shop" / "statement.md").read_text()
    assert said.startswith("# Release: shop\n") and "**levels**: count by level" in said
    assert "levels: within 6 of the bounded truth, with probability 0.95" in said
    assert "NOT STATED (disclosure.utility)" not in said

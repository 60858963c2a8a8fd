"""Tests of the gate on files with queries: their costs and claims, and no advice about keys that such a file lacks."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.command import Result, dpcli
from tests.inline import text_of
from tests.release.tables.files import document

SUM = {"name": "total", "measure": "sum", "column": "spent", "where": "age > 3", "rho": 0.005, "max_rows": 2}


def gate(folder: Path, query: dict[str, Any], **source: Any) -> Result:
    """Of a change from SUM to this."""

    def written(asked: dict[str, Any], **keys: Any) -> None:
        tables = document(asked, gate={"max_increase": 0.25})
        tables["source"] = {**tables["source"], **keys}
        (folder / "file.toml").write_bytes(text_of(tables))

    written(SUM)
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b.c", "-C", str(folder)]
    for arguments in (["init", "-q"], ["add", "."], ["commit", "-qm", "base"]):
        subprocess.run([*git, *arguments], check=True)
    written(query, **source)
    return dpcli("gate", "file.toml", "--base-ref", "HEAD", folder=folder)


def test_a_dearer_query_fails_with_no_advice_that_its_file_has_no_key_for(tmp_path: Path) -> None:
    result = gate(tmp_path, {**SUM, "rho": 0.05})
    assert result.code == 1 and "rho 0.005 -> 0.05" in result.err
    assert "sigma" not in result.err and "would pass" not in result.err


@pytest.mark.parametrize("change", [{"where": "age > 4"}, {"where": "state = 'CA'"}])
def test_another_question_at_the_same_price_is_shown(change: dict[str, Any], tmp_path: Path) -> None:
    result = gate(tmp_path, {**SUM, **change})
    assert result.code == 0 and "total: where" in result.out


@pytest.mark.parametrize(
    ("key", "value"), [("join", [{"path": "cities.csv", "on": "city", "columns": ["state"]}]), ("unit", "name")]
)
def test_a_table_of_nobody_and_another_column_of_units_are_claims(key: str, value: Any, tmp_path: Path) -> None:
    """At the same epsilon: nothing but the file says that a table is about nobody, or whose a row is."""
    result = gate(tmp_path, SUM, **{key: value})
    assert f"source.{key}" in result.out and "because of a claim about data" in " ".join(result.out.split())

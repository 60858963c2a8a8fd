"""What a question lacks is said before anything is charged."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from dpcli.ledger.stores.places import init
from tests.cases import of_each
from tests.command import dpcli
from tests.inline import text_of
from tests.ledger.setting import DATASET, terms
from tests.release.files import document

pytestmark = pytest.mark.needs("duckdb", "opendp", "sqlglot")
LIMITS = {"max_groups": 1, "max_rows": 1}
COUNT = {"measure": "count", "epsilon": 0.5, "max_rows": 1}
FILED = {"city": {"type": "text", "domain_file": "cities.txt"}}
WRONG: Mapping[str, tuple[Mapping[str, Any], Mapping[str, Any]]] = {
    "no data": (COUNT, {}),
    "no SQL": ({**COUNT, "where": "age >"}, {}),
    "a function": ({**COUNT, "where": "age > random()"}, {}),
    "a column that nobody declared": ({**COUNT, "where": "ages > 3"}, {}),
    "a column that the data lack": ({**COUNT, "where": "height > 3"}, {"height": {"type": "integer"}}),
    "types that do not go together": ({**COUNT, "where": "age = 'x'"}, {}),
    "no condition": ({**COUNT, "where": "age + 1"}, {}),
    "a computed column of another type": ({**COUNT, "where": "old"}, {"old": {"type": "boolean", "expression": "age + 1"}}),
    "keys of dates": (
        {"measure": "count", "by": ["day"], "keys": "threshold", "delta": 1e-9, "epsilon": 0.5, **LIMITS},
        {"day": {"type": "date", "expression": "date '2020-01-01'"}},
    ),
    "more values than there are": ({"measure": "top-k", "column": "city", "k": 5, "epsilon": 0.5, **LIMITS}, {}),
    "a matrix of another width": ({"measure": "linear", "by": ["city"], "matrix": [[1, 1]], "epsilon": 0.5, **LIMITS}, FILED),
    "a domain file that is not there": ({"measure": "count", "by": ["city"], "epsilon": 0.5, **LIMITS}, {**FILED}),
    "a confidence that no table tells": (
        {"measure": "threshold", "column": "city", "above": 3, "epsilon": 0.5, "confidence": 0.9999999999999, **LIMITS},
        {},
    ),
    "a unit that is not of text or integers": ({**COUNT}, {"visitor": {"type": "date"}}),
    "a domain of millions": (
        {"measure": "count", "by": ["age", "wide", "state"], "epsilon": 0.5, **LIMITS},
        {"wide": {"type": "integer", "expression": "age", "min": 0, "max": 100_000}},
    ),
}


@of_each("wrong", WRONG)
def test_it_is_refused_and_nothing_is_charged(wrong: str, tmp_path: Path) -> None:
    query, columns = WRONG[wrong]
    if wrong != "no data":
        (tmp_path / "visits.csv").write_text("visitor,state,city,name,age,spent\nsecret-one,CA,A,Ann,90733,5\n")
    if "matrix" in query:
        (tmp_path / "cities.txt").write_text("A\nB\nC\n")
    tables = document({"name": "q", **query})
    tables["source"]["output"] = str(tmp_path / "out")
    tables["source"]["columns"] = {**tables["source"]["columns"], **columns}
    (tmp_path / "file.toml").write_bytes(text_of(tables))
    init(str(tmp_path / "ledger.db"), DATASET, terms(5.0)).close()
    result = dpcli("release", str(tmp_path / "file.toml"), "--ledger", str(tmp_path / "ledger.db"))
    assert result.code == 2, result
    assert "secret" not in result.err and "90733" not in result.err
    status = dpcli("budget", "log", str(tmp_path / "ledger.db"))
    assert "dpcli release" not in status.out, status.out
    assert not (tmp_path / "out").exists()

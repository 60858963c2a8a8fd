"""A mistake that can be seen without a row of data is said before anything is charged, and costs nothing."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from dpcli.base.errors import InputError, Unavailable
from dpcli.file.toml.findings import InvalidFile
from dpcli.ledger.stores.places import init
from dpcli.release.documents.release import plan_document
from dpcli.release.release_plan import plan_of, require_expressions
from dpcli.release.release_run import release
from tests.cases import of_each
from tests.inline import text_of
from tests.ledger.filters.setting import DATASET, terms
from tests.release.tables.files import COLUMNS, document

pytestmark = pytest.mark.needs("duckdb", "opendp", "sqlglot")
LIMITS = {"max_groups": 1, "max_rows": 1, "epsilon": 0.5}
COUNT = {"name": "adults", "measure": "count", "epsilon": 0.5, "max_rows": 1}
FILED = {"city": {"type": "text", "domain_file": "cities.txt"}}
WIDE = {"wide": {"type": "integer", "expression": "age", "min": 0, "max": 400_000}}  # three keys have more than 10^6 candidates
CONDITIONS = {"misspelt": "agee >= 18", "no SQL": "age >", "a function": "sqrt(age) > 4", "no condition": "age"}
# What is wrong: a query, columns, and other keys of [source].
WRONG: Mapping[str, tuple[Mapping[str, Any], Mapping[str, Any], Mapping[str, Any]]] = {
    **{name: ({"where": where}, {}, {}) for name, where in CONDITIONS.items()},
    "no data": ({}, {}, {"path": "visit.csv"}),
    "ending": ({}, {}, {"path": "visits.xlsx"}),
    "a column that the data lack": ({"where": "height > 3"}, {"height": {"type": "integer"}}, {}),
    "a computed column of no column": ({}, {"old": {"type": "boolean", "expression": "agee > 60"}}, {}),
    "a computed column of another type": ({}, {"old": {"type": "integer", "expression": "age > 60"}}, {}),
    "keys of dates": (
        {"measure": "count", "by": ["day"], "keys": "threshold", "delta": 1e-9, **LIMITS},
        {"day": {"type": "date", "expression": "date '2020-01-01'"}},
        {},
    ),
    "more values than there are": ({"measure": "top-k", "column": "city", "top": 5, **LIMITS}, {}, {}),
    "more values than a file has": ({"measure": "top-k", "column": "city", "top": 5, **LIMITS}, FILED, {}),
    "a quantile for too many keys of a file": (
        {"measure": "quantile", "column": "wide", "by": ["city"], **LIMITS},
        {**FILED, **WIDE},
        {},
    ),
    "a matrix of another width": ({"measure": "linear", "by": ["city"], "matrix": [[1, 1]], **LIMITS}, FILED, {}),
    "a domain file that is not there": ({"by": ["town"], **LIMITS}, {"town": {"type": "text", "domain_file": "none.txt"}}, {}),
    "a confidence that no table tells": (
        {"measure": "threshold", "column": "city", "above": 3, "confidence": 0.9999999999999, **LIMITS},
        {},
        {},
    ),
    "a domain of millions": (
        {"by": ["age", "wide", "state"], **LIMITS},
        {"wide": {"type": "integer", "expression": "age", "min": 0, "max": 100_000}},
        {},
    ),
}


def file(folder: Path, query: Mapping[str, Any], columns: Mapping[str, Any], source: Mapping[str, Any]) -> str:
    (folder / "visits.csv").write_text(f"{','.join(COLUMNS)}\nsecret-one,CA,A,Ann,44,1.50\n")
    (folder / "visits.xlsx").write_text("")
    (folder / "cities.txt").write_text("A\nB\nC\n")
    tables = document({**COUNT, **query}, by_unit=False)
    tables["source"].update({"output": str(folder / "out"), "columns": {**tables["source"]["columns"], **columns}, **source})
    tables["privacy"]["delta"] = query.get("delta", 0)
    path = folder / "file.toml"
    path.write_bytes(text_of(tables))
    return str(path)


def refused(folder: Path, *wrong: Mapping[str, Any]) -> str:
    with init(str(folder / "ledger.db"), DATASET, terms(5.0)) as ledger:
        with pytest.raises((InputError, InvalidFile)) as caught:
            release(plan_of(file(folder, *wrong)), ledger)
        assert not ledger.state().runs and not (folder / "out" / "answers.json").exists()
        assert "secret" not in str(caught.value)
    return str(caught.value)


@of_each("wrong", WRONG)
def test_it_is_refused_and_nothing_is_charged(wrong: str, tmp_path: Path) -> None:
    message = refused(tmp_path, *WRONG[wrong])
    assert 'file.toml: query "adults": where: ' in message or wrong not in CONDITIONS


def test_the_dry_run_counts_the_values_of_a_domain_file(tmp_path: Path) -> None:
    query, columns, source = WRONG["more values than a file has"]
    with pytest.raises(InputError, match=r'query "adults": top: expected at most the 3 values in cities.txt, found 5'):
        plan_document(plan_of(file(tmp_path, query, columns, source)))


def test_a_mended_file_is_answered_in_the_same_folder(tmp_path: Path) -> None:
    refused(tmp_path, *WRONG["misspelt"])
    assert release(plan_of(file(tmp_path, {"where": "age >= 18"}, {}, {}))).fresh


@of_each("kind", ["parquet", "duckdb"])
@of_each("column", [{"town": {"type": "text"}}, {"age": {"type": "date"}}])
def test_columns_of_other_files_are_looked_for_before_the_charge(kind: str, column: Mapping[str, Any], tmp_path: Path) -> None:
    import duckdb

    place, (name,) = tmp_path / f"rows.{kind}", column
    with duckdb.connect(str(place) if kind == "duckdb" else ":memory:") as connection:
        connection.execute("CREATE TABLE visits AS SELECT 'v1' AS visitor, 44 AS age")
        if kind == "parquet":
            connection.execute(f"COPY visits TO '{place}' (FORMAT parquet)")
    source = {"path": place.name, **({"table": "visits"} if kind == "duckdb" else {})}
    assert name in refused(tmp_path, {"where": f"{name} is not null"}, column, source)


def test_a_missing_parser_is_reported_as_a_missing_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_of(file(tmp_path, {"where": "age >= 18"}, {}, {}))

    def absent(*packages: str) -> None:
        raise Unavailable(f"no {packages[0]}")

    monkeypatch.setattr("dpcli.release.expressions.sql_grammar.require", absent)
    with pytest.raises(Unavailable, match=r'file\.toml: query "adults": no sqlglot'):
        require_expressions(plan.source, plan.queries, plan.path)

"""A mistake that can be seen without a row of data is said before anything is charged, and costs nothing."""

from __future__ import annotations

import hashlib
import json
import os
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
from tests.command import dpcli as run
from tests.inline import text_of
from tests.ledger.filters.setting import DATASET, terms
from tests.release.tables.files import COLUMNS, document

pytestmark = pytest.mark.needs("duckdb", "opendp", "sqlglot")
LIMITS = {"max_groups": 1, "max_rows": 1, "epsilon": 0.5}
COUNT = {"name": "adults", "measure": "count", "epsilon": 0.5, "max_rows": 1}
FILED = {"city": {"type": "text", "domain_file": "cities.txt"}}
WIDE = {"wide": {"type": "integer", "expression": "age", "min": 0, "max": 400_000}}  # three keys have more than 10^6 candidates
CONDITIONS = {"misspelt": "agee >= 18", "no SQL": "age >", "a function": "sqrt(age) > 4", "no condition": "age"}
SIZED = {"size": {"type": "integer"}}


def joining(path: str, **keys: Any) -> tuple[Mapping[str, Any], Mapping[str, Any], Mapping[str, Any]]:
    """A public table that adds a column of whole numbers to each city."""
    return {}, SIZED, {"join": [{"path": path, "on": "city", "columns": ["size"], **keys}]}


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
    "a joined file that is not there": joining("none.csv"),
    "a joined file with a key twice": joining("twice.csv"),
    "a joined file with a key twice, whatever its digits are": joining("digits.csv", on="age"),
    "a joined file that ends in a quote": joining("quote.csv"),
    "a joined file with a short line": joining("short.csv"),
    "a joined file without the key": joining("sizes.csv", on="state"),
    "a joined file without the column": joining("keys.csv"),
    "a joined file with the column twice": joining("columns.csv"),
    "a joined file without anything": joining("nothing.csv"),
    "a joined folder": joining("folder.csv"),
    "a joined pipe": joining("pipe.csv"),
    "joined files": joining("*s.csv"),
    "a joined database": joining("sizes.duckdb"),
    "a joined address": joining("https://example.org/sizes.csv"),
    "a joined table without a database": ({}, SIZED, {"join": [{"table": "sizes", "on": "city", "columns": ["size"]}]}),
    "a path and a table": joining("sizes.csv", table="sizes"),
    "the data joined with themselves": joining("visits.csv"),
    "a column that the data have": joining("names.csv", columns=["size", "name"]),
    "a key of decimals": joining("sizes.csv", on="spent"),
    "a key that the join adds": joining("sizes.csv", on="size"),
    "a joined column that nothing declares": joining("sizes.csv", columns=["sise"]),
    "a column that two tables add": ({}, SIZED, {"join": [{"path": "sizes.csv", "on": "city", "columns": ["size"]}] * 2}),
    "a domain of millions": (
        {"by": ["age", "wide", "state"], **LIMITS},
        {"wide": {"type": "integer", "expression": "age", "min": 0, "max": 100_000}},
        {},
    ),
}


FILES = {
    "sizes.csv": "city,size\nA,1\nB,2\n,3\n,4\n",
    "twice.csv": "city,size\nA,1\nB,2\nA,1\n",
    "digits.csv": "age,size\n44,1\n044,1\n",
    "quote.csv": 'city,size\nA,1\nB,"2\n',
    "short.csv": "city,size\nA,1\nB\n",
    "keys.csv": "city\nA\n",
    "columns.csv": "city,size,size\nA,1,1\n",
    "nothing.csv": "",
    "names.csv": "city,size,name\nA,1,1\n",
    "sizes.duckdb": "",
}


def file(folder: Path, query: Mapping[str, Any], columns: Mapping[str, Any], source: Mapping[str, Any]) -> str:
    (folder / "visits.csv").write_text(f"{','.join(COLUMNS)}\nsecret-one,CA,A,Ann,44,1.50\n")
    (folder / "visits.xlsx").write_text("")
    (folder / "cities.txt").write_text("A\nB\nC\n")
    for name, text in FILES.items():
        (folder / name).write_text(text)
    if not (folder / "folder.csv").exists():
        (folder / "folder.csv").mkdir()
        os.mkfifo(folder / "pipe.csv")
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


def test_joined_tables_are_refused_in_words(tmp_path: Path) -> None:
    words = {
        "a joined file with a key twice": "twice.csv: expected each \"city\" in one row, as it is the key of a join, found 'A' in 2 rows",
        "a joined file with a key twice, whatever its digits are": "found 44 in 2 rows",
        "a joined file that ends in a quote": "quote.csv: a cell has misplaced or unclosed quotes",
        "a joined file with a short line": "short.csv: the joined table cannot be read to its end",
        "a joined file that is not there": "source.join.path: ",
        "a column that the data have": 'visits.csv: expected no column "name", as names.csv adds it, found one',
        "the data joined with themselves": "source.join[1].path: expected a public table",
    }
    for name, expected in words.items():
        (folder := tmp_path / str(len(list(tmp_path.iterdir())))).mkdir()
        assert expected in refused(folder, *WRONG[name]), name


def test_a_joined_file_is_named_with_its_digest_and_is_part_of_the_release(tmp_path: Path) -> None:
    path = file(tmp_path, {"where": "size = 1"}, *joining("sizes.csv")[1:])
    (plan := plan_of(path)).fingerprint()
    assert release(plan).fresh and not release(plan_of(path)).fresh
    digest = hashlib.sha256((tmp_path / "sizes.csv").read_bytes()).hexdigest()
    for flags in (("--dry-run",), ()):
        (joined,) = json.loads(run("release", *flags, path, "-f", "json").out)["joined"]
        assert joined == {"path": "sizes.csv", "sha256": digest}
    words = f"sizes.csv (SHA-256 {digest}) adds size by city: the file declares that its rows are about nobody"
    assert words in (tmp_path / "out" / "statement.md").read_text() and words in str(plan_document(plan).notes)
    (tmp_path / "sizes.csv").write_text("city,size\nA,2\n")
    with pytest.raises(InputError, match="expected the file with which this release began, found a change"):
        release(plan_of(path))


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

"""Every mistake that can be seen without a row of data is reported before the charge, and costs nothing."""

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
    "long.csv": f"city,size\n{'A' * 999},1\n{'A' * 999},1\n",
    "broken.parquet": "PAR1",
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


SIZED = {"size": {"type": "integer"}}


def joining(**keys: Any) -> tuple[Mapping[str, Any], Mapping[str, Any], Mapping[str, Any]]:
    """A public table that adds a column of whole numbers to each city."""
    return {}, SIZED, {"join": [{"path": "sizes.csv", "on": "city", "columns": ["size"], **keys}]}


JOINS: dict[str, tuple[tuple[Mapping[str, Any], Mapping[str, Any], Mapping[str, Any]], str]] = {
    "no file": (joining(path="none.csv"), "none.csv: cannot be read: No such file"),
    "a key twice": (
        joining(path="twice.csv"),
        'twice.csv: expected each "city" in one row, as it is the key of a join, found "A" in 2 rows',
    ),
    "a long key twice": (joining(path="long.csv"), f'found "{"A" * 57}..." in 2 rows'),
    "no parquet": (joining(path="broken.parquet"), "broken.parquet: a file cannot be read to its end"),
    "a key twice, whatever its digits are": (joining(path="digits.csv", on="age"), "found 44 in 2 rows"),
    "an open quote": (joining(path="quote.csv"), "quote.csv: a cell has misplaced or unclosed quotes"),
    "a short line": (joining(path="short.csv"), "short.csv: the joined table cannot be read to its end"),
    "no key": (joining(on="state"), 'sizes.csv: expected one column "state" in the first line, found none'),
    "no column": (joining(path="keys.csv"), 'keys.csv: expected one column "size" in the first line, found none'),
    "a column twice": (joining(path="columns.csv"), 'columns.csv: expected one column "size" in the first line, found 2'),
    "nothing": (joining(path="nothing.csv"), 'nothing.csv: expected one column "city" in the first line, found none'),
    "a folder": (joining(path="folder.csv"), "source.join.path: "),
    "a pipe": (joining(path="pipe.csv"), "expected a regular file, found a pipe"),
    "several files": (joining(path="s*.csv"), "s*.csv: expected one .csv or .parquet file, found 2 (csv)"),
    "a database": (joining(path="sizes.duckdb"), "sizes.duckdb: expected one .csv or .parquet file, found 1 (duckdb)"),
    "an address": (joining(path="https://example.org/sizes.csv"), "expected files on this machine, found an address"),
    "a table without a database": (
        ({}, SIZED, {"join": [{"table": "sizes", "on": "city", "columns": ["size"]}]}),
        'source.join.table: expected path where the source is no database, found "sizes"',
    ),
    "a path and a table": (joining(table="sizes"), "source.join[1].path: expected path or table, found both"),
    "the data themselves": (joining(path="visits.csv"), "source.join[1].path: expected a public table"),
    "a column of the data": (
        joining(path="names.csv", columns=["size", "name"]),
        'visits.csv: expected no column "name", as names.csv adds it, found one',
    ),
    "a key of decimals": (joining(on="spent"), 'text or integer, found "spent", which is decimal'),
    "a key that the join adds": (joining(on="size"), 'found "size", which is the key of the join'),
    "the unit": (
        ({**LIMITS}, SIZED, {**joining(columns=["visitor"])[2], "unit": "visitor"}),
        'found "visitor", which is the unit',
    ),
    "an undeclared column": (joining(columns=["sise"]), 'a column that [source.columns] declares, found "sise"'),
    "a column that two tables add": (({}, SIZED, {"join": joining()[2]["join"] * 2}), 'found "size" again'),
}


@pytest.mark.long
@of_each("wrong", JOINS)
def test_a_join_is_refused_and_nothing_is_charged(wrong: str, tmp_path: Path) -> None:
    asked, words = JOINS[wrong]
    assert words in refused(tmp_path, *asked)


@pytest.mark.long
def test_a_joined_file_is_named_with_its_digest_and_is_part_of_the_release(tmp_path: Path) -> None:
    path = file(tmp_path, {"where": "size = 1"}, *joining()[1:])
    (plan := plan_of(path)).fingerprint()
    assert release(plan).fresh and not release(plan_of(path)).fresh
    digest = hashlib.sha256((tmp_path / "sizes.csv").read_bytes()).hexdigest()
    for flags in (("--dry-run",), ()):
        (joined,) = json.loads(run("release", *flags, path, "-f", "json").out)["joined"]
        assert joined == {"path": "sizes.csv", "sha256": digest}
    words = f"sizes.csv (SHA-256 {digest}) adds size by city: the file declares that its rows are about nobody"
    assert words in (tmp_path / "out" / "statement.md").read_text() and words in str(plan_document(plan).notes)
    (tmp_path / "sizes.csv").write_text("city,size\nA,2\n")
    with pytest.raises(InputError, match="expected the file and the joined tables with which this release began, found a"):
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

    monkeypatch.setattr("dpcli.release.expressions.sql_tree.require", absent)
    with pytest.raises(Unavailable, match=r'file\.toml: query "adults": no sqlglot'):
        require_expressions(plan.source, plan.queries, plan.path)

"""A mistake that can be seen without a row of data is said before anything is charged, and costs nothing."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from dpcli.base.errors import InputError
from dpcli.ledger.stores.places import init
from dpcli.release.release_plan import plan_of
from dpcli.release.release_run import release
from tests.cases import of_each
from tests.inline import text_of
from tests.ledger.setting import DATASET, terms
from tests.release.files import COLUMNS, document

pytestmark = pytest.mark.needs("duckdb", "opendp", "sqlglot")
COUNT = {"name": "adults", "measure": "count", "epsilon": 0.5}
HEADER = ",".join(COLUMNS)

QUERIES: dict[str, Mapping[str, Any]] = {
    "misspelt": {"where": "agee >= 18"},
    "function": {"where": "sqrt(age) > 4"},
    "like": {"where": "state like 'C%'"},
    "types": {"where": "state > 4"},
    "no condition": {"where": "age"},
    "empty": {"where": " "},
    "quotes": {"where": 'state = "CA"'},
    "apostrophe": {"where": "state = 'C'A'"},
    "percent": {"where": "age > 50%"},
}
SOURCES: dict[str, Mapping[str, Any]] = {
    "expression": {"columns": {**COLUMNS, "old": {"type": "boolean", "expression": "agee > 60"}}},
    "its type": {"columns": {**COLUMNS, "old": {"type": "integer", "expression": "age > 60"}}},
    "no file": {"path": "visit.csv"},
    "ending": {"path": "visits.xlsx"},
    "not in the file": {"columns": {**COLUMNS, "town": {"type": "text"}}},
}


def file(folder: Path, query: Mapping[str, Any], source: Mapping[str, Any]) -> str:
    (folder / "visits.csv").write_text(f"{HEADER}\nv1,CA,A,Ann,44,1.50\n")
    (folder / "visits.xlsx").write_text("")
    tables = document({**COUNT, **query}, by_unit=False)
    tables["source"].update({"output": str(folder / "out"), **source})
    tables["privacy"]["delta"] = 0
    path = folder / "file.toml"
    path.write_bytes(text_of(tables))
    return str(path)


@pytest.mark.long
@of_each("query, source", [*((query, {}) for query in QUERIES.values()), *(({}, source) for source in SOURCES.values())])
def test_a_mistake_costs_nothing(query: Mapping[str, Any], source: Mapping[str, Any], tmp_path: Path) -> None:
    """And what was mended is answered in the same folder."""
    with init(str(tmp_path / "ledger.db"), DATASET, terms(2.0)) as ledger:
        with pytest.raises(InputError) as found:
            release(plan_of(file(tmp_path, query, source)), ledger)
        assert not ledger.state().runs
        assert 'file.toml: query "adults": where: ' in str(found.value) or not query
        assert release(plan_of(file(tmp_path, {"where": "age >= 18"}, {})), ledger).fresh


@of_each("kind", ["parquet", "duckdb"])
@of_each("column", [{"town": {"type": "text"}}, {"age": {"type": "date"}}])
def test_columns_of_other_files_are_looked_for_before_the_charge(kind: str, column: Mapping[str, Any], tmp_path: Path) -> None:
    import duckdb

    place, (name,) = tmp_path / f"visits.{kind}", column
    with duckdb.connect(str(place) if kind == "duckdb" else ":memory:") as connection:
        connection.execute("CREATE TABLE visits AS SELECT 'v1' AS visitor, 44 AS age")
        if kind == "parquet":
            connection.execute(f"COPY visits TO '{place}' (FORMAT parquet)")
    source = {"path": place.name, "columns": {**COLUMNS, **column}, **({"table": "visits"} if kind == "duckdb" else {})}
    with init(str(tmp_path / "ledger.db"), DATASET, terms(2.0)) as ledger:
        with pytest.raises(InputError, match=name):
            release(plan_of(file(tmp_path, {"where": f"{name} is not null"}, source)), ledger)
        assert not ledger.state().runs

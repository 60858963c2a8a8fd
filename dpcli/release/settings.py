"""The [source] table: where the data are, whose row is whose, and what the columns may hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from dpcli.base.fields import Key, Reader
from dpcli.base.premise import Premise, Premises
from dpcli.file.toml.findings import Problem
from dpcli.release.columns import Column

OF_URL = Reader("url", lambda source: source.url is not None)
OF_PATH = Reader("path", lambda source: source.path is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The table of data that queries are put to. Only what [source.columns] declares can be asked about."""

    premises: ClassVar[Premises] = (
        Premise(
            "A unit counts with no more rows than max_rows, also where a view holds other rows each time that it is read.",
            "release, in DuckDB and PostgreSQL",
            "tests/release/test_views.py::test_no_unit_of_a_view_counts_more_rows_than_it_may",
        ),
        Premise(
            "Whether every row can be read does not depend on one unit.",
            "the operator, who looks at the table with other tools; release says that it cannot be read, in the same words wherever",
            "tests/release/test_unreadable.py::test_what_cannot_be_read_is_told_in_the_same_words",
        ),
        Premise(
            "Raw rows that an engine puts on disk go with the process.",
            "release, or its next start on this machine",
            "tests/release/test_spill.py::test_a_start_removes_what_the_dead_left_and_nothing_of_the_living",
        ),
        Premise(
            "A unit counts in no more keys than are declared.",
            "release",
            "tests/release/test_what_is_told.py::test_more_groups_than_keys_cost_nothing",
        ),
        Premise(
            "A unit owns the rows that name it, and no query reads more of them than it is charged for.",
            "release; that the column names the unit, the author of the file",
            "tests/release/test_bounding.py::test_a_planted_bug_is_caught",
        ),
        Premise(
            "Of a unit's rows each is kept with the same chance, so that an answer means what it is said to.",
            "release",
            "tests/release/test_rows_kept.py::test_rows_alike_with_one_hash_are_seen",
        ),
        Premise(
            "Of a unit's groups each is kept with the same chance.",
            "release",
            "tests/release/test_rows_kept.py::test_keys_that_are_drawn_alike_are_seen",
        ),
    )

    # Tables that between them state every key.
    examples: ClassVar[tuple[Mapping[str, Any], ...]] = (
        {
            "path": "visits.csv",
            "engine": "duckdb",
            "unit": "visitor",
            "output": "runs/visits",
            "columns": {
                "visitor": {"type": "text"},
                "state": {"type": "text", "domain": ["CA", "NY"]},
                "age": {"type": "integer", "min": 0, "max": 115, "missing": 0},
                "spent": {"type": "decimal", "min": 0, "max": 500, "step": 0.01},
                "city": {"type": "text", "domain_file": "cities.txt"},
                "heavy": {"type": "boolean", "expression": "spent > 100"},
            },
        },
        {"url": "postgresql:///shop", "table": "visits", "columns": {"age": {"type": "integer"}}},
    )

    columns: Annotated[Mapping[str, Column], Key("the columns that queries may use, by name, each with what it may hold")]
    path: Annotated[
        str | None,
        Key("the data: .csv or .parquet files (a pattern such as visits/*.parquet takes several), or .duckdb", reads=True),
    ] = None
    url: Annotated[
        str | None, Key("in place of path: postgresql://...; a password belongs in ~/.pgpass, never here", reads=True)
    ] = None
    table: Annotated[str | None, Key("the table of url, or of a .duckdb file", reads=True)] = None
    engine: Annotated[
        Literal["duckdb", "spark"] | None,
        Key("what computes over path: duckdb, or spark for what outgrows one machine", reader=OF_PATH),
    ] = None
    unit: Annotated[str | None, Key("column that says whose a row is; where absent, each row is a unit of its own", claim=True)] = (
        None
    )
    output: Annotated[str | None, Key("folder of the release: its answers, its statement; runs/NAME where absent")] = None

    def problems(self) -> Iterator[Problem]:
        """What the keys do not agree on."""
        if (self.path is None) == (self.url is None):
            yield ("path",), "path or url", "both" if self.path else "neither"
        if self.url is not None and self.table is None:
            yield ("table",), "the table of url", "none"
        if self.url is not None and not self.url.startswith(("postgresql://", "postgres://")):
            yield ("url",), "postgresql://...", "something else"
        if not self.columns:
            yield ("columns",), "at least one column", "none"
        if self.unit is not None and self.unit not in self.columns:
            yield ("unit",), "a column of [source.columns]", f'"{self.unit}"'
        elif self.unit is not None and self.columns[self.unit].expression is not None:
            yield ("unit",), "a column of the data", "one that is computed"
        for name, column in self.columns.items():
            for key, expected, found in column.problems():
                yield ("columns", name, *key), expected, found

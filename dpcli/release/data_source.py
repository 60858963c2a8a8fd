"""The [source] table: the location of the data, the column that names the unit of a row, and the values that columns may have.

Sensitivities rest on what is declared here, so bounds, steps and domains must come from the file, never from the data. Values beyond the
bounds are moved to them, and values outside of a domain are left out. Numbers are rounded to whole multiples of a *step* before they are
added, so that sums are exact integers. A *unit* is whom the release protects, such as a user with all of their rows. A *key* is a value by
which answers are grouped.

The fields of the classes are the settings of the file. A `Key` in an annotation has a setting's help text and the constraint on its value.
`needs` is another setting without which it has no effect, `names_data` marks a setting that names the data, and `claim` one that dpcli
takes at its word. A `Premise` is a fact on which the guarantee rests, with who ensures it and the test that breaks it; `dpcli explain
threats` prints them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from dpcli.base.fields import POSITIVE, Key, NeededSetting, Note
from dpcli.base.premise import Premise, Premises
from dpcli.file.toml.findings import Problem

NUMBER_TYPES = ("integer", "decimal")
TEXT = "text"
KEY_TYPES = (TEXT, "integer", "boolean")  # types of columns whose values may be keys of an answer
# Largest number of steps from 0. A double represents all integers up to it, so that steps are exact.
MOST_STEPS = 2**53
MOST_KEYS = 1_000_000  # largest number of keys that one column may declare; all are listed, so it bounds memory; arbitrary
# Settings of a column or a source without which another key has no effect (the argument `needs` of a `Key`).
OF_NUMBERS = NeededSetting('type = "integer" or "decimal"', lambda column: column.type in NUMBER_TYPES)
OF_INTEGERS = NeededSetting('type = "integer"', lambda column: column.type == "integer")
OF_TEXT = NeededSetting('type = "text"', lambda column: column.type == TEXT)
OF_PATH = NeededSetting("path", lambda source: source.path is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of the table, or one that is computed. Its bounds and its domain are declared, never taken from the data.

    A column may be the number of rows of its row's unit. Proof that the bounds on a unit hold unchanged: the number depends on the rows of
    the unit alone, and only on those in the block in which the unit is bounded. So the rows of all other units keep their numbers if the
    unit is removed or replaced, and two neighbouring tables with this column differ by the rows of one unit, as they do without it.
    """

    type: Annotated[
        Literal["text", "integer", "decimal", "boolean", "date"],
        Key("type of the values; a value of another type counts as missing"),
    ]
    min: Annotated[float | None, Key("smallest value; lower values are raised to it", needs=OF_NUMBERS)] = None
    max: Annotated[float | None, Key("largest value; higher values are lowered to it", needs=OF_NUMBERS)] = None
    step: Annotated[
        float | None,
        Key(
            "unit of rounding: values are rounded to whole multiples of it before they are added; default 1 for integers",
            POSITIVE,
            needs=OF_NUMBERS,
        ),
    ] = None
    missing: Annotated[
        float | None,
        Key(
            "value that replaces a missing value, NaN or infinity; by default such a row is left out of the query",
            needs=OF_NUMBERS,
        ),
    ] = None
    domain: Annotated[
        tuple[str, ...] | None, Key("all values that the column may have; a query's by uses them as keys", needs=OF_TEXT)
    ] = None
    domain_file: Annotated[
        str | None, Key("file that lists the domain, one value on each line; replaces domain", needs=OF_TEXT)
    ] = None
    expression: Annotated[Note | None, Key("SQL scalar over other columns, from which the column is computed")] = None
    rows_of_unit: Annotated[
        bool,
        Key(
            "whether the column is the number of rows of the row's unit, before any `where` and in the blocks that may be read; it shows "
            "how to choose max_rows",
            needs=OF_INTEGERS,
        ),
    ] = False

    @property
    def computed(self) -> bool:
        """Return whether the column is computed from others, and is not a column of the data."""
        return self.expression is not None or self.rows_of_unit

    @property
    def bounded(self) -> bool:
        return self.min is not None and self.max is not None

    @property
    def rounding_step(self) -> float | None:
        """The stated step. The default is 1 for integers and None for decimals."""
        return 1.0 if self.step is None and self.type == "integer" else self.step

    @property
    def declares_keys(self) -> bool:
        """Return whether all values of the column are declared, and are few enough to list as keys."""
        stated = self.domain is not None or self.domain_file is not None
        return self.type == "boolean" or stated or 0 < len(self.whole_numbers) <= MOST_KEYS

    @property
    def whole_numbers(self) -> range:
        """The integers from min to max; an empty range unless the column has bounded integers with a step of 1."""
        if self.type != "integer" or self.min is None or self.max is None or self.rounding_step != 1.0:
            return range(0)
        return range(math.ceil(self.min), math.floor(self.max) + 1)

    def steps(self, value: float) -> int:
        """Return the whole number of steps nearest to a value, with halves up. The column must have a step."""
        assert self.rounding_step is not None
        return math.floor(value / self.rounding_step + 0.5)

    def problems(self) -> Iterator[Problem]:
        """Yield the problems of keys that contradict each other, or that lack another key."""
        if self.rows_of_unit and self.expression is not None:
            yield ("rows_of_unit",), "rows_of_unit or expression", "both"
        if self.min is not None and self.max is not None and not self.min < self.max:
            yield ("max",), f"a number above min = {self.min:g}", f"{self.max:g}"
        step = self.rounding_step
        for name, end in (("min", self.min), ("max", self.max)):
            if end is not None and step is not None and abs(end) / step > MOST_STEPS:
                yield (name,), f"at most 2^53 steps of {step:g} from 0", f"{end!r}"
        if self.missing is not None:
            if self.min is None or self.max is None:
                yield ("missing",), "min and max with it", "none"
            elif not self.min <= self.missing <= self.max:
                yield ("missing",), "a number from min to max", f"{self.missing:g}"
        if self.domain is not None:
            if self.domain_file is not None:
                yield ("domain_file",), "domain or domain_file", "both"
            if not self.domain:
                yield ("domain",), "at least one value, all different", "none"
            elif len(set(self.domain)) < len(self.domain):
                yield ("domain",), "at least one value, all different", "a repeated value"


@dataclass(frozen=True, slots=True, kw_only=True)
class Join:
    """A public table that adds columns to the source. A row gets the values of the public row with its key, or missing values.

    A join adds, drops and multiplies no row, so all bounds on a unit are as without it.
    """

    path: Annotated[str | None, Key("public file: .csv or .parquet")] = None
    table: Annotated[str | None, Key("public table in the database of the source, in place of path")] = None
    on: Annotated[str, Key("key: a text or integer column of the source, and the column of the same name in the public table")]
    columns: Annotated[tuple[str, ...], Key("columns that the public table adds; [source.columns] declares their types and values")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The table of data that queries ask about. A query may use only the columns that [source.columns] declares."""

    premises: ClassVar[Premises] = (
        Premise(
            "A unit counts with at most max_rows rows, even if a view returns different rows each time it is read.",
            "release, in DuckDB and PostgreSQL, and for a table in memory, which is copied once; for files in Spark, the operator: "
            "they must not change while they are read",
            "tests/release/tables/test_views.py::test_no_unit_of_a_view_counts_more_rows_than_it_may",
        ),
        Premise(
            "A table in memory holds the data that the dataset of the ledger names, with all rows of each unit.",
            "the program that calls dpcli.release: dpcli keeps nothing by which it could recognise the data",
            "tests/release/test_python.py::test_a_table_is_answered_once_and_remembered",
        ),
        Premise(
            "The type of a column of a table in memory does not depend on one unit.",
            "the program that calls dpcli.release, which states the types; release, for columns of objects, whose values it reads "
            "one by one",
            "tests/release/tables/test_given.py::test_no_value_of_one_row_decides_how_others_are_read",
        ),
        Premise(
            "Whether every row can be read does not depend on one unit.",
            "the operator, who inspects the table with other tools; release reports an unreadable table in the same words "
            "wherever the fault is",
            "tests/release/tables/test_unreadable.py::test_what_cannot_be_read_is_told_in_the_same_words",
        ),
        Premise(
            "Raw rows that an engine writes to disk are deleted when the process ends.",
            "release, or the next start of release on this machine",
            "tests/release/tables/test_spill.py::test_a_start_removes_what_the_dead_left_and_nothing_of_the_living",
        ),
        Premise(
            "A unit counts in at most as many keys as are declared.",
            "release",
            "tests/release/test_what_is_told.py::test_more_groups_than_keys_cost_nothing",
        ),
        Premise(
            "The rows that name a unit belong to it, and no query counts more of them than it is charged for.",
            "release; the author of the file, for the column that names the unit",
            "tests/release/privacy/test_neighbours.py::test_a_limit_that_is_forgotten_is_seen",
        ),
        Premise(
            "All rows of a unit are equally likely to be kept, or weigh the same in a sum, so that an answer means what dpcli states.",
            "release",
            "tests/release/privacy/test_rows_kept.py::test_units_with_one_hash_are_seen",
        ),
        Premise(
            "A joined table is public: its rows would be the same if any unit had other rows.",
            "the author of the file, who lists the table in source.join",
            "tests/release/privacy/test_joins.py::test_a_joined_table_that_is_private_is_seen",
        ),
        Premise(
            "A join gives each row at most one partner, so that it multiplies no row of a unit.",
            "release",
            "tests/release/privacy/test_joins.py::test_a_key_in_several_rows_multiplies_nothing",
        ),
        Premise(
            "Under zero-out, a blanked row counts in no query: where rows are units, those whose declared columns are all empty are "
            "left out.",
            "release",
            "tests/release/privacy/test_neighbours.py::test_a_blank_row_that_counts_is_seen",
        ),
        Premise(
            "The number of rows of a unit, where a column is that number, depends on the rows of the unit alone.",
            "release",
            "tests/release/privacy/test_neighbours.py::test_a_number_of_rows_that_depends_on_other_units_is_seen",
        ),
        Premise(
            "All groups of a unit are equally likely to be kept.",
            "release",
            "tests/release/privacy/test_rows_kept.py::test_keys_that_are_drawn_alike_are_seen",
        ),
    )

    # Example tables. Together they state every key.
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
                "visits": {"type": "integer", "rows_of_unit": True, "min": 1, "max": 50},
                "region": {"type": "text", "domain": ["west", "east"]},
            },
            "join": [{"path": "regions.csv", "on": "state", "columns": ["region"]}],
        },
        {
            "url": "postgresql:///shop",
            "table": "visits",
            "columns": {"zip": {"type": "text"}, "rural": {"type": "boolean"}},
            "join": [{"table": "zips", "on": "zip", "columns": ["rural"]}],
        },
    )

    columns: Annotated[Mapping[str, Column], Key("the columns that queries may use, by name, each with its type and values")]
    path: Annotated[
        str | None,
        Key(
            "the data: .csv or .parquet files (a pattern such as visits/*.parquet takes several), or .duckdb; without path and url, a "
            "program gives a table to dpcli.release",
            names_data=True,
        ),
    ] = None
    url: Annotated[
        str | None,
        Key(
            "address of a database, in place of path: postgresql://...; put a password into ~/.pgpass, never here", names_data=True
        ),
    ] = None
    table: Annotated[str | None, Key("name of the table in the database of url, or in a .duckdb file", names_data=True)] = None
    engine: Annotated[
        Literal["duckdb", "spark"] | None,
        Key("engine that reads path: duckdb (the default), or spark for data too large for one machine", needs=OF_PATH),
    ] = None
    unit: Annotated[
        str | None, Key("column that names the unit to which a row belongs; by default each row is a unit of its own", claim=True)
    ] = None
    join: Annotated[
        tuple[Join, ...],
        Key("public tables, one [[source.join]] each, that add columns to the rows; their rows are about nobody", claim=True),
    ] = ()
    output: Annotated[str | None, Key("folder for the answers and the statement of the release; default runs/NAME")] = None

    def problems(self) -> Iterator[Problem]:
        """Yield the problems of keys that contradict each other, or that lack another key, and those of the columns."""
        if self.path is not None and self.url is not None:
            yield ("path",), "path or url", "both"
        if self.table is not None and self.path is None and self.url is None:
            yield ("table",), "path or url with it", "neither"
        if self.url is not None and self.table is None:
            yield ("table",), "the table of url", "none"
        if self.url is not None and not self.url.startswith(("postgresql://", "postgres://")):
            yield ("url",), "postgresql://...", "a URL with another scheme"
        if not self.columns:
            yield ("columns",), "at least one column", "none"
        if self.unit is not None and self.unit not in self.columns:
            yield ("unit",), "a column of [source.columns]", f'"{self.unit}"'
        elif self.unit is not None and self.columns[self.unit].computed:
            yield ("unit",), "a column of the data", "a computed column"
        for name, column in self.columns.items():
            if column.rows_of_unit and self.unit is None:
                yield ("columns", name, "rows_of_unit"), "unit in [source], since each row is otherwise a unit of its own", "none"
            for key, expected, wrong in column.problems():
                yield ("columns", name, *key), expected, wrong
        for number, join in enumerate(self.join):
            earlier_columns = [name for earlier in self.join[:number] for name in earlier.columns]
            for key, expected, wrong in self._join_problems(join, earlier_columns):
                yield ("join", number, *key), expected, wrong

    def _join_problems(self, join: Join, earlier_columns: Sequence[str]) -> Iterator[Problem]:
        """Yield the problems of a join. earlier_columns: columns of the joins before it."""
        if (join.path is None) == (join.table is None):
            yield ("path",), "path or table", "neither" if join.path is None else "both"
        elif (join.path is not None and join.path == self.path) or (join.table is not None and join.table == self.table):
            yield ("path" if join.table is None else "table",), "a public table", "the table of the source, which is private"
        key = self.columns.get(join.on)
        if key is None or key.type not in (TEXT, "integer"):
            yield (
                ("on",),
                "a column of [source.columns] of type text or integer",
                f'"{join.on}"' + (f", which is {key.type}" if key else ""),
            )
        if not join.columns:
            yield ("columns",), "at least one column", "none"
        for position, name in enumerate(join.columns):
            column = self.columns.get(name)
            if column is None:
                yield ("columns", position), "a column that [source.columns] declares", f'"{name}", which it does not'
            elif column.computed:
                yield ("columns", position), "a column that is not computed", f'"{name}", which is computed'
            elif name in (join.on, self.unit):
                which = "the unit" if name == self.unit else "the key of the join"
                yield ("columns", position), "a column that the public table adds", f'"{name}", which is {which}'
            elif name in (*earlier_columns, *join.columns[:position]):
                yield ("columns", position), "different columns in all joins", f'"{name}" again'


def stored_columns(columns: Mapping[str, Column], joins: Sequence[Join]) -> tuple[str, ...]:
    """Return the names of the columns that the table must have. All other columns are computed or joined."""
    joined = {name for join in joins for name in join.columns}
    return tuple(name for name, column in columns.items() if not column.computed and name not in joined)

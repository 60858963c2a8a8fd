"""The engines of tables that a program has in memory, for `dpcli.release`: one in DuckDB, and one in Spark for its own data frames.

An *engine* answers aggregations (exact counts and sums for each key) by SQL. given_table.py has the tables, as parts that DuckDB can read.
The engines copy the columns that the queries use once, after the charge, and read the copy. So all queries see one state of a table that
the program may change meanwhile. A relation or a data frame may have other rows each time that it is read; even then, no *unit* (whom the
release protects, with all of its rows) counts with more rows than it may: rows are bounded in the copy.

`_find` reports the columns of the table without reading a row. Columns are copied under the names f0, f1, ... by their *places* in the
table (numbers from 0). A *family* is a group of types that are converted alike; types of the family "other" have no conversion.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dpcli.base.errors import DpcliError, InputError
from dpcli.base.extras import require
from dpcli.release.aggregate import Aggregation, Totals
from dpcli.release.engines.duckdb_engine import DuckDB, connected, harden, public_paths
from dpcli.release.engines.given_table import GivenTable, SparkFrame
from dpcli.release.engines.source_files import Files
from dpcli.release.engines.source_table import ActualColumn, ActualTable, SourceTable
from dpcli.release.engines.spark_engine import Spark, quietly, set_up
from dpcli.release.engines.spill_folder import spill_folder
from dpcli.release.engines.sql_engine import SqlEngine, numbered_names, require_once

TABLE_WORDS = "the table given to dpcli.release"  # for messages
COPY, PART = "given", "part"  # names in SQL of the copy, and of the part of the table that is being copied
UNREADABLE = "a type that DuckDB cannot read"  # name of a type, for messages


@dataclass(slots=True)
class GivenDuckDB(DuckDB):
    """A table in memory that DuckDB copies.

    given: the table of the program.
    types: DuckDB's types of the columns that are copied, by their places in the table.
    """

    given: GivenTable = field(kw_only=True, repr=False)
    types: dict[int, str] = field(default_factory=dict, init=False)
    copied: bool = field(default=False, init=False)

    def limit_columns(self, aggregations: Iterable[Aggregation]) -> None:
        unused = self._unused(aggregations)  # calls `_find`, which notes the types
        self.types = {place: self.types[place] for place in _used_places(tuple(self.types), self.given.names, unused)}

    def totals(self, aggregation: Aggregation, secret: bytes) -> Totals:
        self._statement(aggregation, secret)  # the first statement calls `_find`, which notes the columns to copy
        if not self.copied:
            self._copy()
        return SqlEngine.totals(self, aggregation, secret)  # not DuckDB.totals, which reads a csv a second time after an error

    def _find(self) -> ActualTable:
        names = self.given.names
        require_once(self.table.stored, names, TABLE_WORDS)
        places = [place for place, name in enumerate(names) if name in self.table.stored]
        fields = {names[place]: self._describe_column(place) for place in places}
        others = tuple(name for name in names if name not in fields)
        _require_columns(self.types, fields)
        return ActualTable(COPY, fields, TABLE_WORDS, others=others)

    def _describe_column(self, place: int) -> ActualColumn:
        """Return a column as DuckDB reads it. Its type is noted if it is one that can be converted, so that its values are copied."""
        kind = self.given.type_of(place, self._type_of)
        column = self._column(f"f{place}", kind)
        if column.family != "other":
            self.types[place] = kind
        if self.given.is_bytewise(place):
            return column
        return ActualColumn(column.sql, column.family, f"{kind} with a collation", bytewise=False)

    def _type_of(self, part: Any) -> str:
        """Return DuckDB's name of the type of an object with one column."""
        try:
            self.connection.register(PART, part)
            ((_, kind, *_),) = self.connection.execute(f"DESCRIBE SELECT * FROM {PART}").fetchall()
        except Exception as error:  # an error of DuckDB or of the table's library; no row was read
            return f"{UNREADABLE} ({type(error).__name__})"
        self.connection.unregister(PART)
        return str(kind)

    def _copy(self) -> None:
        """Copy all rows of the columns in `types`."""
        columns = ", ".join(f"f{place} {kind}" for place, kind in self.types.items())
        self._rows(f"CREATE TABLE {COPY} ({columns})")
        try:
            for part in self.given.parts(tuple(self.types)):
                self.connection.register(PART, part)
                self._rows(f"INSERT INTO {COPY} SELECT * FROM {PART}")
                self.connection.unregister(PART)
            self.copied = True
            return
        except DpcliError:
            raise
        except Exception as error:  # an error of another library, whose message may quote rows
            failure = InputError(f"{TABLE_WORDS}: cannot be read to its end ({type(error).__name__})")
        raise failure  # outside of the except clause, so that the error is not attached as context


@dataclass(slots=True)
class GivenSpark(Spark):
    """A DataFrame of Spark. It is copied within Spark, whose files keep the copy until the session ends or no longer needs it.

    view: name of the view of the copy, which all sessions of the Spark application share.
    places: places of the columns that are copied.
    """

    given: SparkFrame = field(kw_only=True, repr=False)
    view: str = field(default_factory=lambda: f"dpcli_{secrets.token_hex(8)}", init=False)
    places: list[int] = field(default_factory=list, init=False)
    copied: bool = field(default=False, init=False)

    def limit_columns(self, aggregations: Iterable[Aggregation]) -> None:
        unused = self._unused(aggregations)  # calls `_find`, which notes the places
        self.places = _used_places(self.places, tuple(self.given.frame.columns), unused)

    def totals(self, aggregation: Aggregation, secret: bytes) -> Totals:
        self._statement(aggregation, secret)  # the first statement calls `_find`, which notes the columns to copy
        if not self.copied:
            quietly(self._copy, TABLE_WORDS)
            self.copied = True
        return SqlEngine.totals(self, aggregation, secret)

    def close(self) -> None:
        Spark.close(self)
        if self.copied:
            quietly(lambda: self.session.catalog.dropGlobalTempView(self.view), TABLE_WORDS)

    def _find(self) -> ActualTable:
        names = tuple(self.given.frame.columns)
        require_once(self.table.stored, names, TABLE_WORDS)
        kinds = [frame_field.dataType.simpleString() for frame_field in self.given.frame.schema.fields]
        columns = [self._column(f"f{place}", kind) for place, kind in enumerate(kinds)]
        fields = {name: column for name, column in zip(names, columns, strict=True) if name in self.table.stored}
        self.places = [place for place, name in enumerate(names) if name in fields and columns[place].family != "other"]
        others = tuple(name for name in names if name not in fields)
        _require_columns(self.places, fields)
        return ActualTable(f"global_temp.{self.view}", fields, TABLE_WORDS, others=others)

    def _copy(self) -> None:
        """Copy all rows of the columns in `places` to files of Spark, and create the view of the copy."""
        sql_names = numbered_names(len(self.given.frame.columns))
        copied_columns = self.given.frame.toDF(*sql_names).select([sql_names[place] for place in self.places])
        # A checkpoint, because Spark would compute a lost part of a cache again.
        copied_columns.localCheckpoint(eager=True).createGlobalTempView(self.view)


def _used_places(places: Sequence[int], names: Sequence[str], unused: Collection[str]) -> list[int]:
    """Return the places of used columns; the first place if no column is used, since a copy without a column would have no rows."""
    return [place for place in places if names[place] not in unused] or list(places[:1])


def _require_columns(places: Collection[int], fields: Mapping[str, ActualColumn]) -> None:
    """Raise InputError unless there is a column to copy: without one, the number of rows would be lost."""
    if not places:
        kinds = ", ".join(f'"{name}" ({column.kind})' for name, column in fields.items())
        raise InputError(f"{TABLE_WORDS}: expected a column of [source.columns] with values of its type, found {kinds or 'none'}")


def open_given(table: SourceTable) -> SqlEngine:
    """Return a table in memory, opened in the engine that can read it.

    Raises InputError if Spark fails, and Unavailable if DuckDB is not installed.
    """
    if isinstance(table.given, SparkFrame):
        frame = table.given.frame
        return GivenSpark(table, quietly(lambda: set_up(frame.sparkSession.newSession()), TABLE_WORDS), given=table.given)
    require("duckdb")
    assert table.given is not None
    spill = spill_folder()
    try:
        connection = connected(spill)
        files = Files("memory", (), TABLE_WORDS)
        harden(connection, public_paths(table))
        return GivenDuckDB(table, files, spill, connection, given=table.given)
    except BaseException:
        spill.remove()
        raise

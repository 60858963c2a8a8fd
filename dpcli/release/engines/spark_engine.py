"""The Spark engine, which reads csv and parquet files that are too large for one machine.

An *engine* answers aggregations (exact counts and sums for each key) by one SQL statement each (sql_engine.py). Files become views of a
Spark session of dpcli's own, whose SETTINGS let no value raise an error and take every name exactly. Spark runs as local[*], unless
spark-submit or spark-defaults.conf configure it. Whatever reads data goes through `quietly`, because Spark's messages may quote rows.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

from dpcli.base.errors import InputError
from dpcli.base.extras import require
from dpcli.release.data_source import Join
from dpcli.release.engines.conversions import Family
from dpcli.release.engines.dialects import Dialect, SparkSql
from dpcli.release.engines.source_files import Files, files_of, header_of, public_file
from dpcli.release.engines.source_table import ActualTable, SourceTable
from dpcli.release.engines.sql_engine import SqlEngine, numbered_names, refused_join, require_once

VIEW = "dpcli_source"  # name of the view of the files, which exists in dpcli's own session only
FAMILIES: dict[str, Family] = {
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), "whole"),
    **dict.fromkeys(("float", "double"), "real"),
    "string": "text",
    "decimal": "exact",
    "boolean": "boolean",
    "date": "date",
    "timestamp_ntz": "timestamp",
}
# With these settings no value raises an error, names are exact, and dates are those of the Gregorian calendar. A malformed line of a csv is
# detected whichever columns are read.
SETTINGS = {
    "spark.sql.ansi.enabled": "false",
    "spark.sql.caseSensitive": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.csv.parser.columnPruning.enabled": "false",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
}


@dataclass(slots=True)
class Spark(SqlEngine):
    """A table that is open as a view in a Spark session of its own."""

    dialect: ClassVar[Dialect] = SparkSql()
    families: ClassVar = FAMILIES
    session: Any = field(repr=False)

    def close(self) -> None:
        views = (VIEW, *map(_joined_view, range(len(self.table.joins))))
        quietly(lambda: list(map(self.session.catalog.dropTempView, views)), "spark")

    def _find(self) -> ActualTable:
        path = self.table.path or ""
        if "://" in path:
            if not path.endswith(".parquet"):  # `header_of` can read the header of a csv on this machine only
                raise InputError(f"{path}: expected .parquet where the data are at an address")
            return self._parquet([path], path, self.table.stored, VIEW)
        return self._in_files(files_of(path, self.table.folder), self.table.stored, VIEW)

    def _find_joined(self, number: int, join: Join) -> ActualTable:
        if join.path is None:
            raise refused_join("table", "path, as Spark reads files", f'"{join.table}"')
        return self._in_files(public_file(join.path, self.table.folder), frozenset((join.on, *join.columns)), _joined_view(number))

    def _in_files(self, files: Files, wanted: frozenset[str], view: str) -> ActualTable:
        """Return the table of files, as a view with this name."""
        paths, place = list(map(_exact_pattern, files.paths)), files.place
        if files.kind == "duckdb":
            raise InputError(f'{place}: expected .csv or .parquet for engine = "spark", found .duckdb')
        if files.kind == "parquet":
            return self._parquet(paths, place, wanted, view)
        header = header_of(files, wanted)
        frame = quietly(lambda: _csv(self.session, paths, len(header.names), header.delimiter), place)
        return self._view(frame, header.names, place, view, named=False)

    def _parquet(self, paths: list[str], place: str, wanted: frozenset[str], view: str) -> ActualTable:
        frame = quietly(lambda: self.session.read.parquet(*paths), place)
        require_once(wanted, frame.columns, place)
        return self._view(frame, tuple(frame.columns), place, view)

    def _rows(self, sql: str) -> list[tuple[Any, ...]]:
        place = self.table.path or "spark"
        rows: list[tuple[Any, ...]] = quietly(lambda: self.session.sql(sql).collect(), place)
        return rows

    def _view(self, frame: Any, names: tuple[str, ...], place: str, view: str, named: bool = True) -> ActualTable:
        """Return the table of a data frame, whose columns are renamed by their places. named: whether a schema names them, not a csv."""
        kinds = [frame_field.dataType.simpleString() for frame_field in frame.schema.fields]
        sql_names = numbered_names(len(names))
        quietly(lambda: frame.toDF(*sql_names).createOrReplaceTempView(view), place)
        columns = {name: self._column(sql, kind) for name, sql, kind in zip(names, sql_names, kinds, strict=True)}
        return ActualTable(view, columns, place, named)


def _joined_view(number: int) -> str:
    return f"{VIEW}_{number}"


def open_spark(table: SourceTable) -> Spark:
    """Return the table, opened in Spark. Raises InputError if Spark does not start, and Unavailable if it is not installed."""
    require("pyspark")
    from pyspark.sql import SparkSession

    def started() -> Any:
        builder = SparkSession.builder.appName("dpcli").config("spark.ui.enabled", "false")
        return builder.config("spark.ui.showConsoleProgress", "false").getOrCreate().newSession()

    return Spark(table, quietly(lambda: set_up(started()), "spark"))


def set_up(session: Any) -> Any:
    """Return a session of Spark with dpcli's `SETTINGS`. No task logs its errors from now on, since they may quote a row."""
    session.sparkContext.setLogLevel("OFF")
    for name, value in SETTINGS.items():
        session.conf.set(name, value)
    return session


def quietly(call: Callable[[], Any], place: str) -> Any:
    """Return the result of a call. Raises InputError without Spark's message, which may quote rows, if the call fails."""
    try:
        return call()
    except Exception as error:  # py4j, pyspark and the layers below them raise many types
        failure = InputError(f"{place}: Spark cannot read the data to their end ({type(error).__name__})")
    raise failure  # outside of the except clause, so that Spark's error is not attached as context


def _csv(session: Any, paths: list[str], column_count: int, delimiter: str) -> Any:
    """Return a data frame of a csv with every column as text. An empty cell without quotes is null."""
    absent = secrets.token_hex(16)  # a text that no cell has. With "" in its place, empty cells with quotes would be null too
    return session.read.csv(
        paths,
        schema=", ".join(f"{name} STRING" for name in numbered_names(column_count)),
        mode="FAILFAST",
        multiLine=True,
        header=True,
        sep=delimiter,
        quote='"',
        escape='"',
        nullValue=absent,
        emptyValue="",
        encoding="UTF-8",
        maxCharsPerColumn=-1,
    )


def _exact_pattern(path: str) -> str:
    """Return a pattern that matches only this path of the local machine."""
    return "file:" + "".join(f"\\{character}" if character in "*?[]{}\\" else character for character in path)

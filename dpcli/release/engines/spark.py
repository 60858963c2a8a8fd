"""Spark: csv and parquet files that no machine holds; local[*], or what the environment says (spark-submit, spark-defaults.conf)."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from dpcli.base.errors import InputError
from dpcli.base.extras import require
from dpcli.release.engines.conversions import Family
from dpcli.release.engines.engine import SqlEngine
from dpcli.release.engines.files import files_of, header_of
from dpcli.release.engines.statement import Sql
from dpcli.release.engines.table import FoundColumn, FoundTable, SourceTable
from dpcli.release.expressions.writing import DatePartName, ScalarType

VIEW = "dpcli_source"
TYPES: Mapping[ScalarType, str] = {"text": "STRING", "integer": "BIGINT", "decimal": "DOUBLE", "boolean": "BOOLEAN", "date": "DATE"}
FAMILIES: Mapping[str, Family] = {
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), "whole"),
    **dict.fromkeys(("float", "double"), "real"),
    "string": "text",
    "decimal": "exact",
    "boolean": "boolean",
    "date": "date",
    "timestamp_ntz": "timestamp",
}
# Nothing raises on a value, names are exact, days are those of the Gregorian calendar, and a broken line is seen whatever is asked of it.
SETTINGS = {
    "spark.sql.ansi.enabled": "false",
    "spark.sql.caseSensitive": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.csv.parser.columnPruning.enabled": "false",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
}
SUNDAY_IS_1 = "DOW"
OWN_PARTS = {"dow": SUNDAY_IS_1, "isodow": "DOW_ISO"}  # what Spark calls otherwise


class SparkSql:
    """The SQL of Spark 4, ANSI mode off."""

    once, again = "", ""

    def text(self, value: str) -> str:
        return f"CAST(X'{value.encode().hex()}' AS STRING)"  # no character has a meaning of its own

    def cast(self, sql: str, to: ScalarType) -> str:
        return f"try_cast({sql} AS {TYPES[to]})"

    def wide(self, sql: str) -> str:
        return f"CAST({sql} AS DECIMAL(38, 0))"

    def total(self, sql: str) -> str:
        return f"sum({self.wide(sql)})"

    def checked(self, operator: str, left: str, right: str) -> str:
        if operator == "//":  # the one quotient of 64 bits that needs more
            return f"CASE WHEN {right} = -1 THEN try_subtract(CAST(0 AS BIGINT), {left}) ELSE {left} DIV NULLIF({right}, 0) END"
        if operator == "%":
            return f"({left} % NULLIF({right}, 0))"
        return f"{dict(zip('+-*', ('try_add', 'try_subtract', 'try_multiply'), strict=True))[operator]}({left}, {right})"

    def date_part(self, part: DatePartName, sql: str) -> str:
        own = OWN_PARTS.get(part, part.upper())
        number = f"date_part('{own}', {sql})"
        return self.cast(f"({number} - 1)" if own == SUNDAY_IS_1 else number, "integer")

    def list_of(self, numbers: Sequence[str]) -> str:
        return f"array({', '.join(numbers)})"

    def element(self, numbers: str, place: str) -> str:
        return f"get({numbers}, CAST({place} AS INT))"

    def layer(self, columns: str, source: str) -> str:
        return f"SELECT {columns} FROM {source}"

    def digest(self, sql: str) -> str:
        return f"CAST(conv(left(sha2(CAST({sql} AS BINARY), 256), 12), 16, 10) AS BIGINT)"

    def trimmed(self, sql: str) -> str:
        return f"btrim({sql}, ' ')"

    def matches(self, sql: str, pattern: str) -> str:
        return f"({sql} RLIKE {self.text(f'^(?:{pattern}){chr(92)}z')})"

    def whole_of_text(self, sql: str) -> str:
        return self.cast(sql, "integer")

    def number_of_text(self, sql: str) -> str:
        return self.cast(sql, "decimal")

    def date_of_text(self, sql: str) -> str:
        return self.cast(sql, "date")

    def week(self, sql: str) -> str:
        return f"trunc({sql}, 'WEEK')"

    def whole_of_whole(self, sql: str) -> str:
        return self.cast(sql, "integer")

    def whole_of_exact(self, sql: str) -> str:
        return f"CASE WHEN {sql} = floor({sql}) THEN {self.cast(sql, 'integer')} END"

    def number_of_exact(self, sql: str) -> str:
        return self.cast(self.cast(sql, "text"), "decimal")


@dataclass(slots=True)
class Spark(SqlEngine):
    """A session of its own, with the table as a view in it."""

    dialect: ClassVar[Sql] = SparkSql()
    session: Any = field(repr=False)

    def close(self) -> None:
        _quietly(lambda: self.session.catalog.dropTempView(VIEW), "spark")

    def _find(self) -> FoundTable:
        path = self.table.path or ""
        if "://" in path:
            if not path.endswith(".parquet"):
                raise InputError(f"{path}: expected .parquet where the data are at an address, found another ending")
            return self._parquet([path], path)
        files = files_of(path, self.table.folder)
        paths = [_literal(each) for each in files.paths]
        return {"csv": self._csv, "parquet": self._parquet, "duckdb": self._own}[files.kind](paths, path)

    def _csv(self, paths: list[str], place: str) -> FoundTable:
        header = header_of(files_of(place, self.table.folder), self.table.stored)
        frame = _quietly(lambda: _csv(self.session, paths, len(header.names), header.delimiter), place)
        return self._view(frame, header.names, place, named=False)

    def _parquet(self, paths: list[str], place: str) -> FoundTable:
        frame = _quietly(lambda: self.session.read.parquet(*paths), place)
        return self._view(frame, tuple(frame.columns), place)

    def _own(self, paths: list[str], place: str) -> FoundTable:
        raise InputError(f'{place}: expected .csv or .parquet for engine = "spark", found .duckdb')

    def _rows(self, sql: str) -> list[tuple[Any, ...]]:
        place = self.table.path or "spark"
        found: list[tuple[Any, ...]] = _quietly(lambda: self.session.sql(sql).collect(), place)
        return found

    def _view(self, frame: Any, names: tuple[str, ...], place: str, named: bool = True) -> FoundTable:
        """Columns by their places: no name has a meaning of its own."""
        for name in self.table.columns:
            if names.count(name) > 1:
                raise InputError(f'{place}: expected one column "{name}", found {names.count(name)}')
        kinds = [each.dataType.simpleString() for each in frame.schema.fields]
        own = tuple(f"f{number}" for number in range(len(names)))
        _quietly(lambda: frame.toDF(*own).createOrReplaceTempView(VIEW), place)
        columns = {
            name: FoundColumn(sql, FAMILIES.get(kind.partition("(")[0], "other"), kind)
            for name, sql, kind in zip(names, own, kinds, strict=True)
        }
        return FoundTable(VIEW, columns, place, named)


def opened_spark(table: SourceTable) -> Spark:
    """The engine on the table's files. Raises InputError where Spark does not start."""
    require("pyspark")
    from pyspark.sql import SparkSession

    def started() -> Any:
        builder = SparkSession.builder.appName("dpcli").config("spark.ui.enabled", "false")
        session = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
        session.sparkContext.setLogLevel("OFF")  # what a task fails with quotes the row
        return session.newSession()

    session = _quietly(started, "spark")
    for name, value in SETTINGS.items():
        session.conf.set(name, value)
    return Spark(table, session)


def _quietly(call: Any, place: str) -> Any:
    """What a call answers. Raises InputError, which holds nothing of what Spark says: that quotes rows."""
    try:
        return call()
    except Exception as error:  # of py4j, of pyspark, and of what runs below them
        failure = InputError(
            f"{place}: expected data that Spark can read to their end, found some that it cannot ({type(error).__name__})"
        )
    raise failure  # here, as otherwise it would hold Spark's error


def _csv(session: Any, paths: list[str], columns: int, delimiter: str) -> Any:
    """Every column as text; an empty cell is null where it has no quotes."""
    absent = secrets.token_hex(16)  # no cell holds it; one that is null where it is "" would take quoted ones for null too
    schema = ", ".join(f"f{number} STRING" for number in range(columns))
    reader = session.read.schema(schema).option("mode", "FAILFAST").option("multiLine", "true").option("header", "true")
    return reader.csv(
        paths, sep=delimiter, quote='"', escape='"', nullValue=absent, emptyValue="", encoding="UTF-8", maxCharsPerColumn=-1
    )


def _literal(path: str) -> str:
    """A path of this machine as a pattern that stands for itself alone."""
    return "file:" + "".join(f"\\{character}" if character in "*?[]{}\\" else character for character in path)

"""PostgreSQL: a table or a view of a server, read in one snapshot that nothing can write in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from dpcli.base.errors import InputError, LedgerError
from dpcli.base.extras import require
from dpcli.ledger.stores.postgres_connection import driver, place_of, settings_of, unreachable
from dpcli.release.aggregate import Aggregation
from dpcli.release.engines.conversions import LARGEST, SMALLEST, Family
from dpcli.release.engines.engine import SqlEngine, quoted
from dpcli.release.engines.statement import Sql
from dpcli.release.engines.table import FoundColumn, FoundTable, SourceTable
from dpcli.release.expressions.writing import DatePartName, ScalarType

CONNECT_SECONDS = 30
TYPES: Mapping[ScalarType, str] = {
    "text": "text",
    "integer": "bigint",
    "decimal": "double precision",
    "boolean": "boolean",
    "date": "date",
}
FAMILIES: Mapping[str, Family] = {
    **dict.fromkeys(("text", "varchar", "bpchar", "name", "citext", "uuid"), "text"),
    **dict.fromkeys(("int2", "int4", "int8"), "whole"),
    **dict.fromkeys(("float4", "float8"), "real"),
    "numeric": "exact",
    "bool": "boolean",
    "date": "date",
    "timestamp": "timestamp",
}
SNAPSHOT = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY"
# Operators and functions are the server's own: in a schema where others may write, somebody may have put one that fits better.
OWN_NAMES = "SET LOCAL search_path = pg_catalog, pg_temp"
PLAIN_TEXT = "SET LOCAL standard_conforming_strings = on"
TABLES = (
    "SELECT c.oid, n.nspname, c.relname FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace "
    "WHERE c.relkind IN ('r', 'v', 'm', 'f', 'p') AND ((c.relname = %(name)s AND pg_catalog.pg_table_is_visible(c.oid)) "
    "OR n.nspname || '.' || c.relname = %(name)s) ORDER BY c.relname <> %(name)s"
)
COLUMNS = (
    "WITH RECURSIVE below(top, oid) AS (SELECT oid, oid FROM pg_catalog.pg_type UNION ALL "
    "SELECT below.top, d.typbasetype FROM below JOIN pg_catalog.pg_type d ON d.oid = below.oid WHERE d.typtype = 'd') "
    "SELECT a.attname, CASE WHEN t.typtype = 'e' THEN 'text' WHEN n.nspname = 'pg_catalog' OR t.typname = 'citext' THEN t.typname END, "
    "pg_catalog.format_type(a.atttypid, a.atttypmod), t.typname <> 'citext' AND coalesce(o.collisdeterministic, true) "
    "FROM pg_catalog.pg_attribute a JOIN below ON below.top = a.atttypid "
    "JOIN pg_catalog.pg_type t ON t.oid = below.oid AND t.typtype <> 'd' JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace "
    "LEFT JOIN pg_catalog.pg_collation o ON o.oid = a.attcollation "
    "WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum"
)
LEAST, MOST = "-9223372036854775808", "9223372036854775807"


class PostgresSql:
    """The SQL of PostgreSQL 12 and later."""

    once, again = "MATERIALIZED", "NOT MATERIALIZED"

    def text(self, value: str) -> str:
        return self.cast("'{}'".format(value.replace("'", "''")), "text")

    def cast(self, sql: str, to: ScalarType) -> str:
        bytewise = ' COLLATE "C"' if TYPES[to] == "text" else ""
        return f"(CAST({sql} AS {TYPES[to]}){bytewise})"

    def wide(self, sql: str) -> str:
        return f"CAST({sql} AS numeric)"

    def total(self, sql: str) -> str:
        return f"sum({sql})"

    def checked(self, operator: str, left: str, right: str) -> str:
        a, b = self.wide(left), self.wide(right)
        divisions = {"//": f"div({a}, NULLIF({b}, 0))", "%": f"mod({a}, NULLIF({b}, 0))"}
        return self._of_64_bits(divisions.get(operator, f"({a} {operator} {b})"))

    def date_part(self, part: DatePartName, sql: str) -> str:
        return self.cast(f"date_part('{part}', {sql})", "integer")

    def list_of(self, numbers: Sequence[str]) -> str:
        return f"ARRAY[{', '.join(numbers)}]"

    def element(self, numbers: str, place: str) -> str:
        return f"({numbers})[CAST({place} + 1 AS integer)]"

    def layer(self, columns: str, source: str) -> str:
        return f"SELECT {columns} FROM {source} OFFSET 0"  # without it the planner writes inner expressions into outer ones

    def digest(self, sql: str) -> str:
        return f"CAST(CAST('x' || left(encode(sha256(convert_to({sql}, 'UTF8')), 'hex'), 12) AS bit(48)) AS bigint)"

    def trimmed(self, sql: str) -> str:
        return f"btrim({sql}, ' ')"

    def matches(self, sql: str, pattern: str) -> str:
        return f"({sql} ~ '^(?:{pattern})$')"

    def whole_of_text(self, sql: str) -> str:
        return self._of_64_bits(self.wide(sql))

    def number_of_text(self, sql: str) -> str:
        return self.number_of_exact(self.wide(sql))

    def date_of_text(self, sql: str) -> str:
        year, month, day = (f"CAST(substring({sql}, {start}, {length}) AS integer)" for start, length in ((1, 4), (6, 2), (9, 2)))
        leap = f"{year} % 4 = 0 AND ({year} % 100 <> 0 OR {year} % 400 = 0)"
        last = f"CASE WHEN {month} IN (4, 6, 9, 11) THEN 30 WHEN {month} <> 2 THEN 31 WHEN {leap} THEN 29 ELSE 28 END"
        there = f"{year} >= 1 AND {month} BETWEEN 1 AND 12 AND {day} BETWEEN 1 AND {last}"
        return f"CASE WHEN {there} THEN make_date({year}, {month}, {day}) END"

    def week(self, sql: str) -> str:
        return f"CAST(date_trunc('week', CAST({sql} AS timestamp)) AS date)"

    def whole_of_whole(self, sql: str) -> str:
        return self.cast(sql, "integer")

    def whole_of_exact(self, sql: str) -> str:
        return f"CASE WHEN {sql} = trunc({sql}) THEN {self._of_64_bits(sql)} END"

    def number_of_exact(self, sql: str) -> str:
        inside = f"CASE WHEN abs({sql}) < {SMALLEST!r} THEN 0 ELSE {self.cast(sql, 'decimal')} END"
        return f"CASE WHEN abs({sql}) <= {LARGEST!r} THEN {inside} END"

    def _of_64_bits(self, sql: str) -> str:
        return f"CASE WHEN {sql} BETWEEN {LEAST} AND {MOST} THEN {self.cast(sql, 'integer')} END"


@dataclass(slots=True)
class Postgres(SqlEngine):
    """An open snapshot. place: of the server, without its password."""

    dialect: ClassVar[Sql] = PostgresSql()
    place: str
    connection: Any = field(repr=False)

    def check(self, aggregation: Aggregation) -> None:
        """The very statement, planned and not run: the server says what it has no operator for."""
        self._rows(f"EXPLAIN {self._statement(aggregation, b'')}")

    def close(self) -> None:
        self.connection.close()

    def _find(self) -> FoundTable:
        """By its exact name, with or without that of its schema."""
        name = self.table.table or ""
        if "\0" in name:
            raise InputError("source.table: expected a name without NUL, found one with it")
        for setting in (SNAPSHOT, PLAIN_TEXT):
            self._rows(setting)
        if self._rows("SHOW server_encoding") != [("UTF8",)]:
            raise InputError(f"{self.place}: expected a database in the encoding UTF8, found one in another")
        tables = self._rows(TABLES, {"name": name})
        if not tables:
            raise InputError(f'{self.place}: expected a table "{name}" that this user can see, found none')
        oid, schema, table = tables[0]
        columns = {
            column: _column(f"raw.{quoted(column)}", FAMILIES.get(kind, "other"), shown, bytewise)
            for column, kind, shown, bytewise in self._rows(COLUMNS, (oid,))
        }
        self._rows(OWN_NAMES)
        return FoundTable(f"{quoted(schema)}.{quoted(table)} AS raw", columns, f'{self.place}: table "{name}"')

    def _rows(self, sql: str, values: Any = None) -> list[tuple[Any, ...]]:
        """What a statement answers. Raises InputError, which holds nothing of what the server says: that quotes rows."""
        try:
            cursor = self.connection.execute(sql, values)
            found: list[tuple[Any, ...]] = cursor.fetchall() if cursor.description else []
            return found
        except driver().Error as error:
            state = f"SQLSTATE {error.sqlstate}" if error.sqlstate else "the connection was lost"
            failure = InputError(f"{self.place}: expected a table that can be read to its end, found one that cannot ({state})")
        except UnicodeEncodeError:
            failure = InputError(f"{self.place}: expected names in Unicode, found one that is not")
        raise failure  # here, as otherwise it would hold the server's error


def _column(sql: str, family: Family, shown: str, bytewise: bool) -> FoundColumn:
    """What is text in any type (an enum, a uuid, in a collation) is text by its bytes, for which there is every operator."""
    return FoundColumn(PostgresSql().cast(sql, "text") if family == "text" else sql, family, shown, bytewise)


def opened_postgres(table: SourceTable) -> Postgres:
    """The engine on a table of a server. Raises InputError where it cannot be reached; the password is in no message."""
    require("psycopg")
    assert table.url is not None
    settings = settings_of(table.url)
    place = place_of(settings)
    psycopg = driver()
    try:
        connection = psycopg.connect(
            table.url,
            prepare_threshold=None,
            client_encoding="utf8",
            application_name="dpcli",
            connect_timeout=CONNECT_SECONDS,
        )
        return Postgres(table, place, connection)
    except psycopg.Error as error:
        failure: LedgerError = unreachable(place, error, settings)
    raise InputError(str(failure))

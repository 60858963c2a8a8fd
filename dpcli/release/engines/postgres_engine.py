"""The PostgreSQL engine, which reads a table or a view of a server in one read-only snapshot.

An *engine* answers aggregations (exact counts and sums for each key) by one SQL statement each (sql_engine.py). All queries of a release
read one snapshot, whatever others write to its tables meanwhile (a foreign table or a volatile view may still change). Names of functions
are looked up in pg_catalog only, so that no schema of another role can replace one; settings on which literals and dates depend are fixed
for the transaction. Every kind of text is cast to one that is compared by bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from dpcli.base.errors import InputError, LedgerError
from dpcli.base.extras import require
from dpcli.ledger.stores.postgres_connection import driver, place_of, settings_of, unreachable
from dpcli.release.aggregate import Aggregation, quoted
from dpcli.release.data_source import Join
from dpcli.release.engines.conversions import Family
from dpcli.release.engines.dialects import Dialect, PostgresSql
from dpcli.release.engines.source_table import ActualColumn, ActualTable, SourceTable
from dpcli.release.engines.sql_engine import SqlEngine, refused_join

CONNECT_SECONDS = 30  # time after which an unreachable server is an error; arbitrary
FAMILIES: dict[str, Family] = {
    **dict.fromkeys(("text", "varchar", "bpchar", "name", "citext", "uuid"), "text"),
    **dict.fromkeys(("int2", "int4", "int8"), "whole"),
    **dict.fromkeys(("float4", "float8"), "real"),
    "numeric": "exact",
    "bool": "boolean",
    "date": "date",
    "timestamp": "timestamp",
}
# Statements that set up the transaction.
SNAPSHOT = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY"
# Only the server's own operators and functions are used. Others could add better matching ones to a schema in which they may write.
OWN_NAMES = "SET LOCAL search_path = pg_catalog, pg_temp"
USUAL_NAMES = "SET LOCAL search_path TO DEFAULT"  # the schemas in which this user's names of tables are looked up
PLAIN_TEXT = "SET LOCAL standard_conforming_strings = on"  # a backslash in a text literal is an ordinary character
ISO_DATES = "SET LOCAL DateStyle = ISO"  # otherwise the server or the role decides how a date is written as text
# The relations of every kind that can be read with this name, or with this schema.name. `_table` takes the first one. Of several
# relations with this exact name, the search path makes one visible. Two can have this schema.name only if their own names contain dots.
TABLES = (
    "SELECT c.oid, n.nspname, c.relname FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace "
    "WHERE c.relkind IN ('r', 'v', 'm', 'f', 'p') AND ((c.relname = %(name)s AND pg_catalog.pg_table_is_visible(c.oid)) "
    "OR n.nspname || '.' || c.relname = %(name)s) ORDER BY c.relname <> %(name)s"
)
# For each column of a relation: its name, its type for FAMILIES (a domain as its base type, an enum as text, null for a type
# outside of pg_catalog except citext), its full type for messages, and whether texts are equal only if their bytes are.
# A domain may be based on another domain, so `below` follows each type (top) down to its base type, and t.typtype <> 'd' keeps only that
# one. Texts of citext, or with a collation that is not deterministic, may be equal although their bytes differ. The server's own columns
# have numbers below 1, and a dropped column keeps its place in the catalogue.
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


@dataclass(slots=True)
class Postgres(SqlEngine):
    """A table that is open in a snapshot of a PostgreSQL server.

    place: address of the server without the password, for messages.
    """

    dialect: ClassVar[Dialect] = PostgresSql()
    families: ClassVar = FAMILIES
    place: str
    connection: Any = field(repr=False)

    def check(self, aggregation: Aggregation) -> None:
        """Let the server plan the statement without running it. Raises InputError, for example if the server lacks an operator."""
        self._rows(f"EXPLAIN {self._statement(aggregation, b'')}")

    def close(self) -> None:
        self.connection.close()

    def _find(self) -> ActualTable:
        """Start the snapshot and return the table. `SqlEngine` calls this once, before any other statement of the engine.

        Raises InputError as `_table` does, or if the encoding of the database is not UTF-8.
        """
        for setting in (SNAPSHOT, PLAIN_TEXT, ISO_DATES):
            self._rows(setting)
        if self._rows("SHOW server_encoding") != [("UTF8",)]:
            raise InputError(f"{self.place}: expected a database in the encoding UTF8")
        return self._table(self.table.table or "", "source.table")

    def _find_joined(self, number: int, join: Join) -> ActualTable:
        if join.table is None:
            raise refused_join(
                "path", "table where the source is on a server: load the file into a table of its database", f'"{join.path}"'
            )
        return self._table(join.table, "source.join.table")

    def _table(self, name: str, key: str) -> ActualTable:
        """Return the table with the exact name, which may include the schema. Raises InputError if there is none; messages name the key."""
        if "\0" in name:
            raise InputError(f"{key}: expected a name without NUL")
        self._rows(USUAL_NAMES)
        tables = self._rows(TABLES, {"name": name})
        if not tables:
            raise InputError(f'{self.place}: no table "{name}" that this user can see')
        oid, schema, table = tables[0]
        columns = {}
        for column, kind, shown, bytewise in self._rows(COLUMNS, (oid,)):
            columns[column] = _text_or_other(f"raw.{quoted(column)}", self._family(kind or ""), shown, bytewise)
        self._rows(OWN_NAMES)
        return ActualTable(f"{quoted(schema)}.{quoted(table)} AS raw", columns, f'{self.place}: table "{name}"')

    def _rows(self, sql: str, values: Any = None) -> list[tuple[Any, ...]]:
        try:
            cursor = self.connection.execute(sql, values)
            rows: list[tuple[Any, ...]] = cursor.fetchall() if cursor.description else []
            return rows
        except driver().Error as error:
            state = f"SQLSTATE {error.sqlstate}" if error.sqlstate else "the connection was lost"
            failure = InputError(f"{self.place}: the table cannot be read to its end ({state})")
        except UnicodeEncodeError:
            failure = InputError(f"{self.place}: a name is not Unicode")
        raise failure  # outside of the except clause, so that the server's error is not attached as context


def _text_or_other(sql: str, family: Family, shown: str, bytewise: bool) -> ActualColumn:
    """Return a column. Every kind of text (an enum, a uuid, a text with a collation) is cast to text that is compared by its bytes."""
    return ActualColumn(PostgresSql().cast(sql, "text") if family == "text" else sql, family, shown, bytewise)


def open_postgres(table: SourceTable) -> Postgres:
    """Return the table, opened on its server. No message contains the password.

    Raises InputError if the server cannot be reached, and Unavailable if psycopg is not installed.
    """
    require("psycopg")
    assert table.url is not None
    settings = settings_of(table.url)
    place = place_of(settings)
    psycopg = driver()
    try:
        connection = psycopg.connect(
            table.url,
            prepare_threshold=None,  # no prepared statements, since a connection pooler may run a transaction in another process
            client_encoding="utf8",
            application_name="dpcli",
            connect_timeout=CONNECT_SECONDS,
        )
        return Postgres(table, place, connection)
    except psycopg.Error as error:
        failure: LedgerError = unreachable(place, error, settings)
    raise InputError(str(failure))  # the message is the one for a ledger's server, but the error is that of a source

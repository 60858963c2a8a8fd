"""DuckDB, in this process: csv and parquet files, and its own."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from dpcli.base.errors import InputError, LedgerError
from dpcli.base.extras import require
from dpcli.release.aggregate import Aggregation, Totals
from dpcli.release.engines.answers import totals_of
from dpcli.release.engines.conversions import Family
from dpcli.release.engines.duckdb_sql import DuckDBSql
from dpcli.release.engines.engine import SqlEngine, quoted
from dpcli.release.engines.files import PATTERN, Files, Header, files_of, header_of
from dpcli.release.engines.quotes import require_quotes_that_end
from dpcli.release.engines.spill import Spill, spill
from dpcli.release.engines.statement import Sql
from dpcli.release.engines.table import FoundColumn, FoundTable, SourceTable

MEMORY = "256MB"  # what queries may hold; the rest goes to a folder of its own, and the process has about 100 MB besides
THREADS = 4  # each needs memory of its own
LONGEST_ROW, BUFFER = 2**24, 2**25  # bytes of a csv
COLLATIONS = ("noaccent", "nfc")  # no column has both
INTERRUPTED = "Query interrupted"  # what DuckDB makes of a signal
CATALOG = "data"  # of a .duckdb file
FAMILIES: Mapping[str, Family] = {
    **dict.fromkeys(("VARCHAR", "ENUM", "UUID"), "text"),
    **dict.fromkeys(("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT"), "whole"),
    **dict.fromkeys(("UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT"), "whole"),
    **dict.fromkeys(("FLOAT", "DOUBLE"), "real"),
    **dict.fromkeys(("TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS"), "timestamp"),
    "DECIMAL": "exact",
    "BOOLEAN": "boolean",
    "DATE": "date",
}


@dataclass(slots=True)
class DuckDB(SqlEngine):
    """An open table. spill: the folder of what does not fit in memory.

    split: the header of a csv that is read from several places at once.
    """

    dialect: ClassVar[Sql] = DuckDBSql()
    files: Files
    spill: Spill
    connection: Any = field(repr=False)
    split: Header | None = None

    def totals(self, aggregation: Aggregation, secret: bytes) -> Totals:
        """From the middle of a csv, a line within quotes looks like a row, and is refused as a broken one: then it is read in order."""
        sql = self._statement(aggregation, secret)
        try:
            return totals_of(self._rows(sql), aggregation)
        except InputError as error:
            failure = error
        if self.split is None:
            raise failure
        require_quotes_that_end(self.files, self.split.delimiter, LONGEST_ROW)
        self.found = self._csv(in_order=True)
        return self.totals(aggregation, secret)

    def close(self) -> None:
        try:
            self.connection.close()
        finally:
            self.spill.remove()

    def _find(self) -> FoundTable:
        found: FoundTable = {"csv": self._csv, "parquet": self._parquet, "duckdb": self._own}[self.files.kind]()
        return found

    def _csv(self, in_order: bool = False) -> FoundTable:
        header = header_of(self.files, self.table.stored)
        self.split = None if in_order else header
        fields = {name: FoundColumn(f"f{place}", "text", "text") for place, name in enumerate(header.names)}
        return FoundTable(_read_csv(self.files, header, in_order), fields, self.files.place, named=False)

    def _parquet(self) -> FoundTable:
        item = f"read_parquet({_list(self.files.paths)}, hive_partitioning = false)"
        names = self._same_columns()
        kinds = [str(kind) for _, kind, *_ in self._rows(f"DESCRIBE SELECT * FROM {item}")]
        self._require_once(names)
        if len(names) != len(kinds):
            raise InputError(f"{self.files.place}: expected the same columns in every file, found others")
        fields = {name: _column(f"f{place}", kind) for place, (name, kind) in enumerate(zip(names, kinds, strict=True))}
        return FoundTable(f"{item} AS raw({', '.join(f'f{place}' for place in range(len(names)))})", fields, self.files.place)

    def _same_columns(self) -> list[str]:
        """The names of the columns of the first file; what is declared is in every file, of one type, so that no value has to be cast."""
        first, *others = (self._columns_of(path) for path in self.files.paths)
        for name in sorted(self.table.stored):
            if others:
                self._require_one_case(name, {own for columns in (first, *others) for own, _ in columns})
            kind = [each for own, each in first if own == name]
            for columns in others:
                found = [each for own, each in columns if own == name]
                if found != kind:
                    said = " and ".join(dict.fromkeys(str(one[0]) if one else "none" for one in (kind, found)))
                    raise InputError(f'{self.files.place}: expected "{name}" of one type in every file, found {said}')
        return [name for name, _ in first]

    def _require_one_case(self, name: str, found: set[str]) -> None:
        """Across files, DuckDB takes columns that differ by case for one another."""
        twins = sorted(own for own in found if own != name and own.casefold() == name.casefold())
        if twins:
            raise InputError(
                f'{self.files.place}: expected "{name}" in one spelling where there are several files, found "{twins[0]}" too'
            )

    def _columns_of(self, path: str) -> list[tuple[str, str | None]]:
        """Of one parquet file, in order: names and types."""
        file = DuckDBSql().text(_literal(path))
        return _top(self._rows(f"SELECT name, num_children, duckdb_type FROM parquet_schema({file})"))

    def _own(self) -> FoundTable:
        """A table of a DuckDB file, by its exact name."""
        name = self.table.table
        if name is None:
            raise InputError(f"{self.files.place}: expected source.table, the table of the file, found none")
        text = DuckDBSql().text(name)
        columns = self._rows(
            f"SELECT schema_name, table_name, column_name, data_type FROM duckdb_columns() WHERE database_name = '{CATALOG}' "
            f"AND (table_name = {text} OR schema_name || '.' || table_name = {text}) ORDER BY schema_name <> 'main', column_index"
        )
        if not columns:
            raise InputError(f'{self.files.place}: expected a table "{name}", found none')
        schema, table = columns[0][:2]
        own = [(column, kind) for a, b, column, kind in columns if (a, b) == (schema, table)]
        item = f"{CATALOG}.{quoted(schema)}.{quoted(table)} AS raw"
        self._rows(f"SELECT * FROM {item} LIMIT 0")  # no row: a view may have lost what it was made of
        fields = {column: self._own_column(item, column, kind) for column, kind in own if column in self.table.columns}
        others = tuple(column for column, _ in own if column not in fields)
        return FoundTable(item, fields, f'{self.files.place}: table "{name}"', others=others)

    def _own_column(self, item: str, name: str, kind: str) -> FoundColumn:
        """By its bytes where it has a collation, which is nowhere told, but cannot be compared with another one."""
        sql = f"raw.{quoted(name)}"
        others = ", ".join(f"{sql} = ('' COLLATE {collation})" for collation in COLLATIONS)
        if kind != "VARCHAR" or self._binds(f"SELECT {others} FROM {item} LIMIT 0"):
            return _column(sql, kind)
        return FoundColumn(f"decode(encode({sql}))", _family(kind), f"{kind} with a collation", bytewise=False)

    def _binds(self, sql: str) -> bool:
        """Whether a statement that reads no row has a meaning."""
        import duckdb

        try:
            self.connection.execute(sql)
        except duckdb.Error:
            return False
        return True

    def _require_once(self, names: Sequence[str]) -> None:
        for name in self.table.columns:
            if names.count(name) > 1:
                raise InputError(f'{self.files.place}: expected one column "{name}", found {names.count(name)}')

    def _rows(self, sql: str) -> list[tuple[Any, ...]]:
        """What a statement answers. Raises InputError, which holds nothing of what the engine says: that quotes rows."""
        import duckdb

        try:
            found: list[tuple[Any, ...]] = self.connection.execute(sql).fetchall()
            return found
        except duckdb.Error as error:
            failure = self._meaning(error)
        except RuntimeError as error:
            if str(error) != INTERRUPTED:
                raise
            raise KeyboardInterrupt from None
        raise failure  # here, as otherwise it would hold the engine's error

    def _meaning(self, error: Exception) -> InputError | LedgerError:
        import duckdb

        if isinstance(error, duckdb.OutOfMemoryException):
            return LedgerError(
                f"{self.files.place}: expected room on the disk of {tempfile.gettempdir()} for what does not fit in memory"
            )
        return InputError(
            f"{self.files.place}: expected files that can be read to their end, found some that cannot ({type(error).__name__})"
        )


def opened_duckdb(table: SourceTable) -> DuckDB:
    """The engine on the table's files. Raises InputError where they cannot be opened."""
    require("duckdb")
    import duckdb

    assert table.path is not None
    files = files_of(table.path, table.folder)
    room = spill()
    settings: dict[str, str | bool | int | float | list[str]] = {
        "memory_limit": MEMORY,
        "threads": min(THREADS, os.cpu_count() or 1),
        "temp_directory": room.path,
        "preserve_insertion_order": False,
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
    }
    try:
        connection = duckdb.connect(config=settings)
        {"csv": _nothing, "parquet": _nothing, "duckdb": _attach}[files.kind](connection, files)
        _harden(connection, files)
        return DuckDB(table, files, room, connection)
    except duckdb.Error as error:
        failure = InputError(
            f"{files.place}: expected a file that DuckDB can open, found one that it cannot, or one in use ({type(error).__name__})"
        )
    except BaseException:
        room.remove()
        raise
    room.remove()
    raise failure


def _attach(connection: Any, files: Files) -> None:
    """A .duckdb file as a catalog of its own: a macro in it that is called as a function of the plan would be called in its place."""
    connection.execute(f"ATTACH {DuckDBSql().text(files.paths[0])} AS {CATALOG} (READ_ONLY)")


def _nothing(connection: Any, files: Files) -> None:
    """What is read by a function needs no preparation."""


def _harden(connection: Any, files: Files) -> None:
    """No other file, no network, nothing that a view of the file could change."""
    paths = ", ".join(map(DuckDBSql().text, files.paths))
    connection.execute(f"SET allowed_paths = [{paths}]")
    connection.execute(f"SET allowed_directories = {_folders(files.paths)}")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")


def _read_csv(files: Files, header: Header, in_order: bool) -> str:
    """Every column as text; an empty cell is null where it has no quotes. in_order: from its start on, by one thread."""
    sql = DuckDBSql()
    columns = ", ".join(f"'f{place}': 'VARCHAR'" for place in range(len(header.names)))
    return (
        f"read_csv({_list(files.paths)}, auto_detect = false, header = true, delim = {sql.text(header.delimiter)}, quote = '\"', "
        "escape = '\"', nullstr = '', allow_quoted_nulls = false, null_padding = false, hive_partitioning = false, strict_mode = true, "
        f"parallel = {'false' if in_order else 'true'}, max_line_size = {LONGEST_ROW}, buffer_size = {BUFFER}, columns = {{{columns}}})"
    )


def _list(paths: Sequence[str]) -> str:
    return f"[{', '.join(DuckDBSql().text(_literal(path)) for path in paths)}]"


def _literal(path: str) -> str:
    """A path as a pattern that stands for itself alone."""
    return "".join(f"[{character}]" if character in PATTERN else character for character in path)


def _folders(paths: Sequence[str]) -> str:
    """Of paths that are written as patterns: what is above their first special character, which is looked through for them."""
    above = {os.path.dirname(re.split(r"[*?[]", path)[0]) for path in paths if path != _literal(path)}
    return f"[{', '.join(DuckDBSql().text(folder) for folder in sorted(above))}]"


def _column(sql: str, kind: str) -> FoundColumn:
    """The day of a time of nanoseconds is that of its text: a cast rounds, and the last of a day would be in the next one."""
    if kind != "TIMESTAMP_NS":
        return FoundColumn(sql, _family(kind), kind)
    return FoundColumn(f"TRY_CAST(left(TRY_CAST({sql} AS VARCHAR), 10) AS DATE)", "date", kind)


def _family(kind: str) -> Family:
    return FAMILIES.get(kind.partition("(")[0], "other") if not kind.endswith("]") else "other"


def _top(schema: Sequence[tuple[Any, ...]]) -> list[tuple[str, str | None]]:
    """Names and types of a parquet file's columns, in order: its schema lists a node before its children."""
    columns, inner = [], 0
    for name, children, kind in schema[1:]:
        if inner == 0:
            columns.append((str(name), kind))
        inner += (children or 0) - (inner > 0)
    return columns

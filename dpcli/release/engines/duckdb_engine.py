"""The DuckDB engine, which reads csv, parquet and .duckdb files in this process.

An *engine* answers an aggregation (aggregate.py) by its exact *totals*, the counts and sums for each key. sql_statement.py writes the
query, in the dialect of dialects.py; this module opens the table, names its columns and types, and runs the query. Rows that do not fit in
memory are written to a *spill folder*, which is removed at the end. What DuckDB would decide silently is refused (columns whose types
differ between files, names that differ by case) or converted (texts with a collation, to be compared by their bytes). `harden` denies a
view of the file the network and all files but those of [source]; it must run before the table is read. No message quotes DuckDB's own,
which may contain values of rows.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from dpcli.base.errors import DpcliError, InputError, LedgerError
from dpcli.base.extras import require
from dpcli.release.aggregate import Aggregation, Totals, quoted
from dpcli.release.data_source import Join
from dpcli.release.engines.conversions import Family
from dpcli.release.engines.dialects import COLLATIONS, Dialect, DuckDBSql
from dpcli.release.engines.source_files import PATTERN, Files, Header, Kind, files_of, header_of, public_file, require_closed_quotes
from dpcli.release.engines.source_table import ActualColumn, ActualTable, SourceTable
from dpcli.release.engines.spill_folder import SpillFolder, spill_folder
from dpcli.release.engines.sql_engine import SqlEngine, numbered_names, refused_join, require_once

# Choices of speed against memory. They change no answer; a csv with a longer row is refused.
MEMORY = "256MB"  # memory of queries, beyond which rows are spilled; the process takes about 100 MB in addition
THREADS = 4  # largest number of threads, since each takes memory
LONGEST_ROW, BUFFER = 2**24, 2**25  # largest size of a csv row, and size of the read buffer, which holds two rows, in bytes
INTERRUPTED = "Query interrupted"  # message of DuckDB's RuntimeError after a signal
CATALOG = "data"  # name of an attached .duckdb file
FAMILIES: dict[str, Family] = {
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
    """A table that is open in DuckDB.

    spill: folder for rows that do not fit in memory.
    parallel_csv: header of a csv that is read by several threads at once. None for other files, and for a csv that one thread reads.
    """

    dialect: ClassVar[Dialect] = DuckDBSql()
    families: ClassVar = FAMILIES
    files: Files
    spill: SpillFolder
    connection: Any = field(repr=False)
    parallel_csv: Header | None = None

    def totals(self, aggregation: Aggregation, secret: bytes) -> Totals:
        """Return the exact totals, as `SqlEngine.totals` does.

        A csv is first read by several threads, each from a different offset. If this fails, a thread may have mistaken a line break within
        quotes for the end of a row. The csv is then read again by one thread from its start.
        """
        try:
            return SqlEngine.totals(self, aggregation, secret)
        except InputError as error:
            failure = error
        if self.parallel_csv is None:
            raise failure
        require_closed_quotes(self.files, self.parallel_csv.delimiter, LONGEST_ROW)
        self.actual = replace(self._csv(in_order=True), joined=self._tables().joined)
        return self.totals(aggregation, secret)  # `parallel_csv` is None now, so a second failure is final

    def close(self) -> None:
        try:
            self.connection.close()
        finally:
            self.spill.remove()

    def _find(self) -> ActualTable:
        # The kind "memory" is missing: its engine, GivenDuckDB, has its own `_find`.
        finders: dict[Kind, Callable[[], ActualTable]] = {
            "csv": self._csv,
            "parquet": lambda: self._parquet(self.files, self.table.stored),
            "duckdb": lambda: self._table_of_database(self.table.table, self.table.stored),
        }
        return finders[self.files.kind]()

    def _find_joined(self, number: int, join: Join) -> ActualTable:
        wanted = frozenset((join.on, *join.columns))
        if join.path is None:
            if self.files.kind != "duckdb":
                raise refused_join("table", "path where the source is no database", f'"{join.table}"')
            return self._table_of_database(join.table, wanted)
        files = public_file(join.path, self.table.folder)
        if files.kind == "parquet":
            return self._parquet(files, wanted)
        header = header_of(files, wanted)
        require_closed_quotes(files, header.delimiter, LONGEST_ROW)  # DuckDB leaves out what follows an unclosed quote
        return csv_table(files, header, in_order=True)

    def _csv(self, in_order: bool = False) -> ActualTable:
        """Return the table of csv files, and note in `parallel_csv` whether several threads read it. in_order: whether one thread does."""
        header = header_of(self.files, self.table.stored)
        self.parallel_csv = None if in_order else header
        return csv_table(self.files, header, in_order=in_order)

    def _parquet(self, files: Files, wanted: frozenset[str]) -> ActualTable:
        """Return the table of parquet files. wanted: names of the columns that are used, here and below."""
        item = f"read_parquet({_sql_list(files.paths)}, hive_partitioning = false)"
        # DESCRIBE gives the types that all files have together. It would give new names to columns whose names differ only by case.
        names = self._column_names(files, wanted)
        kinds = [str(kind) for _, kind, *_ in self._rows(f"DESCRIBE SELECT * FROM {item}", files.place)]
        require_once(wanted, names, files.place)
        if len(names) != len(kinds):
            raise InputError(
                f"{files.place}: {len(names)} columns in the first file, {len(kinds)} in all files together: expected equal "
                "columns in every file"
            )
        sql_names = numbered_names(len(names))
        fields = {name: self._column(sql, kind) for name, sql, kind in zip(names, sql_names, kinds, strict=True)}
        return ActualTable(f"{item} AS raw({', '.join(sql_names)})", fields, files.place)

    def _column_names(self, files: Files, wanted: frozenset[str]) -> list[str]:
        """Return the column names of the first file.

        Raises InputError if a wanted column has different types in different files, so that DuckDB would cast its values, or another name
        differs from the wanted one only by case, so that DuckDB would take the two for one column.
        """
        place = files.place
        first, *others = (self._parquet_columns(path, place) for path in files.paths)
        names = {name for columns in (first, *others) for name, _ in columns}
        for declared in sorted(wanted) if others else ():  # one file contradicts no other
            spellings = sorted(name for name in names if name != declared and name.casefold() == declared.casefold())
            if spellings:
                raise InputError(f'{place}: expected "{declared}" in one spelling in all files, found "{spellings[0]}" too')
            first_kinds = _kinds_of(declared, first)
            for columns in others:
                kinds = _kinds_of(declared, columns)
                if kinds != first_kinds:
                    shown = dict.fromkeys(str(found_kinds[0]) if found_kinds else "none" for found_kinds in (first_kinds, kinds))
                    raise InputError(f'{place}: expected "{declared}" of one type in every file, found {" and ".join(shown)}')
        return [name for name, _ in first]

    def _parquet_columns(self, path: str, place: str) -> list[tuple[str, str | None]]:
        """Return the names and types of the columns of a parquet file, in order. place: place of the file, for messages."""
        file = DuckDBSql().text(_exact_pattern(path))
        return _top_columns(self._rows(f"SELECT name, num_children, duckdb_type FROM parquet_schema({file})", place))

    def _table_of_database(self, name: str | None, wanted: frozenset[str]) -> ActualTable:
        """Return the table of a DuckDB file with the exact name. Raises InputError if there is none."""
        if name is None:
            raise InputError(f"{self.files.place}: source.table is missing: it must name a table of the file")
        text = DuckDBSql().text(name)
        columns = self._rows(
            f"SELECT schema_name, table_name, column_name, data_type FROM duckdb_columns() WHERE database_name = '{CATALOG}' "
            f"AND (table_name = {text} OR schema_name || '.' || table_name = {text}) ORDER BY schema_name <> 'main', column_index"
        )
        if not columns:
            raise InputError(f'{self.files.place}: no table "{name}"')
        # Tables in the schema main come first, so a name without a schema means the one there if there are several.
        schema, table = columns[0][:2]
        kinds = {column: kind for *names, column, kind in columns if names == [schema, table]}
        item = f"{CATALOG}.{quoted(schema)}.{quoted(table)} AS raw"
        self._rows(f"SELECT * FROM {item} LIMIT 0")  # reads no row, but fails if the tables of a view are missing
        fields = {name: self._bytewise_column(item, name, kind) for name, kind in kinds.items() if name in wanted}
        others = tuple(name for name in kinds if name not in fields)
        return ActualTable(item, fields, f'{self.files.place}: table "{name}"', others=others)

    def _bytewise_column(self, item: str, name: str, kind: str) -> ActualColumn:
        """Return a column whose texts are compared by their bytes.

        DuckDB does not list the collation of a column. But it refuses to compare two texts with different collations. So a column with a
        collation cannot be compared with both COLLATIONS.
        """
        sql = f"raw.{quoted(name)}"
        comparisons = ", ".join(f"{sql} = ('' COLLATE {collation})" for collation in COLLATIONS)
        if kind != "VARCHAR" or self._binds(f"SELECT {comparisons} FROM {item} LIMIT 0"):
            return self._column(sql, kind)
        return ActualColumn(f"decode(encode({sql}))", self._family(kind), f"{kind} with a collation", bytewise=False)

    def _column(self, sql: str, kind: str) -> ActualColumn:
        """Return a column. The day of a timestamp in nanoseconds is taken from its text, since a cast may round it up to the next day."""
        if kind != "TIMESTAMP_NS":
            return SqlEngine._column(self, sql, kind)
        return ActualColumn(f"TRY_CAST(left(TRY_CAST({sql} AS VARCHAR), 10) AS DATE)", "date", kind)

    def _binds(self, sql: str) -> bool:
        """Return whether DuckDB accepts a statement that reads no row."""
        import duckdb

        try:
            self.connection.execute(sql)
        except duckdb.Error:
            return False
        return True

    def _rows(self, sql: str, place: str | None = None) -> list[tuple[Any, ...]]:
        """Return the rows as `SqlEngine._rows` does. place: place of the file that is read, for messages; None for the source."""
        import duckdb

        try:
            rows: list[tuple[Any, ...]] = self.connection.execute(sql).fetchall()
            return rows
        except duckdb.OutOfMemoryException:
            failure: DpcliError = LedgerError(
                f"{self.files.place}: the disk of {tempfile.gettempdir()} has no room for rows that do not fit in memory"
            )
        except duckdb.Error as error:
            failure = InputError(f"{place or self.files.place}: a file cannot be read to its end ({type(error).__name__})")
        except RuntimeError as error:
            if str(error) != INTERRUPTED:
                raise
            raise KeyboardInterrupt from None
        raise failure  # outside of the except clause, so that DuckDB's error is not attached as context


def open_duckdb(table: SourceTable) -> DuckDB:
    """Return the table of the files at `table.path`, opened in DuckDB.

    Raises InputError if there is no such file or DuckDB cannot open it, and Unavailable if DuckDB is not installed.
    """
    require("duckdb")
    import duckdb

    assert table.path is not None
    files = files_of(table.path, table.folder)
    public = public_paths(table)
    spill = spill_folder()
    try:
        connection = connected(spill)
        if files.kind == "duckdb":
            # The file gets a catalog of its own, so that no macro of the file can replace a function with the same name.
            connection.execute(f"ATTACH {DuckDBSql().text(files.paths[0])} AS {CATALOG} (READ_ONLY)")
        harden(connection, (*files.paths, *public))
        return DuckDB(table, files, spill, connection)
    except duckdb.Error as error:
        failure = InputError(f"{files.place}: DuckDB cannot open the file, or it is in use ({type(error).__name__})")
    except BaseException:
        spill.remove()
        raise
    spill.remove()
    raise failure


def connected(spill: SpillFolder) -> Any:
    """Return a new connection of DuckDB with dpcli's settings. Rows that do not fit in memory are written to the spill folder."""
    import duckdb

    settings: dict[str, str | bool | int | float | list[str]] = {
        "memory_limit": MEMORY,
        "threads": min(THREADS, os.cpu_count() or 1),
        "temp_directory": spill.path,
        "preserve_insertion_order": False,
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
    }
    return duckdb.connect(config=settings)


def public_paths(table: SourceTable) -> tuple[str, ...]:
    """Return the paths of the files that are joined with a table. Raises InputError unless each is a csv or parquet file."""
    return tuple(path for join in table.joins if join.path is not None for path in public_file(join.path, table.folder).paths)


def csv_table(files: Files, header: Header, in_order: bool) -> ActualTable:
    """Return the table of csv files, whose columns are all texts. in_order: whether one thread reads each file from its start."""
    sql_names = numbered_names(len(header.names))
    fields = {name: ActualColumn(sql, "text", "text") for name, sql in zip(header.names, sql_names, strict=True)}
    # named: a message must not list the columns, because the first line may be a private row.
    return ActualTable(_read_csv(files, header, in_order), fields, files.place, named=False)


def harden(connection: Any, files: Sequence[str]) -> None:
    """Forbid access to all other files and to the network, and lock the settings, which a view of the file might change."""
    paths = ", ".join(map(DuckDBSql().text, files))
    connection.execute(f"SET allowed_paths = [{paths}]")
    connection.execute(f"SET allowed_directories = {_folders(files)}")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")


def _read_csv(files: Files, header: Header, in_order: bool) -> str:
    """Return SQL that reads every column of a csv as text. An empty cell without quotes is null.

    in_order: whether one thread reads a file from its start; otherwise several threads read parts of it.
    """
    sql = DuckDBSql()
    columns = ", ".join(f"'{name}': 'VARCHAR'" for name in numbered_names(len(header.names)))
    # Nothing is left to DuckDB's guesses, which follow from the first rows.
    options = (
        "auto_detect = false",
        "header = true",
        f"delim = {sql.text(header.delimiter)}",
        "quote = '\"'",
        "escape = '\"'",
        "nullstr = ''",
        "allow_quoted_nulls = false",
        "null_padding = false",
        "hive_partitioning = false",
        "strict_mode = true",
        f"parallel = {'false' if in_order else 'true'}",
        f"max_line_size = {LONGEST_ROW}",
        f"buffer_size = {BUFFER}",
        f"columns = {{{columns}}}",
    )
    return f"read_csv({_sql_list(files.paths)}, {', '.join(options)})"


def _sql_list(paths: Sequence[str]) -> str:
    """Return paths as an SQL list of patterns, each of which matches only its path."""
    return f"[{', '.join(DuckDBSql().text(_exact_pattern(path)) for path in paths)}]"


def _exact_pattern(path: str) -> str:
    """Return a pattern that matches only this path."""
    return "".join(f"[{character}]" if character in PATTERN else character for character in path)


def _folders(paths: Sequence[str]) -> str:
    """Return the folders that DuckDB lists for paths with characters of patterns, to match their exact patterns, as an SQL list."""
    folders = {os.path.dirname(re.split(r"[*?[]", path)[0]) for path in paths if path != _exact_pattern(path)}
    return f"[{', '.join(map(DuckDBSql().text, sorted(folders)))}]"


def _top_columns(schema: Sequence[tuple[Any, ...]]) -> list[tuple[str, str | None]]:
    """Return the names and types of the top-level columns in a parquet schema, which lists each node before its children."""
    columns, nodes_below = [], 0  # number of nodes below the last column that have not been listed yet
    for name, children, kind in schema[1:]:  # the first node is the table
        if nodes_below == 0:
            columns.append((str(name), kind))
        else:
            nodes_below -= 1
        nodes_below += children or 0
    return columns


def _kinds_of(name: str, columns: list[tuple[str, str | None]]) -> list[str | None]:
    return [kind for column, kind in columns if column == name]

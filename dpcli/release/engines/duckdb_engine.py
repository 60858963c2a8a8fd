"""The DuckDB engine, which reads csv, parquet and .duckdb files in this process.

Rows that do not fit in memory are written to a spill folder, which is removed at the end.
"""

from __future__ import annotations

import csv
import glob
import gzip
import io
import os
import re
import shutil
import tempfile
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, ClassVar

from dpcli.base.errors import InputError, LedgerError
from dpcli.base.extras import require
from dpcli.release.aggregate import Aggregation, Totals, quoted
from dpcli.release.engines.conversions import Family
from dpcli.release.engines.dialects import Dialect, DuckDBSql
from dpcli.release.engines.source_files import PATTERN, Files, Header, Kind, files_of, header_of
from dpcli.release.engines.source_table import ActualColumn, ActualTable, SourceTable
from dpcli.release.engines.sql_engine import SqlEngine

SPILL_PREFIX = "dpcli-spill-"  # prefix of the names of spill folders
MEMORY = "256MB"  # memory of queries, beyond which rows are spilled; the process takes about 100 MB in addition
THREADS = 4  # largest number of threads, since each takes memory
LONGEST_ROW, BUFFER = 2**24, 2**25  # largest size of a csv row, and size of the read buffer, in bytes
COLLATIONS = ("noaccent", "nfc")  # two different collations, so that every column lacks one of them
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

    Attributes:
        files: The files of the table.
        spill: Folder for rows that do not fit in memory.
        connection: Connection of DuckDB.
        split: Header of a csv that is read by several threads at once; None for other files, and for a csv that is read in order.
    """

    dialect: ClassVar[Dialect] = DuckDBSql()
    families: ClassVar = FAMILIES
    files: Files
    spill: SpillFolder
    connection: Any = field(repr=False)
    split: Header | None = None

    def totals(self, aggregation: Aggregation, secret: bytes) -> Totals:
        """Return the exact totals, as `SqlEngine.totals` does.

        A csv is first read by several threads, each from a different offset. If this fails, a thread may have mistaken a line break within
        quotes for the end of a row. The csv is then read again by one thread from its start.
        """
        try:
            return SqlEngine.totals(self, aggregation, secret)
        except InputError as error:
            failure = error
        if self.split is None:
            raise failure
        require_closed_quotes(self.files, self.split.delimiter, LONGEST_ROW)
        self.actual = self._csv(in_order=True)
        return self.totals(aggregation, secret)

    def close(self) -> None:
        try:
            self.connection.close()
        finally:
            self.spill.remove()

    def _find(self) -> ActualTable:
        find: Mapping[Kind, Callable[[], ActualTable]] = {"csv": self._csv, "parquet": self._parquet, "duckdb": self._own}
        return find[self.files.kind]()

    def _csv(self, in_order: bool = False) -> ActualTable:
        header = header_of(self.files, self.table.stored)
        self.split = None if in_order else header
        fields = {name: ActualColumn(f"f{place}", "text", "text") for place, name in enumerate(header.names)}
        return ActualTable(_read_csv(self.files, header, in_order), fields, self.files.place, named=False)

    def _parquet(self) -> ActualTable:
        item = f"read_parquet({_list(self.files.paths)}, hive_partitioning = false)"
        names = self._same_columns()
        kinds = [str(kind) for _, kind, *_ in self._rows(f"DESCRIBE SELECT * FROM {item}")]
        self._require_once(names, self.files.place)
        if len(names) != len(kinds):
            raise InputError(
                f"{self.files.place}: {len(names)} columns in the first file, {len(kinds)} in all files together: expected equal "
                "columns in every file"
            )
        fields = {name: self._column(f"f{place}", kind) for place, (name, kind) in enumerate(zip(names, kinds, strict=True))}
        return ActualTable(f"{item} AS raw({', '.join(f'f{place}' for place in range(len(names)))})", fields, self.files.place)

    def _same_columns(self) -> list[str]:
        """Return the column names of the first file.

        Raises:
            InputError: A declared column has different types in different files, so that DuckDB would cast its values.
        """
        first, *others = (self._columns_of(path) for path in self.files.paths)
        for name in sorted(self.table.stored):
            if others:
                self._require_one_case(name, {own for columns in (first, *others) for own, _ in columns})
            kind = [each for own, each in first if own == name]
            for columns in others:
                other = [each for own, each in columns if own == name]
                if other != kind:
                    kinds = " and ".join(dict.fromkeys(str(one[0]) if one else "none" for one in (kind, other)))
                    raise InputError(f'{self.files.place}: expected "{name}" of one type in every file, found {kinds}')
        return [name for name, _ in first]

    def _require_one_case(self, name: str, names: set[str]) -> None:
        """Raise InputError if another column's name differs only by case, since DuckDB would identify the two across files."""
        twins = sorted(own for own in names if own != name and own.casefold() == name.casefold())
        if twins:
            raise InputError(f'{self.files.place}: expected "{name}" in one spelling in all files, found "{twins[0]}" too')

    def _columns_of(self, path: str) -> list[tuple[str, str | None]]:
        """Return the names and types of the columns of a parquet file, in order."""
        file = DuckDBSql().text(_literal(path))
        return _top(self._rows(f"SELECT name, num_children, duckdb_type FROM parquet_schema({file})"))

    def _own(self) -> ActualTable:
        """Return the table of a DuckDB file with the exact name. Raises InputError if there is none."""
        name = self.table.table
        if name is None:
            raise InputError(f"{self.files.place}: source.table is missing: it must name a table of the file")
        text = DuckDBSql().text(name)
        columns = self._rows(
            f"SELECT schema_name, table_name, column_name, data_type FROM duckdb_columns() WHERE database_name = '{CATALOG}' "
            f"AND (table_name = {text} OR schema_name || '.' || table_name = {text}) ORDER BY schema_name <> 'main', column_index"
        )
        if not columns:
            raise InputError(f'{self.files.place}: no table "{name}"')
        schema, table = columns[0][:2]
        own = [(column, kind) for a, b, column, kind in columns if (a, b) == (schema, table)]
        item = f"{CATALOG}.{quoted(schema)}.{quoted(table)} AS raw"
        self._rows(f"SELECT * FROM {item} LIMIT 0")  # reads no row, but fails if the tables of a view are missing
        fields = {column: self._own_column(item, column, kind) for column, kind in own if column in self.table.columns}
        others = tuple(column for column, _ in own if column not in fields)
        return ActualTable(item, fields, f'{self.files.place}: table "{name}"', others=others)

    def _own_column(self, item: str, name: str, kind: str) -> ActualColumn:
        """Return a column whose texts are compared by their bytes.

        DuckDB does not list the collation of a column. But it refuses to compare two texts with different collations. So a column with a
        collation cannot be compared with both COLLATIONS.
        """
        sql = f"raw.{quoted(name)}"
        others = ", ".join(f"{sql} = ('' COLLATE {collation})" for collation in COLLATIONS)
        if kind != "VARCHAR" or self._binds(f"SELECT {others} FROM {item} LIMIT 0"):
            return self._column(sql, kind)
        return ActualColumn(f"decode(encode({sql}))", self._family(kind), f"{kind} with a collation", bytewise=False)

    def _column(self, sql: str, kind: str) -> ActualColumn:
        """Return a column. The day of a timestamp in nanoseconds is taken from its text, since a cast may round it up to the next day."""
        if kind != "TIMESTAMP_NS":
            return ActualColumn(sql, self._family(kind), kind)
        return ActualColumn(f"TRY_CAST(left(TRY_CAST({sql} AS VARCHAR), 10) AS DATE)", "date", kind)

    def _binds(self, sql: str) -> bool:
        """Return whether DuckDB accepts a statement that reads no row."""
        import duckdb

        try:
            self.connection.execute(sql)
        except duckdb.Error:
            return False
        return True

    def _rows(self, sql: str) -> list[tuple[Any, ...]]:
        import duckdb

        try:
            rows: list[tuple[Any, ...]] = self.connection.execute(sql).fetchall()
            return rows
        except duckdb.Error as error:
            failure = self._meaning(error)
        except RuntimeError as error:
            if str(error) != INTERRUPTED:
                raise
            raise KeyboardInterrupt from None
        raise failure  # outside of the except clause, so that DuckDB's error is not attached as context

    def _meaning(self, error: Exception) -> InputError | LedgerError:
        import duckdb

        if isinstance(error, duckdb.OutOfMemoryException):
            return LedgerError(
                f"{self.files.place}: the disk of {tempfile.gettempdir()} has no room for rows that do not fit in memory"
            )
        return InputError(f"{self.files.place}: a file cannot be read to its end ({type(error).__name__})")


def open_duckdb(table: SourceTable) -> DuckDB:
    """Return the table, opened in DuckDB. Raises InputError if a file cannot be opened, and Unavailable if DuckDB is not installed."""
    require("duckdb")
    import duckdb

    assert table.path is not None
    files = files_of(table.path, table.folder)
    spill = spill_folder()
    try:
        connection = connected(spill)
        if files.kind == "duckdb":
            # The file gets a catalog of its own, so that no macro of the file can replace a function with the same name.
            connection.execute(f"ATTACH {DuckDBSql().text(files.paths[0])} AS {CATALOG} (READ_ONLY)")
        harden(connection, files)
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


def harden(connection: Any, files: Files) -> None:
    """Forbid access to all other files and to the network, and lock the settings, which a view of the file might change."""
    paths = ", ".join(map(DuckDBSql().text, files.paths))
    connection.execute(f"SET allowed_paths = [{paths}]")
    connection.execute(f"SET allowed_directories = {_folders(files.paths)}")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")


def _read_csv(files: Files, header: Header, in_order: bool) -> str:
    """Return SQL that reads every column of a csv as text. An empty cell without quotes is null.

    Args:
        files: The csv files.
        header: Header of the files.
        in_order: Whether one thread reads a file from its start. Otherwise several threads read parts of it.
    """
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
    """Return a pattern that matches only this path."""
    return "".join(f"[{character}]" if character in PATTERN else character for character in path)


def _folders(paths: Sequence[str]) -> str:
    """Return the folders that DuckDB lists for paths that contain characters of patterns, as an SQL list."""
    above = {os.path.dirname(re.split(r"[*?[]", path)[0]) for path in paths if path != _literal(path)}
    return f"[{', '.join(DuckDBSql().text(folder) for folder in sorted(above))}]"


def _top(schema: Sequence[tuple[Any, ...]]) -> list[tuple[str, str | None]]:
    """Return the names and types of the top-level columns in a parquet schema, which lists each node before its children."""
    columns, inner = [], 0
    for name, children, kind in schema[1:]:
        if inner == 0:
            columns.append((str(name), kind))
        inner += (children or 0) - (inner > 0)
    return columns


@dataclass(frozen=True, slots=True)
class SpillFolder:
    """A folder that no other user can read.

    Attributes:
        path: Path of the folder.
        lock: Locked file descriptor of the folder. The system releases the lock when the process ends.
    """

    path: str
    lock: int

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        with suppress(OSError):
            os.close(self.lock)


def spill_folder() -> SpillFolder:
    """Return a new spill folder, after removing the spill folders of dead processes of this user."""
    for path in glob.glob(os.path.join(glob.escape(tempfile.gettempdir()), f"{SPILL_PREFIX}*")):
        abandoned = _locked(path)
        if abandoned is not None:
            abandoned.remove()
    while True:
        folder = _locked(tempfile.mkdtemp(prefix=SPILL_PREFIX))
        if folder is not None:
            return folder


def _locked(path: str) -> SpillFolder | None:
    """Lock a folder for this process and return it.

    The result is None if another process has locked the folder, if the folder belongs to another user, or if it was removed.
    """
    import fcntl

    with suppress(OSError):
        lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            own = os.fstat(lock)
            if own.st_uid == os.geteuid() and os.path.samestat(own, os.stat(path)):
                return SpillFolder(path, lock)
        except OSError:
            pass
        os.close(lock)
    return None


def require_closed_quotes(files: Files, delimiter: str, longest: int) -> None:
    """Raise InputError if a csv cannot be parsed in order. The message shows no cell.

    A csv cannot be parsed if a file ends within quotes, if a cell continues after its closing quotes, or if a cell has more than `longest`
    bytes.
    """
    failure = None
    with _cells_of(longest):
        for path in files.paths:
            try:
                with _opened(path) as file:
                    deque(csv.reader(file, delimiter=delimiter, strict=True), maxlen=0)
            except (csv.Error, OSError, EOFError, zlib.error):
                failure = InputError(f"{files.place}: a cell has misplaced or unclosed quotes, or a file cannot be read")
    if failure is not None:
        raise failure


def _opened(path: str) -> io.TextIOWrapper:
    """Return a csv file opened as text in which each byte is one character. A file named .gz is decompressed."""
    file = gzip.open(path, "rb") if path.lower().endswith(".gz") else open(path, "rb")  # noqa: SIM115 the wrapper closes it
    return io.TextIOWrapper(file, encoding="latin-1", newline="")


@contextmanager
def _cells_of(longest: int) -> Iterator[None]:
    """Set the largest length of a csv cell, which is a setting of the whole process, and restore it at the end."""
    before = csv.field_size_limit(longest)
    try:
        yield
    finally:
        csv.field_size_limit(before)

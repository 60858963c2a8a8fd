"""DuckDB, in this process: reads csv, parquet and .duckdb files. Rows that do not fit in memory spill to a folder removed at the end."""

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
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, ClassVar

from dpcli.base.errors import InputError, LedgerError
from dpcli.base.extras import require
from dpcli.release.aggregate import Aggregation, Totals, quoted
from dpcli.release.engines.conversions import Family
from dpcli.release.engines.dialects import Dialect, DuckDBSql
from dpcli.release.engines.source_files import PATTERN, Files, Header, files_of, header_of
from dpcli.release.engines.source_table import ActualColumn, ActualTable, SourceTable
from dpcli.release.engines.sql_engine import SqlEngine

NAME = "dpcli-spill-"  # prefix of spill folders
MEMORY = "256MB"  # of queries; more is spilled, and the process takes about 100 MB besides
THREADS = 4  # at most, as each takes memory
LONGEST_ROW, BUFFER = 2**24, 2**25  # bytes of a csv
COLLATIONS = ("noaccent", "nfc")  # no column has both
INTERRUPTED = "Query interrupted"  # DuckDB's RuntimeError after a signal
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
    """An open table.

    Attributes:
        spill: The folder of what does not fit in memory.
        split: The header of a csv that is read from several places at once.
    """

    dialect: ClassVar[Dialect] = DuckDBSql()
    families: ClassVar = FAMILIES
    files: Files
    spill: SpillFolder
    connection: Any = field(repr=False)
    split: Header | None = None

    def totals(self, aggregation: Aggregation, secret: bytes) -> Totals:
        """Read a csv from several places at once; where a line within quotes then looks like a broken row, read it in order."""
        try:
            return SqlEngine.totals(self, aggregation, secret)
        except InputError as error:
            failure = error
        if self.split is None:
            raise failure
        require_quotes_that_end(self.files, self.split.delimiter, LONGEST_ROW)
        self.actual = self._csv(in_order=True)
        return self.totals(aggregation, secret)

    def close(self) -> None:
        try:
            self.connection.close()
        finally:
            self.spill.remove()

    def _find(self) -> ActualTable:
        find: Callable[[], ActualTable] = {"csv": self._csv, "parquet": self._parquet, "duckdb": self._own}[self.files.kind]
        return find()

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
                f"{self.files.place}: {len(names)} columns in the first file, {len(kinds)} in all: expected the same in every file"
            )
        fields = {name: self._column(f"f{place}", kind) for place, (name, kind) in enumerate(zip(names, kinds, strict=True))}
        return ActualTable(f"{item} AS raw({', '.join(f'f{place}' for place in range(len(names)))})", fields, self.files.place)

    def _same_columns(self) -> list[str]:
        """Return the columns of the first file; what is declared is in every file, of one type, so that no value has to be cast."""
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
        """Refuse columns that differ by case: across files, DuckDB takes one for the other."""
        twins = sorted(own for own in names if own != name and own.casefold() == name.casefold())
        if twins:
            raise InputError(
                f'{self.files.place}: expected "{name}" in one spelling where there are several files, found "{twins[0]}" too'
            )

    def _columns_of(self, path: str) -> list[tuple[str, str | None]]:
        """Return names and types of the columns of a parquet file, in order."""
        file = DuckDBSql().text(_literal(path))
        return _top(self._rows(f"SELECT name, num_children, duckdb_type FROM parquet_schema({file})"))

    def _own(self) -> ActualTable:
        """Find a table of a DuckDB file by its exact name."""
        name = self.table.table
        if name is None:
            raise InputError(f"{self.files.place}: source.table is missing: it names the table of the file")
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
        self._rows(f"SELECT * FROM {item} LIMIT 0")  # no row: a view may have lost what it was made of
        fields = {column: self._own_column(item, column, kind) for column, kind in own if column in self.table.columns}
        others = tuple(column for column, _ in own if column not in fields)
        return ActualTable(item, fields, f'{self.files.place}: table "{name}"', others=others)

    def _own_column(self, item: str, name: str, kind: str) -> ActualColumn:
        """Compare texts by bytes. DuckDB does not list collations, but refuses to compare a column that has one with another collation."""
        sql = f"raw.{quoted(name)}"
        others = ", ".join(f"{sql} = ('' COLLATE {collation})" for collation in COLLATIONS)
        if kind != "VARCHAR" or self._binds(f"SELECT {others} FROM {item} LIMIT 0"):
            return self._column(sql, kind)
        return ActualColumn(f"decode(encode({sql}))", self._family(kind), f"{kind} with a collation", bytewise=False)

    def _column(self, sql: str, kind: str) -> ActualColumn:
        """Take the day of a time of nanoseconds from its text: a cast rounds, and the last of a day would be in the next one."""
        if kind != "TIMESTAMP_NS":
            return ActualColumn(sql, self._family(kind), kind)
        return ActualColumn(f"TRY_CAST(left(TRY_CAST({sql} AS VARCHAR), 10) AS DATE)", "date", kind)

    def _binds(self, sql: str) -> bool:
        """Test a statement that reads no row."""
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
        raise failure  # outside of except, else it would hold the engine's error

    def _meaning(self, error: Exception) -> InputError | LedgerError:
        import duckdb

        if isinstance(error, duckdb.OutOfMemoryException):
            return LedgerError(
                f"{self.files.place}: no room on the disk of {tempfile.gettempdir()} for what does not fit in memory"
            )
        return InputError(f"{self.files.place}: a file cannot be read to its end ({type(error).__name__})")


def opened_duckdb(table: SourceTable) -> DuckDB:
    """Open the table's files. Raises InputError if they cannot be opened."""
    require("duckdb")
    import duckdb

    assert table.path is not None
    files = files_of(table.path, table.folder)
    room = spill_folder()
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
        if files.kind == "duckdb":
            # As a catalog of its own: else a macro of the file could be called in place of a function of its name.
            connection.execute(f"ATTACH {DuckDBSql().text(files.paths[0])} AS {CATALOG} (READ_ONLY)")
        _harden(connection, files)
        return DuckDB(table, files, room, connection)
    except duckdb.Error as error:
        failure = InputError(f"{files.place}: DuckDB cannot open the file, or it is in use ({type(error).__name__})")
    except BaseException:
        room.remove()
        raise
    room.remove()
    raise failure


def _harden(connection: Any, files: Files) -> None:
    """Forbid every other file, the network, and what a view of the file could change."""
    paths = ", ".join(map(DuckDBSql().text, files.paths))
    connection.execute(f"SET allowed_paths = [{paths}]")
    connection.execute(f"SET allowed_directories = {_folders(files.paths)}")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")


def _read_csv(files: Files, header: Header, in_order: bool) -> str:
    """Read every column as text; an empty cell is null if it has no quotes.

    Args:
        in_order: From its start on, by one thread.
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
    """Write a path as a pattern that matches it alone."""
    return "".join(f"[{character}]" if character in PATTERN else character for character in path)


def _folders(paths: Sequence[str]) -> str:
    """Return the folders that DuckDB looks through for paths that are written as patterns."""
    above = {os.path.dirname(re.split(r"[*?[]", path)[0]) for path in paths if path != _literal(path)}
    return f"[{', '.join(DuckDBSql().text(folder) for folder in sorted(above))}]"


def _top(schema: Sequence[tuple[Any, ...]]) -> list[tuple[str, str | None]]:
    """Pick the columns of a parquet file from its schema, which lists a node before its children."""
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
        lock: A locked descriptor of it, which the system releases when the process ends.
    """

    path: str
    lock: int

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        with suppress(OSError):
            os.close(self.lock)


def spill_folder() -> SpillFolder:
    """Make a spill folder, and remove those that dead processes of this user left."""
    for left in glob.glob(os.path.join(glob.escape(tempfile.gettempdir()), f"{NAME}*")):
        dead = _locked(left)
        if dead is not None:
            dead.remove()
    while True:
        made = _locked(tempfile.mkdtemp(prefix=NAME))
        if made is not None:
            return made


def _locked(path: str) -> SpillFolder | None:
    """Lock a folder for this process; None if another process has it, if it is another user's, or was removed meanwhile."""
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


def require_quotes_that_end(files: Files, delimiter: str, longest: int) -> None:
    """Raise InputError if a file ends within quotes, a cell goes on behind them, or has more than `longest` bytes. No cell is shown."""
    failure = None
    with _cells_of(longest):
        for path in files.paths:
            try:
                with _opened(path) as file:
                    deque(csv.reader(file, delimiter=delimiter, strict=True), maxlen=0)
            except (csv.Error, OSError, EOFError, zlib.error):
                failure = InputError(f"{files.place}: a cell has quotes within it or none at its end, or a file cannot be read")
    if failure is not None:
        raise failure


def _opened(path: str) -> io.TextIOWrapper:
    """Open as text of any bytes: each is a character."""
    file = gzip.open(path, "rb") if path.lower().endswith(".gz") else open(path, "rb")  # noqa: SIM115 the wrapper closes it
    return io.TextIOWrapper(file, encoding="latin-1", newline="")


@contextmanager
def _cells_of(longest: int) -> Iterator[None]:
    """Set the length that a cell may have, which is a setting of the process."""
    before = csv.field_size_limit(longest)
    try:
        yield
    finally:
        csv.field_size_limit(before)

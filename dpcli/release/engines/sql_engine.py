"""An open table that answers aggregations by one statement of SQL, in any engine, and how the table of [source] is opened."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar

from dpcli.base.errors import InputError
from dpcli.ledger.blocks.rows import RowWindow
from dpcli.release.aggregate import Aggregation, Totals, totals_of
from dpcli.release.data_source import Column, Source, folder_of
from dpcli.release.engines.conversions import Family
from dpcli.release.engines.dialects import Dialect
from dpcli.release.engines.source_table import ActualTable, SourceTable
from dpcli.release.engines.sql_statement import statement


@dataclass(slots=True)
class SqlEngine:
    """An open table.

    Attributes:
        table: As [source] declares it.
        actual: As the engine reports it, None before the first statement.
    """

    dialect: ClassVar[Dialect]
    families: ClassVar[Mapping[str, Family]]  # of the engine's types, by their names without what stands in parentheses
    table: SourceTable
    actual: ActualTable | None = field(default=None, init=False)

    def check(self, aggregation: Aggregation) -> None:
        """Raise InputError if an expression is refused, or a column is missing or of another type. No row is read."""
        self._statement(aggregation, b"")

    def totals(self, aggregation: Aggregation, secret: bytes) -> Totals:
        """Return the exact answer, by key; every declared key is in it, with zeros if it has no row.

        Args:
            secret: Key of the hash by which contributions are chosen: fresh for each release.

        Raises:
            InputError: An expression is refused, or the data cannot be read. The message tells nothing of the data.
        """
        return totals_of(self._rows(self._statement(aggregation, secret)), aggregation)

    def close(self) -> None:
        raise NotImplementedError

    def _statement(self, aggregation: Aggregation, secret: bytes) -> str:
        if self.actual is None:
            self.actual = self._find()
        return statement(aggregation, self.table, self.actual, self.dialect, secret)

    def _find(self) -> ActualTable:
        """Find the table by its exact name. Raises InputError if there is none."""
        raise NotImplementedError

    def _rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Run a statement. Raises InputError, which holds nothing of what the engine says: that quotes rows."""
        raise NotImplementedError

    def _family(self, kind: str) -> Family:
        return self.families.get(kind.partition("(")[0], "other") if not kind.endswith("]") else "other"

    def _require_once(self, names: Sequence[str], place: str) -> None:
        for name in self.table.columns:
            if names.count(name) > 1:
                raise InputError(f'{place}: expected one column "{name}", found {names.count(name)}')


@contextmanager
def opened(source: Source, path: str, window: RowWindow | None = None) -> Iterator[SqlEngine]:
    """Open the table of a file's [source], or the rows of a window; paths in it start at the file's folder.

    Raises:
        InputError: If it cannot be opened.
        Unavailable: If what it needs is not installed.
    """
    with _ended_in_order():
        engine = _engine(source_table(source, path, window))
        try:
            yield engine
        finally:
            engine.close()


def require_source(source: Source, path: str, questions: Iterable[Aggregation], window: RowWindow | None = None) -> None:
    """Raise InputError if the source cannot be opened or lacks what is asked for: before anything is charged. No row is read."""
    with opened(source, path, window) as engine:
        for question in questions:
            engine.check(question)


def source_table(source: Source, path: str, window: RowWindow | None = None) -> SourceTable:
    """Return what an engine needs to know of [source]."""
    own = {} if window is None or window.column in source.columns else {window.column: Column(type=window.type)}
    return SourceTable({**source.columns, **own}, source.path, source.url, source.table, source.engine, folder_of(path), window)


@contextmanager
def _ended_in_order() -> Iterator[None]:
    """Treat SIGTERM as Ctrl-C, so that an engine is closed. Only the main thread receives signals."""
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _engine(table: SourceTable) -> SqlEngine:
    if table.url is not None:
        from dpcli.release.engines.postgres_engine import opened_postgres

        return opened_postgres(table)
    if table.engine == "spark":
        from dpcli.release.engines.spark_engine import opened_spark

        return opened_spark(table)
    from dpcli.release.engines.duckdb_engine import opened_duckdb

    return opened_duckdb(table)

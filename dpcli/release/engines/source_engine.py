"""Functions that open the table of [source] with the engine that can read it: DuckDB, PostgreSQL or Spark.

release_run.py calls `require_source` before the charge, which reads no private row, and `open_source` after it, to compute the answers. An
*aggregation* is a question to an engine: exact counts and sums by key (aggregate.py). An engine is imported only if it is needed, because
its library may not be installed.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from dpcli.base.errors import InputError
from dpcli.ledger.blocks.rows import RowWindow
from dpcli.release.aggregate import Aggregation
from dpcli.release.column_values import folder_of
from dpcli.release.data_source import Column, Source
from dpcli.release.engines.source_table import SourceTable
from dpcli.release.engines.sql_engine import SqlEngine

if TYPE_CHECKING:
    from dpcli.release.engines.given_table import GivenTable, SparkFrame

WITHOUT_DATA = "expected path or url; without them, only a program can ask the queries, by dpcli.release with a table in memory"


@contextmanager
def open_source(
    source: Source, path: str, window: RowWindow | None = None, given: GivenTable | SparkFrame | None = None
) -> Iterator[SqlEngine]:
    """Open the table of a file's [source] and yield it. The table is closed at the end.

    path: path of the pipeline file. Relative paths in it start from its folder.
    window: condition on the rows that may be read; None if all may be read.
    given: table that a program gave in place of a path or an address; None if it gave none.

    Raises:
        InputError: The table cannot be opened, or there is no table, path or address.
        Unavailable: The engine is not installed.
    """
    with _sigterm_as_interrupt():
        engine = _engine(replace(source_table(source, path, window), given=given), path)
        try:
            yield engine
        finally:
            engine.close()


def require_source(
    source: Source,
    path: str,
    aggregations: Iterable[Aggregation],
    window: RowWindow | None = None,
    given: GivenTable | SparkFrame | None = None,
) -> None:
    """Check that the source can be opened and can answer the aggregations. Only rows of joined tables, which are public, are read.

    Raises InputError and Unavailable as `open_source` and `SqlEngine.check` do.
    """
    with open_source(source, path, window, given) as engine:
        for aggregation in aggregations:
            engine.check(aggregation)
        engine.require_joinable()


def source_table(source: Source, path: str, window: RowWindow | None = None) -> SourceTable:
    """Return the table that [source] declares, including the column that determines the block of a row."""
    columns = dict(source.columns)
    if window is not None:
        columns.setdefault(window.column, Column(type=window.type))
    data = (source.path, source.url, source.table, source.engine)
    return SourceTable(columns, *data, folder_of(path), window, joins=source.join, unit=source.unit)


@contextmanager
def _sigterm_as_interrupt() -> Iterator[None]:
    """Handle SIGTERM like Ctrl-C in this context, so that an engine is closed and its raw rows on the disk are deleted.

    It has no effect outside of the main thread, or if the program handles SIGTERM itself.
    """
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _engine(table: SourceTable, path: str) -> SqlEngine:
    """Return the table, opened in the engine that reads it. Messages name `path`. Raises InputError if it cannot be opened."""
    if table.given is not None:
        from dpcli.release.engines.given_engine import open_given

        return open_given(table)
    if table.path is None and table.url is None:
        raise InputError(f"{path}: source: {WITHOUT_DATA}")
    if table.url is not None:
        from dpcli.release.engines.postgres_engine import open_postgres

        return open_postgres(table)
    if table.engine == "spark":
        from dpcli.release.engines.spark_engine import open_spark

        return open_spark(table)
    from dpcli.release.engines.duckdb_engine import open_duckdb

    return open_duckdb(table)

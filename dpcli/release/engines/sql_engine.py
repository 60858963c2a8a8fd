"""The base class of all engines: an open table that answers each aggregation by one SQL statement.

An *aggregation* (aggregate.py) asks for counts and sums for each *key* by which rows are grouped; the answer is its exact *totals*. A
subclass opens a table, reports its columns (`_find`), and runs a statement (`_rows`); sql_statement.py writes it. Only keys and aggregated
numbers leave an engine: exact integers, which are private, as are keys that are not declared. All engines must agree on the value of every
expression, and no message may contain the engine's own words, which may quote a row. release_run.py calls `check` and `require_joinable`
before the charge, and `limit_columns` and `totals` after it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from dpcli.base.errors import InputError
from dpcli.file.toml.shown import shown
from dpcli.release.aggregate import Aggregation, Totals, totals_of
from dpcli.release.data_source import Join
from dpcli.release.engines.conversions import Family
from dpcli.release.engines.dialects import Dialect
from dpcli.release.engines.source_table import ActualColumn, ActualTable, SourceTable, Values, public_rows, repeated_key
from dpcli.release.engines.sql_statement import statement


@dataclass(slots=True)
class SqlEngine:
    """A table that is open in an engine.

    families: families of the engine's types, by the name of the type without parentheses.
    table: the table as [source] declares it.
    actual: the table as the engine reports it; None before the first statement.
    """

    dialect: ClassVar[Dialect]
    families: ClassVar[Mapping[str, Family]]
    table: SourceTable
    actual: ActualTable | None = field(default=None, init=False)

    def check(self, aggregation: Aggregation) -> None:
        """Check that the statement of an aggregation can be written. No row is read.

        Raises InputError if an expression is refused, or there is no such table, or a column is missing or has another type.
        """
        self._statement(aggregation, b"")  # without a secret, because the statement is not run

    def limit_columns(self, aggregations: Iterable[Aggregation]) -> None:
        """Prepare for the totals of these aggregations alone. An engine that copies its table then copies only the columns that they read.

        No row is read. Raises InputError if an expression is refused, or a column is missing or has another type.
        """

    def totals(self, aggregation: Aggregation, secret: bytes) -> Totals:
        """Return the exact totals by key. They include every declared key, with zeros for a key without rows.

        secret: key of the hash that chooses contributions. It must be new for each release.

        Raises:
            InputError: An expression is refused, or the data cannot be read. The message reveals nothing about the data.
            LedgerError: The disk has no room for rows that do not fit in memory.
            InternalError: The answer of the engine does not fit the aggregation.
        """
        return totals_of(self._rows(self._statement(aggregation, secret)), aggregation)

    def require_joinable(self) -> None:
        """Read the joined tables, which are public. Raises InputError if one cannot be read to its end, or has a key in several rows."""
        for number, (join, public) in enumerate(zip(self.table.joins, self._tables().joined, strict=True)):
            sql = repeated_key(public_rows(self.table, self._tables(), number, self.dialect), number, join)
            try:
                repeated = self._rows(sql)
            except InputError:
                raise InputError(f"{public.place}: the joined table cannot be read to its end") from None
            for key, count, *_ in repeated:
                raise InputError(
                    f'{public.place}: expected each "{join.on}" in one row, as it is the key of a join, found {shown(key)} in '
                    f"{count:,} rows"
                )

    def close(self) -> None:
        """Close the connection, and remove what the engine wrote to disk."""
        raise NotImplementedError

    def _statement(self, aggregation: Aggregation, secret: bytes) -> str:
        """Return the SQL statement of an aggregation. The first call also finds the table."""
        return statement(aggregation, self._values(), self.dialect, secret)

    def _values(self) -> Values:
        """Return the columns of the table as values. The first call also finds the table."""
        return Values(self.table, self._tables())

    def _unused(self, aggregations: Iterable[Aggregation]) -> set[str]:
        """Return the names of the columns that none of these aggregations reads."""
        values = self._values()
        for aggregation in aggregations:
            statement(aggregation, values, self.dialect, b"")  # adds the columns that it reads to `values.selected`
        return {name for name, column in values.actual.fields.items() if column.sql not in values.selected}

    def _tables(self) -> ActualTable:
        """Return the table and those that are joined with it. The first call finds them."""
        if self.actual is None:
            actual = self._find()
            joined = tuple(self._find_joined(number, join) for number, join in enumerate(self.table.joins))
            for join, public in zip(self.table.joins, joined, strict=True):
                for name in join.columns:
                    if name in actual.fields or name in actual.others:
                        raise InputError(f'{actual.place}: expected no column "{name}", as {public.place} adds it, found one')
            self.actual = replace(actual, joined=joined)
        return self.actual

    def _find(self) -> ActualTable:
        """Return the table as the engine reports it. Raises InputError if there is no table with the exact name."""
        raise NotImplementedError

    def _find_joined(self, number: int, join: Join) -> ActualTable:
        """Return a public table as the engine reports it. Raises InputError if there is none, or the engine cannot join it."""
        raise NotImplementedError

    def _rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Run a statement and return its rows.

        Raises InputError if the engine failed. The message contains nothing of the engine's message, which may quote rows.
        """
        raise NotImplementedError

    def _family(self, kind: str) -> Family:
        """Return the family of an engine's type, such as DECIMAL(9,2). Arrays, whose types end in "]", belong to no family but "other"."""
        if kind.endswith("]"):
            return "other"
        name, _, _ = kind.partition("(")
        return self.families.get(name, "other")

    def _column(self, sql: str, kind: str) -> ActualColumn:
        return ActualColumn(sql, self._family(kind), kind)


def require_once(wanted: Iterable[str], names: Sequence[str], place: str) -> None:
    """Raise InputError if a wanted column occurs several times among the names of a table."""
    for name in wanted:
        if names.count(name) > 1:
            raise InputError(f'{place}: expected one column "{name}", found {names.count(name)}')


def refused_join(key: str, wanted: str, value: str) -> InputError:
    """Return the error of a joined table that the engine cannot read. wanted: setting to state in place of the key."""
    return InputError(f"source.join.{key}: expected {wanted}, found {value}")


def numbered_names(count: int) -> tuple[str, ...]:
    """Return the names f0, f1, ... for the columns of a table, so that no name of its own is special in SQL."""
    return tuple(f"f{place}" for place in range(count))

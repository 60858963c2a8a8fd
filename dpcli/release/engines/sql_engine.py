"""The base class of all engines: an open table that answers each aggregation by one SQL statement."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from dpcli.base.errors import InputError
from dpcli.release.aggregate import Aggregation, Totals, totals_of
from dpcli.release.engines.conversions import Family
from dpcli.release.engines.dialects import Dialect
from dpcli.release.engines.source_table import ActualColumn, ActualTable, SourceTable, Values
from dpcli.release.engines.sql_statement import statement


@dataclass(slots=True)
class SqlEngine:
    """A table that is open in an engine.

    Attributes:
        families: Families of the engine's types, by the name of the type without parentheses.
        table: The table as [source] declares it.
        actual: The table as the engine reports it; None before the first statement.
    """

    dialect: ClassVar[Dialect]
    families: ClassVar[Mapping[str, Family]]
    table: SourceTable
    actual: ActualTable | None = field(default=None, init=False)

    def check(self, aggregation: Aggregation) -> None:
        """Check that the statement of an aggregation can be written. No row is read.

        Raises:
            InputError: An expression is refused, or there is no such table, or a column is missing or has another type.
        """
        self._statement(aggregation, b"")

    def limit_columns(self, aggregations: Iterable[Aggregation]) -> None:
        """Prepare for the totals of these aggregations alone. An engine that copies its table then copies only the columns that they read.

        No row is read. Raises InputError as `check` does.
        """

    def totals(self, aggregation: Aggregation, secret: bytes) -> Totals:
        """Return the exact totals by key. They include every declared key, with zeros for a key without rows.

        Args:
            secret: Key of the hash that chooses contributions. It must be new for each release.

        Raises:
            InputError: An expression is refused, or the data cannot be read. The message reveals nothing about the data.
            LedgerError: The disk has no room for rows that do not fit in memory.
            InternalError: The answer of the engine does not fit the aggregation.
        """
        return totals_of(self._rows(self._statement(aggregation, secret)), aggregation)

    def close(self) -> None:
        """Close the connection, and remove what the engine wrote to disk."""
        raise NotImplementedError

    def _statement(self, aggregation: Aggregation, secret: bytes) -> str:
        """Return the SQL statement of an aggregation. The first call also finds the table."""
        return statement(aggregation, self._values(), self.dialect, secret)

    def _values(self) -> Values:
        """Return the columns of the table as values. The first call also finds the table."""
        if self.actual is None:
            self.actual = self._find()
        return Values(self.table, self.actual)

    def _unused(self, aggregations: Iterable[Aggregation]) -> set[str]:
        """Return the names of the columns that none of these aggregations reads."""
        values = self._values()
        for aggregation in aggregations:
            statement(aggregation, values, self.dialect, b"")
        return {name for name, column in values.actual.fields.items() if column.sql not in values.read}

    def _find(self) -> ActualTable:
        """Return the table as the engine reports it. Raises InputError if there is no table with the exact name."""
        raise NotImplementedError

    def _rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Run a statement and return its rows.

        Raises:
            InputError: The engine failed. The message contains nothing of the engine's message, which may quote rows.
        """
        raise NotImplementedError

    def _family(self, kind: str) -> Family:
        """Return the family of an engine's type, such as DECIMAL(9,2). Arrays, whose types end in "]", belong to no family but "other"."""
        if kind.endswith("]"):
            return "other"
        name, _, _ = kind.partition("(")
        return self.families.get(name, "other")

    def _column(self, sql: str, kind: str) -> ActualColumn:
        """Return a column of the engine's type `kind`."""
        return ActualColumn(sql, self._family(kind), kind)

    def _require_once(self, names: Sequence[str], place: str) -> None:
        """Raise InputError if a declared column occurs several times among the names of the table."""
        for name in self.table.columns:
            if names.count(name) > 1:
                raise InputError(f'{place}: expected one column "{name}", found {names.count(name)}')


def numbered_names(count: int) -> tuple[str, ...]:
    """Return the names f0, f1, ... for the columns of a table, so that no name of its own is special in SQL."""
    return tuple(f"f{place}" for place in range(count))

"""The base of all engines: an open table that answers aggregations by one statement of SQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from dpcli.base.errors import InputError
from dpcli.release.aggregate import Aggregation, Totals, totals_of
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

"""An open table that is asked in SQL: what every engine does alike."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from dpcli.release.aggregate import Aggregation, Totals
from dpcli.release.engines.answers import totals_of
from dpcli.release.engines.statement import Sql, statement
from dpcli.release.engines.table import FoundTable, SourceTable


@dataclass(slots=True)
class SqlEngine:
    """The table as its file declares it, and as it was found once it has been looked for."""

    dialect: ClassVar[Sql]
    table: SourceTable
    found: FoundTable | None = field(default=None, init=False)

    def check(self, aggregation: Aggregation) -> None:
        self._statement(aggregation, b"")

    def totals(self, aggregation: Aggregation, secret: bytes) -> Totals:
        sql = self._statement(aggregation, secret)
        return totals_of(self._rows(sql), aggregation)

    def _statement(self, aggregation: Aggregation, secret: bytes) -> str:
        if self.found is None:
            self.found = self._find()
        return statement(aggregation, self.table, self.found, self.dialect, secret)

    def _find(self) -> FoundTable:
        """The table, by its exact name. Raises InputError where there is none."""
        raise NotImplementedError

    def _rows(self, sql: str) -> list[tuple[Any, ...]]:
        """What a statement answers. Raises InputError, which holds nothing of what the engine says: that quotes rows."""
        raise NotImplementedError


def quoted(name: str) -> str:
    """A name of a table or a column, whatever is in it."""
    return '"{}"'.format(name.replace('"', '""'))

"""The table that an engine opens, in three forms: declared by [source], reported by the engine, and as SQL of the declared types."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from dpcli.base.errors import InputError
from dpcli.file.toml.suggest import instead_of
from dpcli.ledger.blocks.rows import RowWindow
from dpcli.release.data_source import Column
from dpcli.release.engines.conversions import Family, convert_column
from dpcli.release.engines.dialects import ScalarType
from dpcli.release.expressions.scalars import Layers, Term, literal

if TYPE_CHECKING:
    from dpcli.release.engines.given_table import GivenTable, SparkFrame


@dataclass(frozen=True, slots=True)
class SourceTable:
    """A declared table: its place, and the columns that may be used.

    Attributes:
        columns: Columns by name, including the column that determines the block of a row.
        path: Path or pattern of the files, relative to `folder`.
        url: Address of a PostgreSQL server.
        table: Name of the table on the server, or in a DuckDB file.
        engine: Engine that reads the files; None for the default.
        folder: Folder of the pipeline file.
        window: Condition on the rows that may be read; None if all may be read.
        given: Table that a program gave in place of a path or an address; None if it gave none.
    """

    columns: Mapping[str, Column]
    path: str | None = None
    url: str | None = None
    table: str | None = None
    engine: Literal["duckdb", "spark"] | None = None
    folder: str = ""
    window: RowWindow | None = None
    given: GivenTable | SparkFrame | None = field(default=None, repr=False)

    @property
    def stored(self) -> frozenset[str]:
        """Names of the columns that the table must have. All other columns are computed."""
        return frozenset(name for name, column in self.columns.items() if column.expression is None)


@dataclass(frozen=True, slots=True)
class ActualColumn:
    """A column as the engine reports it.

    Attributes:
        sql: SQL of the column: its name, or an expression that converts it first.
        kind: The engine's name of the type, for messages.
        bytewise: Whether the engine regards two texts as equal only if their bytes are equal.
    """

    sql: str
    family: Family
    kind: str
    bytewise: bool = True


@dataclass(frozen=True, slots=True)
class ActualTable:
    """A table as the engine reports it.

    Attributes:
        item: SQL of the table in a FROM clause.
        fields: Columns by name.
        place: Place of the table, for messages.
        named: Whether a schema names the columns. The columns of a csv are named by its header instead.
        others: Names of columns that are not declared.
    """

    item: str
    fields: Mapping[str, ActualColumn]
    place: str
    named: bool = True
    others: tuple[str, ...] = ()


@dataclass(slots=True)
class Values:
    """The columns of a table as values of their declared types. A column is read only if an expression uses it.

    Attributes:
        read: Names in the innermost SELECT, by the SQL of the column in the table.
    """

    table: SourceTable
    actual: ActualTable
    read: dict[str, str] = field(default_factory=dict)

    def term(self, name: str, layers: Layers) -> Term:
        return self._typed(name, self.table.columns[name].type, layers)

    def conditions(self, layers: Layers) -> tuple[str, ...]:
        """Return SQL conditions that are true for the rows that may be read. If one is null for a row, the row is in no block."""
        window = self.table.window
        if window is None:
            return ()
        value = self._deciding(window, layers).sql
        single_values, alternatives = [], []
        for span in window.spans:
            least, most = (literal(end, window.type).write(layers).sql for end in span)
            if least == most:
                single_values.append(least)
            else:
                alternatives.append(f"{value} BETWEEN {least} AND {most}")
        if single_values:
            alternatives.insert(0, f"{value} IN ({', '.join(single_values)})")
        return (f"({' OR '.join(alternatives)})",)

    def block(self, layers: Layers) -> str | None:
        """Return SQL for the block in which the rows of a unit are bounded; None if they are bounded over all rows that are read."""
        window = self.table.window
        if window is None or window.block_part is None:
            return None
        value = self._deciding(window, layers)
        if window.block_part == "value":
            return value.sql
        return layers.bind(Term(layers.dialect.first_day("week", value.sql), value.depth)).sql

    def _deciding(self, window: RowWindow, layers: Layers) -> Term:
        """Return the value that determines the block of a row, bound to a name."""
        return layers.bind(self._typed(window.column, window.type, layers))

    def _typed(self, name: str, to: ScalarType, layers: Layers) -> Term:
        """Return a column converted to a type. Raises InputError if the table has no such column, or one of another type."""
        column = self.actual.fields.get(name)
        if column is None:
            instead = instead_of(name, [*self.actual.fields, *self.actual.others], self.table.stored, self.actual.named)
            raise InputError(f'{self.actual.place}: expected a column "{name}", found {instead}')
        raw = Term(self.read.setdefault(column.sql, f"c{len(self.read)}"))
        value = convert_column(raw, to, column.family, layers)
        if value is None:
            raise InputError(f'{self.actual.place}: expected values of type {to} in the column "{name}", found {column.kind}')
        return value

    def require_one_spelling(self, unit: str) -> None:
        """Raise InputError if the engine regards different texts as one unit, since each text would be bounded as a unit of its own."""
        column = self.actual.fields.get(unit)
        if column is not None and not column.bytewise:
            raise InputError(
                f'{self.actual.place}: expected a unit whose texts are compared by their bytes, found "{unit}" ({column.kind}), whose '
                f"comparison ignores case or other differences: use a view with one spelling of each unit, such as lower({unit})"
            )

    def base(self) -> str:
        """Return the innermost SELECT as an item of a FROM clause."""
        columns = ", ".join(f"{sql} AS {name}" for sql, name in self.read.items()) or "1 AS c0"
        return f"(SELECT {columns} FROM {self.actual.item}) AS base"

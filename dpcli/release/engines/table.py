"""The table that an engine opens, as its file declares it and as the engine finds it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from dpcli.errors import InputError
from dpcli.release.engines.conversions import Family, SqlText, converted
from dpcli.release.expressions.check import DeclaredColumn
from dpcli.release.expressions.writing import Layers, Term


@dataclass(frozen=True, slots=True)
class SourceTable:
    """Where the table is, and which columns of it may be asked about.

    columns: by name. path: files, relative to folder. url: of a PostgreSQL server. table: of the url, or of a DuckDB file.
    """

    columns: Mapping[str, DeclaredColumn]
    path: str | None = None
    url: str | None = None
    table: str | None = None
    engine: Literal["duckdb", "spark"] | None = None
    folder: str = ""

    @property
    def stored(self) -> frozenset[str]:
        """The columns that the table has to have; the others are computed."""
        return frozenset(name for name, column in self.columns.items() if column.expression is None)


@dataclass(frozen=True, slots=True)
class FoundColumn:
    """A column as the engine finds it.

    sql: its name there, or its bytes. kind: the engine's name of its type, for messages. bytewise: whether in the table, too, two texts are
    the same only where their bytes are.
    """

    sql: str
    family: Family
    kind: str
    bytewise: bool = True


@dataclass(frozen=True, slots=True)
class FoundTable:
    """The table as the engine finds it. item: for FROM. place: what messages call it."""

    item: str
    fields: Mapping[str, FoundColumn]
    place: str


@dataclass(slots=True)
class Values:
    """The columns of a table as values of their declared types, each read only where it is asked for."""

    table: SourceTable
    found: FoundTable
    dialect: SqlText
    read: dict[str, str] = field(default_factory=dict)  # from SQL in the table to the name in the innermost SELECT

    def term(self, name: str, layers: Layers) -> Term:
        field = self.found.fields.get(name)
        if field is None:
            raise InputError(f'{self.found.place}: expected a column "{name}", found none')
        raw = Term(self.read.setdefault(field.sql, f"c{len(self.read)}"))
        value = converted(raw, self.table.columns[name].type, field.family, layers, self.dialect)
        if value is None:
            raise InputError(
                f'{self.found.place}: expected values of type {self.table.columns[name].type} in the column "{name}", found {field.kind}'
            )
        return value

    def require_one_spelling(self, unit: str) -> None:
        """Raise InputError where the table has one unit under several texts: here they would be several, each with its own bounds."""
        field = self.found.fields.get(unit)
        if field is not None and not field.bytewise:
            raise InputError(
                f'{self.found.place}: expected a unit whose texts are compared by their bytes, found "{unit}" ({field.kind}), where the '
                f"case of letters or the like does not count: use a view with one spelling of each, such as lower({unit})"
            )

    def base(self) -> str:
        """The innermost SELECT, as a FROM item."""
        columns = ", ".join(f"{sql} AS {name}" for sql, name in self.read.items()) or "1 AS c0"
        return f"(SELECT {columns} FROM {self.found.item}) AS base"

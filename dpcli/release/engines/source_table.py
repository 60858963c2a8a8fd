"""The table that an engine opens, in three forms: declared by [source], reported by the engine, and as SQL of the declared types.

`SourceTable` is what the pipeline file says, and `ActualTable` what the engine (DuckDB, PostgreSQL or Spark) reports. `Values` compares
them and writes each used column as a *term*, SQL that converts it to the declared type. A value that does not have the declared type
becomes null; it never fails. Terms get names in *layers*, nested SELECTs (scalars.py). `bind` returns the name of a term, `join` adds a
join to a layer, and the `depth` of a term is the layer in which its names exist.

A *unit* is whom the release protects, with all of its rows. Two properties carry the sensitivity: a unit has one spelling, because each
text is bounded as a unit of its own (`require_one_spelling`), and a joined public table adds no row (`joined_rows` has the proof). A
*window* is the rows that a release may read, as the blocks of a ledger define them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from dpcli.base.errors import InputError
from dpcli.file.toml.suggest import instead_of
from dpcli.ledger.blocks.rows import RowWindow
from dpcli.release.data_source import Column, Join, stored_columns
from dpcli.release.engines.conversions import Family, convert_column
from dpcli.release.engines.dialects import Dialect, ScalarType
from dpcli.release.expressions.scalars import Layers, Scalar, Term, literal
from dpcli.release.expressions.sql_grammar import Expressions

if TYPE_CHECKING:
    from dpcli.release.engines.given_table import GivenTable, SparkFrame


@dataclass(frozen=True, slots=True)
class SourceTable:
    """A declared table: its place, and the columns that may be used.

    columns: columns by name, including the column that determines the block of a row.
    path: path or pattern of the files, relative to `folder`.
    url: address of a PostgreSQL server.
    table: name of the table on the server, or in a DuckDB file.
    engine: engine that reads the files; None for the default.
    folder: folder of the pipeline file.
    window: condition on the rows that may be read; None if all may be read.
    given: table that a program gave in place of a path or an address; None if it gave none.
    joins: public tables that add columns.
    unit: column that names the unit of a row; None if each row is a unit of its own.
    """

    columns: Mapping[str, Column]
    path: str | None = None
    url: str | None = None
    table: str | None = None
    engine: Literal["duckdb", "spark"] | None = None
    folder: str = ""
    window: RowWindow | None = None
    given: GivenTable | SparkFrame | None = field(default=None, repr=False)
    joins: tuple[Join, ...] = ()
    unit: str | None = None

    @property
    def stored(self) -> frozenset[str]:
        """Names of the columns that the table must have. All other columns are computed or joined."""
        return frozenset(stored_columns(self.columns, self.joins))


@dataclass(frozen=True, slots=True)
class ActualColumn:
    """A column as the engine reports it.

    sql: SQL of the column: its name, or an expression that converts it first.
    kind: the engine's name of the type, for messages.
    bytewise: whether the engine regards two texts as equal only if their bytes are equal.
    """

    sql: str
    family: Family
    kind: str
    bytewise: bool = True


@dataclass(frozen=True, slots=True)
class ActualTable:
    """A table as the engine reports it.

    item: SQL of the table in a FROM clause.
    fields: columns by name.
    place: place of the table, for messages.
    named: whether a schema names the columns, so that a message may list them. The columns of a csv are named by its first line, which
        may be a private row.
    others: names of columns that are not declared, and therefore not in `fields`.
    joined: the public tables that are joined with it.
    """

    item: str
    fields: Mapping[str, ActualColumn]
    place: str
    named: bool = True
    others: tuple[str, ...] = ()
    joined: tuple[ActualTable, ...] = ()


@dataclass(slots=True)
class Values:
    """The columns of a table as values of their declared types. A column is read only if an expression uses it.

    selected: names of columns in the innermost SELECT, by the SQL of the column in the table.
    joining: numbers of the joins whose keys are being written. They detect a key that is computed from a column that its own join adds.
    """

    table: SourceTable
    actual: ActualTable
    selected: dict[str, str] = field(default_factory=dict)
    joining: set[int] = field(default_factory=set)

    def term(self, name: str, layers: Layers) -> Term:
        """Return a column as a term: one that a join adds, the number of rows of a row's unit (`rows_of_unit`), or a stored column."""
        for number, join in enumerate(self.table.joins):
            if name in join.columns:
                return self._joined(number, join, name, layers)
        if self.table.columns[name].rows_of_unit:
            return layers.compute(name, Scalar("integer", self._rows_of_unit))
        return self.as_type(name, self.table.columns[name].type, layers)

    def _rows_of_unit(self, layers: Layers) -> Term:
        """Return the number of rows of a row's unit that may be read, in the block in which the unit is bounded if there are blocks."""
        assert self.table.unit is not None
        unit, block, conditions = self.term(self.table.unit, layers), self.block(layers), self.conditions(layers)
        parts = unit.sql if block is None else f"{unit.sql}, {block}"
        # The term may use names of every layer so far, so it is written in the next one.
        counted = f"CASE WHEN {' AND '.join(conditions)} THEN 1 END" if conditions else "*"
        return Term(f"count({counted}) OVER (PARTITION BY {parts})", len(layers.names))

    def _joined(self, number: int, join: Join, name: str, layers: Layers) -> Term:
        """Return a column of a public table, which is joined to the layer in which the key is known.

        Raises InputError if the key is computed from a column that the join adds.
        """
        if number in self.joining:
            raise InputError(
                f'source.join.on: expected a column that does not need the join, found "{join.on}", computed from "{name}"'
            )
        self.joining.add(number)
        key = Expressions(self.table.columns).column(join.on, "source.join.on").write(layers)
        self.joining.remove(number)
        rows = joined_rows(public_rows(self.table, self.actual, number, layers.dialect), number, join)
        layers.join(f"LEFT JOIN ({rows}) AS j{number} ON {key_name(number)} = {key.sql}", key.depth)
        return Term(_added_names(number, join)[join.columns.index(name)], key.depth)

    def conditions(self, layers: Layers) -> tuple[str, ...]:
        """Return SQL conditions that are true for the rows that may be read. If one is null for a row, the row is in no block."""
        window = self.table.window
        if window is None:
            return ()
        value = self._block_value(window, layers).sql
        single_values, alternatives = [], []
        for span in window.spans:  # the smallest and largest value of the block column in a stretch of blocks
            least, most = (literal(end, window.type).write(layers).sql for end in span)
            if least == most:  # all such values go into one IN, which is shorter
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
        value = self._block_value(window, layers)
        if window.block_part == "value":  # each value of the column is a block of its own; otherwise each week is
            return value.sql
        return layers.bind(Term(layers.dialect.first_day("week", value.sql), value.depth)).sql

    def _block_value(self, window: RowWindow, layers: Layers) -> Term:
        """Return the value that determines the block of a row, bound to a name."""
        return layers.bind(self.as_type(window.column, window.type, layers))

    def as_type(self, name: str, to: ScalarType, layers: Layers) -> Term:
        """Return a column converted to a type. Raises InputError if the table has no such column, or one of another type."""
        column = self.actual.fields.get(name)
        if column is None:
            instead = instead_of(name, [*self.actual.fields, *self.actual.others], self.table.stored, self.actual.named)
            raise InputError(f'{self.actual.place}: expected a column "{name}", found {instead}')
        raw = Term(self.selected.setdefault(column.sql, f"c{len(self.selected)}"))
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
        columns = ", ".join(f"{sql} AS {name}" for sql, name in self.selected.items()) or "1 AS c0"  # SQL needs a column
        return f"(SELECT {columns} FROM {self.actual.item}) AS base"


def public_rows(table: SourceTable, actual: ActualTable, number: int, dialect: Dialect) -> str:
    """Return a SELECT of the rows of a public table that have a key: the key and the added columns, as values of the declared types.

    Raises InputError if the table lacks a column, or has one of another type.
    """
    join = table.joins[number]
    values = Values(replace(table, joins=()), actual.joined[number])
    layers = Layers(dialect, values)
    key, *added = (values.as_type(name, table.columns[name].type, layers).sql for name in (join.on, *join.columns))
    named = zip((key, *added), (key_name(number), *_added_names(number, join)), strict=True)
    columns = ", ".join(f"{sql} AS {name}" for sql, name in named)
    return f"SELECT {columns} FROM {layers.over(values.base())} WHERE {key} IS NOT NULL"


def joined_rows(public: str, number: int, join: Join) -> str:
    """Return a SELECT of a public table with one row for each key, whatever the table holds when it is read. public: its rows.

    Proof that the bounds on a unit hold unchanged: Let J be these rows. They are the same for two neighbouring source tables, since the
    table is declared public. A left join drops no row, and no row has two partners, since each key is in one row of J. So the join maps
    each row r of the source to exactly one row (r, J(r)), where J(r) depends on r and J alone, and (r, J(r)) has the unit of r. The joined
    tables then differ as the source tables do: by as many rows of the same unit. Whatever follows for rows of a source follows for them.
    """
    key, added = key_name(number), ", ".join(_added_names(number, join))
    numbered = (
        f"SELECT {key}, {added}, row_number() OVER (PARTITION BY {key} ORDER BY {added}) AS place FROM ({public}) AS public_rows"
    )
    return f"SELECT {key}, {added} FROM ({numbered}) AS numbered_rows WHERE place = 1"


def repeated_key(public: str, number: int, join: Join) -> str:
    """Return a SELECT of the first key that is in several rows of a public table, with their number. It reads all columns of each row."""
    key, reads = key_name(number), ", ".join(f"count({name})" for name in _added_names(number, join))
    return (
        f"SELECT {key}, count(*), {reads} FROM ({public}) AS public_rows GROUP BY {key} HAVING count(*) > 1 ORDER BY {key} LIMIT 1"
    )


def key_name(number: int) -> str:
    """Return the name of the key column of a public table in a statement."""
    return f"j{number}k"


def _added_names(number: int, join: Join) -> tuple[str, ...]:
    return tuple(f"j{number}c{position}" for position in range(len(join.columns)))

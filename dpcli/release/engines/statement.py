"""The one plan: an aggregation as a statement of SQL, in the words of any of the engines.

Rows that count -> what each unit adds to each key -> at most max_groups keys of a unit -> at most max_rows rows of a unit in a key -> sums.
A key of steps is no key until the last of these: its values are counted, and a unit's rows are bounded in all of them together.
Where a window says so, a unit is what is of one unit in one block: then "unit" stands for that pair everywhere below.
Only what has more rows than it may is looked at row by row, so the rest costs one GROUP BY.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from dpcli.release.aggregate import Aggregation
from dpcli.release.engines.conversions import SqlText
from dpcli.release.engines.rows import GroupPart, row_terms
from dpcli.release.engines.table import FoundTable, SourceTable, Values
from dpcli.release.expressions.writing import Layers

SEPARATOR = "|"


class Sql(SqlText, Protocol):
    """All that a statement needs to know of one engine's SQL. once, again: how a WITH says that it is computed once, or each time."""

    once: str
    again: str

    def total(self, sql: str) -> str:
        """The exact sum of integers, of 128 bits or 38 digits."""
        ...

    def digest(self, sql: str) -> str:
        """An integer below 2^48: the first of the SHA-256 of a text in UTF-8. Ties are broken by what was hashed."""
        ...


@dataclass(frozen=True, slots=True)
class RowNames:
    """Columns of the rows that count: the parts of the key, the integers, and whose a row is: the unit's name, or it and the block.

    counted: the parts of the key that are steps.
    """

    keys: tuple[str, ...]
    counted: tuple[str, ...]
    values: tuple[str, ...]
    unit: tuple[str, ...] = ("u",)

    @property
    def bounded(self) -> tuple[str, ...]:
        """In what a unit's rows are bounded."""
        return (*self.unit, *(key for key in self.keys if key not in self.counted))

    @property
    def unit_and_keys(self) -> tuple[str, ...]:
        return (*self.unit, *self.keys)


def statement(aggregation: Aggregation, table: SourceTable, found: FoundTable, dialect: Sql, secret: bytes) -> str:
    """SQL that answers with one row for each key: the parts of the key, units, rows, and the sums.

    Raises InputError where an expression is refused or asks for a column that is not there.
    """
    values = Values(table, found, dialect)
    layers = Layers(dialect, values)
    asked = row_terms(aggregation, table, layers)
    if aggregation.unit is not None:
        values.require_one_spelling(aggregation.unit)
    block = values.block(layers) if asked.unit else None
    names = RowNames(
        tuple(f"k{n}" for n in range(len(asked.keys))),
        tuple(f"k{n}" for n, key in enumerate(aggregation.keys) if key.steps is not None),
        tuple(f"v{n}" for n in range(len(asked.values))),
        ("u",) if block is None else ("u", "b"),
    )
    columns = (
        *((f"{asked.unit} AS u",) if asked.unit else ()),
        *((f"{block} AS b",) if block else ()),
        *(f"{part.sql} AS {name}" for part, name in zip(asked.keys, names.keys, strict=True)),
        *(f"{sql} AS {name}" for sql, name in zip(asked.values, names.values, strict=True)),
    )
    conditions = (*asked.conditions, *values.conditions(layers))
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    kept = f"SELECT {listed(columns) or '1 AS c0'} FROM {layers.over(values.base())}{where}"
    if asked.unit is None:
        counted = ", ".join((*names.keys, "count(*)", "count(*)", *_sums(names, dialect)))
        return f"SELECT {counted} FROM ({kept}) AS kept{grouped(names.keys)}"
    steps = "".join(
        f"{name} AS {hint} ({sql}), " for name, hint, sql in _bounded(aggregation, asked.keys, names, dialect, secret)
    ).removesuffix(", ")
    counted = ", ".join((*names.keys, "count(*)", "sum(n)", *(dialect.total(f"s{number}") for number in range(len(names.values)))))
    return f"WITH kept AS {dialect.again} ({kept}), {steps} SELECT {counted} FROM bounded{grouped(names.keys)}"


def _bounded(
    aggregation: Aggregation, keys: Sequence[GroupPart], names: RowNames, dialect: Sql, secret: bytes
) -> Iterator[tuple[str, str, str]]:
    """The steps from the rows that count to what each unit adds to each of its keys: a name, a hint, and SQL.

    The cap stands on the read that is added up: a view may hold other rows each time that it is read.
    """
    own, each = listed(names.bounded), listed(names.unit_and_keys)
    sums = "".join(f", {sql} AS s{number}" for number, sql in enumerate(_sums(names, dialect)))
    added = "".join(f", s{number}" for number in range(len(names.values)))
    most = dialect.cast(str(aggregation.max_rows), "integer")
    yield "added", dialect.once, f"SELECT {own}, count(*) AS n{sums} FROM kept GROUP BY {own}"
    chosen = "added"
    if aggregation.max_groups < _most_groups(key for key, name in zip(keys, names.keys, strict=True) if name not in names.counted):
        order = listed((f"{_lead(names.bounded, most, dialect, secret)} DESC", *names.bounded))
        ranked = (
            f"SELECT {own}, n{added}, row_number() OVER (PARTITION BY {listed(names.unit)} ORDER BY {order}) AS place FROM added"
        )
        chosen = "chosen"
        yield chosen, dialect.once, f"SELECT {own}, n{added} FROM ({ranked}) AS ranked WHERE place <= {aggregation.max_groups}"
    columns = (*names.unit_and_keys, *names.values)
    if columns == names.bounded:
        yield "bounded", "", f"SELECT {own}, least(n, {most}) AS n FROM {chosen}"
        return
    same = " AND ".join(f"kept.{name} = {chosen}.{name}" for name in names.bounded)
    rows = f"SELECT {listed(f'kept.{name} AS {name}' for name in columns)} FROM kept JOIN {chosen} ON {same}"
    rows += "" if names.counted else f" WHERE n > {most}"  # the others are read no second time
    copies = f"row_number() OVER (PARTITION BY {listed(columns)} ORDER BY {names.unit[0]}) AS copy"
    yield "whole", "", f"SELECT {listed(columns)}, {copies} FROM ({rows}) AS excess"
    order = listed((_hashed((*columns, "copy"), dialect, secret), *columns, "copy"))
    ranked = f"SELECT {listed(columns)}, row_number() OVER (PARTITION BY {own} ORDER BY {order}) AS place FROM whole"
    yield "cut", "", f"SELECT {each}, count(*) AS n{sums} FROM ({ranked}) AS ranked WHERE place <= {most} GROUP BY {each}"
    few = "" if names.counted else f"SELECT {each}, n{added} FROM {chosen} WHERE n <= {most} UNION ALL "
    yield "bounded", "", f"{few}SELECT {each}, n{added} FROM cut"


def _most_groups(keys: Iterable[GroupPart]) -> float:
    """How many keys one unit can have."""
    return math.prod(math.inf if part.count is None else part.count for part in keys)


def _lead(columns: Sequence[str], most: str, dialect: Sql, secret: bytes) -> str:
    """By which the keys of a unit are drawn one after the other, each with a chance in proportion to n / least(n, most).

    log(U) / w is the highest with a chance in proportion to w: minus an exponential time of rate w.
    """
    uniform = f"({dialect.cast(_hashed(columns, dialect, secret), 'decimal')} + {dialect.cast('0.5', 'decimal')})"
    share = f"({dialect.cast(f'least(n, {most})', 'decimal')} / {dialect.cast('n', 'decimal')})"
    return f"ln({uniform} / {dialect.cast(str(2**48), 'decimal')}) * {share}"


def _hashed(columns: Sequence[str], dialect: Sql, secret: bytes) -> str:
    """Of texts that are told apart, each behind its length: rows with one hash would be kept or left out together."""
    texts = [dialect.cast(column, "text") for column in columns]
    parts = (dialect.text(secret.hex()), *(part for text in texts for part in (dialect.cast(f"length({text})", "text"), text)))
    return dialect.digest(f" || {dialect.text(SEPARATOR)} || ".join(parts))


def _sums(names: RowNames, dialect: Sql) -> tuple[str, ...]:
    return tuple(dialect.total(name) for name in names.values)


def listed(columns: Iterator[str] | Sequence[str]) -> str:
    return ", ".join(columns)


def grouped(columns: Sequence[str]) -> str:
    return f" GROUP BY {listed(columns)}" if columns else ""

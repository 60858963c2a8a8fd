"""Scalar expressions that are written as SQL; an expression used twice is named in an inner SELECT and computed once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from dpcli.release.engines.dialects import DatePartName, Dialect, ScalarType

NUMBERS = ("integer", "decimal")
UPPER, LOWER = "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz"
# Arithmetic on decimals: an operand further from 0 than the first gives null, one nearer to 0 than the second is 0. So no result is
# infinite, NaN or too small for a double, which one engine in three answers with an error.
FARTHEST, NEAREST = 1e150, 1e-150


@dataclass(frozen=True, slots=True)
class Term:
    """SQL over the columns that exist from layer `depth` on."""

    sql: str
    depth: int = 0


class Columns(Protocol):
    """The columns of a table, as terms of their declared types."""

    def term(self, name: str, layers: Layers) -> Term: ...


@dataclass(slots=True)
class Layers:
    """Nested SELECTs: each gives names to expressions over the names of those inside, so that no SQL text grows by repetition."""

    dialect: Dialect
    columns: Columns
    names: list[dict[str, str]] = field(default_factory=list)  # by layer: SQL -> name

    def bind(self, term: Term) -> Term:
        """Give a term a name, so that it may be written more than once."""
        while len(self.names) <= term.depth:
            self.names.append({})
        name = self.names[term.depth].setdefault(term.sql, f"t{sum(map(len, self.names))}")
        return Term(name, term.depth + 1)

    def over(self, base: str) -> str:
        """Return the FROM item that has every bound name."""
        item = base
        for number, layer in enumerate(self.names):
            columns = "".join(f", {sql} AS {name}" for sql, name in layer.items())
            item = f"({self.dialect.layer(f'*{columns}', item)}) AS l{number}"
        return item


def joined(template: str, *terms: Term) -> Term:
    """Put the SQL of terms into the places {0}, {1}, ... of a template."""
    return Term(template.format(*(term.sql for term in terms)), max((term.depth for term in terms), default=0))


@dataclass(frozen=True, slots=True)
class Scalar:
    """An expression: its type, and how it is written as SQL. A null operand gives null, or SQL's unknown."""

    type: ScalarType
    write: Callable[[Layers], Term]
    literal: bool = False


def column(name: str, type_: ScalarType) -> Scalar:
    """A column of the table, null if it has no value of its declared type."""
    return Scalar(type_, lambda layers: layers.columns.term(name, layers))


def literal(value: str, type_: ScalarType) -> Scalar:
    """A literal, in SQL's own spelling (a date as YYYY-MM-DD)."""

    def write(layers: Layers) -> Term:
        sql = layers.dialect.text(value)
        return Term(sql if type_ == "text" else layers.dialect.cast(sql, type_))

    return Scalar(type_, write, literal=True)


def decimal(value: float) -> Scalar:
    return literal(repr(float(value)), "decimal")


def integer(value: int) -> Scalar:
    return literal(str(value), "integer")


def composed(type_: ScalarType, template: str, *operands: Scalar) -> Scalar:
    """Operands in the places of a template: as doubles where one of them is a double. Text is compared by the bytes of its UTF-8."""

    def write(layers: Layers) -> Term:
        mixed = any(each.type == "decimal" for each in operands)
        return joined(template, *(as_decimal(each, layers) if mixed else each.write(layers) for each in operands))

    return Scalar(type_, write)


def as_decimal(scalar: Scalar, layers: Layers) -> Term:
    """Write a number as a double."""
    term = scalar.write(layers)
    return term if scalar.type == "decimal" else Term(layers.dialect.cast(term.sql, "decimal"), term.depth)


def to_decimal(scalar: Scalar) -> Scalar:
    """Convert an integer to the nearest double."""
    return Scalar("decimal", partial(as_decimal, scalar))


def whole_arithmetic(operator: str, left: Scalar, right: Scalar) -> Scalar:
    """+ - * // % on 64-bit integers; // and % go toward zero. Null if the divisor is 0 or the result is no 64-bit integer."""

    def write(layers: Layers) -> Term:
        a, b = (layers.bind(side.write(layers)) for side in (left, right))
        return layers.bind(Term(layers.dialect.checked(operator, a.sql, b.sql), max(a.depth, b.depth)))

    return Scalar("integer", write)


def decimal_arithmetic(operator: str, left: Scalar, right: Scalar) -> Scalar:
    """+ - * / on doubles, within FARTHEST and NEAREST. Null if the divisor is 0."""

    def limited(side: Scalar, layers: Layers) -> Term:
        bounds = (decimal(number).write(layers) for number in (FARTHEST, NEAREST, 0.0))
        template = "(CASE WHEN abs({0}) > {1} THEN NULL WHEN abs({0}) < {2} THEN {3} ELSE {0} END)"
        return joined(template, layers.bind(as_decimal(side, layers)), *bounds)

    def write(layers: Layers) -> Term:
        a, b = limited(left, layers), limited(right, layers)
        template = f"({{0}} {operator} {{1}})" if operator != "/" else "({0} / NULLIF({1}, {2}))"
        return layers.bind(joined(template, a, b, decimal(0.0).write(layers)))

    return Scalar("decimal", write)


def cased(value: Scalar, upper: bool) -> Scalar:
    """lower or upper of the 26 letters of ASCII: engines and their versions do not agree about any other letter."""
    letters = (LOWER, UPPER) if upper else (UPPER, LOWER)
    return composed("text", "translate({0}, {1}, {2})", value, *(literal(each, "text") for each in letters))


def date_part(part: DatePartName, value: Scalar) -> Scalar:
    """A number of a date in the Gregorian calendar; week is that of ISO 8601, dow 0 for Sunday, isodow 1 for Monday to 7."""

    def write(layers: Layers) -> Term:
        term = value.write(layers)
        return Term(layers.dialect.date_part(part, term.sql), term.depth)

    return Scalar("integer", write)

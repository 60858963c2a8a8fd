"""Typed scalar expressions and the SQL that computes them. An expression that is used twice is computed once, in an inner SELECT."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from dpcli.release.engines.dialects import DatePartName, Dialect, ScalarType

NUMBERS = ("integer", "decimal")
UPPER, LOWER = "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz"
# In arithmetic on decimals, an operand whose absolute value exceeds FARTHEST gives null, and one below NEAREST counts as 0. So no result is
# infinite, NaN or too small for a double. One of the three engines would raise an error for such results.
FARTHEST, NEAREST = 1e150, 1e-150


@dataclass(frozen=True, slots=True)
class Term:
    """An SQL expression.

    Attributes:
        sql: The expression.
        depth: Number of the innermost layer in which all of its names exist.
    """

    sql: str
    depth: int = 0


class Columns(Protocol):
    """The columns of a table."""

    def term(self, name: str, layers: Layers) -> Term:
        """Return a column as a term of its declared type. Raises InputError if the table has no such column or another type."""


@dataclass(slots=True)
class Layers:
    """Nested SELECTs that give names to expressions, so that no expression is repeated in the SQL text.

    Each SELECT names expressions over the names of the inner SELECTs.

    Attributes:
        dialect: The SQL dialect.
        columns: The columns of the table.
        names: The names of each layer, by the SQL that they stand for.
    """

    dialect: Dialect
    columns: Columns
    names: list[dict[str, str]] = field(default_factory=list)

    def bind(self, term: Term) -> Term:
        """Return a name for a term, so that it can be used several times and is computed once. Equal terms get one name."""
        while len(self.names) <= term.depth:
            self.names.append({})
        name = self.names[term.depth].setdefault(term.sql, f"t{sum(map(len, self.names))}")
        return Term(name, term.depth + 1)

    def over(self, base: str) -> str:
        """Return an item of a FROM clause that defines every bound name over the item `base`."""
        item = base
        for number, layer in enumerate(self.names):
            columns = "".join(f", {sql} AS {name}" for sql, name in layer.items())
            item = f"({self.dialect.layer(f'*{columns}', item)}) AS l{number}"
        return item


def fill_template(template: str, *terms: Term) -> Term:
    """Return a template whose places {0}, {1}, ... are filled with the SQL of terms."""
    return Term(template.format(*(term.sql for term in terms)), max((term.depth for term in terms), default=0))


@dataclass(frozen=True, slots=True)
class Scalar:
    """A typed expression. Its value may be null, which is SQL's unknown for a condition.

    Attributes:
        type: Type of the value.
        write: Function that writes the expression as SQL.
        literal: Whether the expression is a literal.
    """

    type: ScalarType
    write: Callable[[Layers], Term]
    literal: bool = False


def column(name: str, type_: ScalarType) -> Scalar:
    """Return a column of the table. Its value is null in rows without a value of the declared type."""
    return Scalar(type_, lambda layers: layers.columns.term(name, layers))


def literal(value: str, type_: ScalarType) -> Scalar:
    """Return a literal. `value` is its text in SQL, such as YYYY-MM-DD for a date."""

    def write(layers: Layers) -> Term:
        sql = layers.dialect.text(value)
        return Term(sql if type_ == "text" else layers.dialect.cast(sql, type_))

    return Scalar(type_, write, literal=True)


def decimal(value: float) -> Scalar:
    """Return a literal of type decimal, which is a double."""
    return literal(repr(float(value)), "decimal")


def integer(value: int) -> Scalar:
    """Return a literal of type integer, which has 64 bits."""
    return literal(str(value), "integer")


def compose(type_: ScalarType, template: str, *operands: Scalar) -> Scalar:
    """Return a template whose places {0}, {1}, ... are filled with operands.

    If one operand is a double, all are converted to doubles. Texts are compared by their UTF-8 bytes.
    """

    def write(layers: Layers) -> Term:
        if any(operand.type == "decimal" for operand in operands):
            return fill_template(template, *(as_decimal(operand, layers) for operand in operands))
        return fill_template(template, *(operand.write(layers) for operand in operands))

    return Scalar(type_, write)


def as_decimal(scalar: Scalar, layers: Layers) -> Term:
    """Return a number as SQL of type double."""
    term = scalar.write(layers)
    return term if scalar.type == "decimal" else Term(layers.dialect.cast(term.sql, "decimal"), term.depth)


def to_decimal(scalar: Scalar) -> Scalar:
    """Return the double nearest to an integer."""
    return Scalar("decimal", partial(as_decimal, scalar))


def whole_arithmetic(operator: str, left: Scalar, right: Scalar) -> Scalar:
    """Return + - * // or % of 64-bit integers, where // and % round toward zero.

    The result is null if the divisor is 0, or if the result does not fit into a 64-bit integer.
    """

    def write(layers: Layers) -> Term:
        a, b = (layers.bind(side.write(layers)) for side in (left, right))
        return layers.bind(Term(layers.dialect.checked(operator, a.sql, b.sql), max(a.depth, b.depth)))

    return Scalar("integer", write)


def decimal_arithmetic(operator: str, left: Scalar, right: Scalar) -> Scalar:
    """Return + - * or / of doubles, limited by FARTHEST and NEAREST. The result is null if the divisor is 0."""

    def limited(side: Scalar, layers: Layers) -> Term:
        bounds = (decimal(number).write(layers) for number in (FARTHEST, NEAREST, 0.0))
        template = "(CASE WHEN abs({0}) > {1} THEN NULL WHEN abs({0}) < {2} THEN {3} ELSE {0} END)"
        return fill_template(template, layers.bind(as_decimal(side, layers)), *bounds)

    def write(layers: Layers) -> Term:
        a, b = limited(left, layers), limited(right, layers)
        template = "({0} / NULLIF({1}, {2}))" if operator == "/" else f"({{0}} {operator} {{1}})"
        return layers.bind(fill_template(template, a, b, decimal(0.0).write(layers)))

    return Scalar("decimal", write)


def common_type(values: Sequence[Scalar]) -> ScalarType:
    """Return the type of values of one type, or decimal if they are numbers and one of them is a decimal."""
    return "decimal" if any(value.type == "decimal" for value in values) else values[0].type


def first_true(conditions: Sequence[Scalar], values: Sequence[Scalar]) -> Scalar:
    """Return the value of the first condition that is true, otherwise null. A last value without a condition stands for all other rows."""
    type_ = common_type(values)

    def write(layers: Layers) -> Term:
        tests = [condition.write(layers) for condition in conditions]
        results = [as_decimal(value, layers) if type_ == "decimal" else value.write(layers) for value in values]
        count = len(tests)
        branches = " ".join(f"WHEN {{{place}}} THEN {{{count + place}}}" for place in range(count))
        otherwise = f" ELSE {{{2 * count}}}" if len(results) > count else ""
        return fill_template(f"(CASE {branches}{otherwise} END)", *tests, *results)

    return Scalar(type_, write)


def change_case(value: Scalar, upper: bool) -> Scalar:
    """Return a text with its ASCII letters in upper or lower case. Engines and their versions disagree about all other letters."""
    lower_letters, upper_letters = literal(LOWER, "text"), literal(UPPER, "text")
    letters = (lower_letters, upper_letters) if upper else (upper_letters, lower_letters)
    return compose("text", "translate({0}, {1}, {2})", value, *letters)


def date_part(part: DatePartName, value: Scalar) -> Scalar:
    """Return a part of a date in the Gregorian calendar, as an integer.

    `week` is the week of ISO 8601, `dow` counts from 0 for Sunday, and `isodow` from 1 for Monday to 7 for Sunday.
    """

    def write(layers: Layers) -> Term:
        term = value.write(layers)
        return Term(layers.dialect.date_part(part, term.sql), term.depth)

    return Scalar("integer", write)

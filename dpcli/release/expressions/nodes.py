"""The kinds of expression that there are. Each has a type and writes itself as SQL; a null operand gives null, or SQL's unknown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from dpcli.release.expressions.writing import DatePartName, Layers, ScalarType, Term, joined

NUMBERS = ("integer", "decimal")
UPPER, LOWER = "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz"
TEXT: ScalarType = "text"
# Arithmetic on decimals: an operand further from 0 than the first gives null, one nearer to 0 than the second is 0. So no result is
# infinite, NaN or too small for a double, which one engine in three answers with an error.
FARTHEST, NEAREST = 1e150, 1e-150


class Scalar(Protocol):
    """A checked expression."""

    @property
    def type(self) -> ScalarType: ...

    def write(self, layers: Layers) -> Term: ...


@dataclass(frozen=True, slots=True)
class ColumnValue:
    """A column of the table, null where it has no value of its declared type."""

    name: str
    type: ScalarType

    def write(self, layers: Layers) -> Term:
        return layers.columns.term(self.name, layers)


@dataclass(frozen=True, slots=True)
class LiteralValue:
    """A literal. value: in SQL's own spelling (a date as YYYY-MM-DD)."""

    value: str
    type: ScalarType

    def write(self, layers: Layers) -> Term:
        sql = layers.dialect.text(self.value)
        return Term(sql if self.type == TEXT else layers.dialect.cast(sql, self.type))


@dataclass(frozen=True, slots=True)
class Compared:
    """left = right and its siblings. Text is compared by the bytes of its UTF-8, false is less than true nowhere."""

    operator: str
    left: Scalar
    right: Scalar
    type: ScalarType = "boolean"

    def write(self, layers: Layers) -> Term:
        return joined(f"({{0}} {self.operator} {{1}})", *alike((self.left, self.right), layers))


@dataclass(frozen=True, slots=True)
class Between:
    """least <= value <= most."""

    value: Scalar
    least: Scalar
    most: Scalar
    type: ScalarType = "boolean"

    def write(self, layers: Layers) -> Term:
        return joined("({0} BETWEEN {1} AND {2})", *alike((self.value, self.least, self.most), layers))


@dataclass(frozen=True, slots=True)
class Within:
    """value IN (literals)."""

    value: Scalar
    listed: tuple[Scalar, ...]
    type: ScalarType = "boolean"

    def write(self, layers: Layers) -> Term:
        first, *others = alike((self.value, *self.listed), layers)
        return joined("({0} IN (" + ", ".join(f"{{{number + 1}}}" for number in range(len(others))) + "))", first, *others)


@dataclass(frozen=True, slots=True)
class Absent:
    """value IS NULL: never null itself."""

    value: Scalar
    type: ScalarType = "boolean"

    def write(self, layers: Layers) -> Term:
        return joined("({0} IS NULL)", self.value.write(layers))


@dataclass(frozen=True, slots=True)
class Connected:
    """AND or OR, with SQL's unknown."""

    operator: str
    left: Scalar
    right: Scalar
    type: ScalarType = "boolean"

    def write(self, layers: Layers) -> Term:
        return joined(f"({{0}} {self.operator} {{1}})", self.left.write(layers), self.right.write(layers))


@dataclass(frozen=True, slots=True)
class Negated:
    """NOT value."""

    value: Scalar
    type: ScalarType = "boolean"

    def write(self, layers: Layers) -> Term:
        return joined("(NOT {0})", self.value.write(layers))


@dataclass(frozen=True, slots=True)
class WholeArithmetic:
    """+ - * // % on 64-bit integers; // and % go toward zero. Null where the divisor is 0 or the result is no 64-bit integer."""

    operator: str
    left: Scalar
    right: Scalar
    type: ScalarType = "integer"

    def write(self, layers: Layers) -> Term:
        left, right = (layers.bind(side.write(layers)) for side in (self.left, self.right))
        sql = layers.dialect.checked(self.operator, left.sql, right.sql)
        return layers.bind(Term(sql, max(left.depth, right.depth)))


@dataclass(frozen=True, slots=True)
class DecimalArithmetic:
    """+ - * / on doubles, within FARTHEST and NEAREST. Null where the divisor is 0."""

    operator: str
    left: Scalar
    right: Scalar
    type: ScalarType = "decimal"

    def write(self, layers: Layers) -> Term:
        left, right = (_limited(side, layers) for side in (self.left, self.right))
        template = f"({{0}} {self.operator} {{1}})" if self.operator != "/" else "({0} / NULLIF({1}, {2}))"
        return layers.bind(joined(template, left, right, decimal(0.0).write(layers)))


@dataclass(frozen=True, slots=True)
class AsDecimal:
    """An integer as a double, the nearest."""

    value: Scalar
    type: ScalarType = "decimal"

    def write(self, layers: Layers) -> Term:
        return as_decimal(self.value, layers)


@dataclass(frozen=True, slots=True)
class Cased:
    """lower or upper of the 26 letters of ASCII: engines and their versions do not agree about any other letter."""

    value: Scalar
    upper: bool
    type: ScalarType = "text"

    def write(self, layers: Layers) -> Term:
        letters = (LOWER, UPPER) if self.upper else (UPPER, LOWER)
        return joined("translate({0}, {1}, {2})", self.value.write(layers), *(Term(layers.dialect.text(each)) for each in letters))


@dataclass(frozen=True, slots=True)
class Part:
    """substr: characters (Unicode code points) from `start`, which is 1 or more; length None: all that are left."""

    value: Scalar
    start: int
    length: int | None
    type: ScalarType = "text"

    def write(self, layers: Layers) -> Term:
        length = "" if self.length is None else f", {self.length}"
        return joined(f"substring({{0}}, {self.start}{length})", self.value.write(layers))


@dataclass(frozen=True, slots=True)
class DatePart:
    """A number of a date in the Gregorian calendar; week is that of ISO 8601, dow 0 for Sunday, isodow 1 for Monday to 7."""

    value: Scalar
    part: DatePartName
    type: ScalarType = "integer"

    def write(self, layers: Layers) -> Term:
        value = self.value.write(layers)
        return Term(layers.dialect.date_part(self.part, value.sql), value.depth)


def alike(scalars: tuple[Scalar, ...], layers: Layers) -> list[Term]:
    """Their terms; numbers are doubles where one of them is."""
    if any(scalar.type == "decimal" for scalar in scalars):
        return [as_decimal(scalar, layers) for scalar in scalars]
    return [scalar.write(layers) for scalar in scalars]


def as_decimal(scalar: Scalar, layers: Layers) -> Term:
    """A number as a double."""
    term = scalar.write(layers)
    return term if scalar.type == "decimal" else Term(layers.dialect.cast(term.sql, "decimal"), term.depth)


def decimal(value: float) -> LiteralValue:
    return LiteralValue(repr(float(value)), "decimal")


def integer(value: int) -> LiteralValue:
    return LiteralValue(str(value), "integer")


def _limited(scalar: Scalar, layers: Layers) -> Term:
    """An operand with which arithmetic cannot fail."""
    bounds = (decimal(number).write(layers) for number in (FARTHEST, NEAREST, 0.0))
    template = "(CASE WHEN abs({0}) > {1} THEN NULL WHEN abs({0}) < {2} THEN {3} ELSE {0} END)"
    return joined(template, layers.bind(as_decimal(scalar, layers)), *bounds)

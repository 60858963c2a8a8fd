"""What each kind of node of the parser's tree means: a table of those that are allowed. What is not in it is refused."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Protocol

from dpcli.base.errors import InputError
from dpcli.release.expressions.nodes import (
    NUMBERS,
    Absent,
    Between,
    Cased,
    Compared,
    Connected,
    DatePart,
    DecimalArithmetic,
    LiteralValue,
    Negated,
    Part,
    Scalar,
    WholeArithmetic,
    Within,
    decimal,
    integer,
)
from dpcli.release.expressions.writing import DatePartName, ScalarType

if TYPE_CHECKING:
    from sqlglot import exp

WHOLE_LEAST, WHOLE_MOST = -(2**63), 2**63 - 1
MOST_CHARACTERS = 1_000_000
MOST_LISTED = 10_000
TEXT = "text"


class OperandReader(Protocol):
    """Reads the operands of a node."""

    def scalar(self, node: exp.Expr) -> Scalar: ...

    def of_type(self, node: exp.Expr, *types: ScalarType) -> Scalar:
        """An operand of one of these types, or InputError."""
        ...

    def column(self, name: str) -> Scalar: ...

    def refusal(self, node: exp.Expr, expected: str = ...) -> InputError:
        """What to raise where a node is not as expected."""
        ...


Read = Callable[[OperandReader, "exp.Expr"], Scalar]


@dataclass(frozen=True, slots=True)
class NodeMeaning:
    """How a node is read, and the parts that it may have."""

    read: Read
    arguments: frozenset[str]


def _column(reader: OperandReader, node: exp.Expr) -> Scalar:
    if type(node.this).__name__ != "Identifier":
        raise reader.refusal(node)
    return reader.column(node.this.this)


def _literal(reader: OperandReader, node: exp.Expr) -> Scalar:
    return LiteralValue(node.this, "text") if node.args.get("is_string") else _number(reader, node, node.this)


def _number(reader: OperandReader, node: exp.Expr, text: str) -> Scalar:
    """An integer of 64 bits, or a double."""
    if text.removeprefix("-").isdecimal() and text.isascii():
        value = int(text) if len(text) < 25 else WHOLE_MOST + 1
        if WHOLE_LEAST <= value <= WHOLE_MOST:
            return integer(value)
        raise reader.refusal(node, "integers of 64 bits")
    try:
        number = float(text)
    except ValueError:
        raise reader.refusal(node, "a number") from None
    if not math.isfinite(number):
        raise reader.refusal(node, "a finite number")
    return decimal(number)


def _truth(reader: OperandReader, node: exp.Expr) -> Scalar:
    return LiteralValue("true" if node.this else "false", "boolean")


def _date(reader: OperandReader, node: exp.Expr) -> Scalar:
    """date '2020-01-31'; no other cast."""
    literal, to = node.this, node.args["to"]
    if to.sql() != "DATE" or type(literal).__name__ != "Literal" or not literal.args.get("is_string"):
        raise reader.refusal(node)
    try:
        value = date.fromisoformat(literal.this)
    except ValueError:
        raise reader.refusal(node, "date 'YYYY-MM-DD'") from None
    return LiteralValue(value.isoformat(), "date")


def _inside(reader: OperandReader, node: exp.Expr) -> Scalar:
    return reader.scalar(node.this)


def _comparison(operator: str) -> Read:
    def read(reader: OperandReader, node: exp.Expr) -> Scalar:
        left, right = _comparable(reader, node, node.this, node.expression)
        if left.type == "boolean" and operator not in ("=", "<>"):
            raise reader.refusal(node, "= or <> between booleans")
        return Compared(operator, left, right)

    return read


def _comparable(reader: OperandReader, node: exp.Expr, *operands: exp.Expr) -> tuple[Scalar, ...]:
    """Operands of one type, or numbers."""
    found = tuple(reader.scalar(operand) for operand in operands)
    if len({"number" if each.type in NUMBERS else each.type for each in found}) > 1:
        types = ", ".join(dict.fromkeys(each.type for each in found))
        hint = " (a date is written date '2020-01-31')" if {each.type for each in found} == {"date", TEXT} else ""
        raise reader.refusal(node, f"values of one type to compare{hint}, not {types}")
    return found


def _between(reader: OperandReader, node: exp.Expr) -> Scalar:
    value, least, most = _comparable(reader, node, node.this, node.args["low"], node.args["high"])
    if value.type == "boolean":
        raise reader.refusal(node, "numbers, text or dates with between")
    return Between(value, least, most)


def _within(reader: OperandReader, node: exp.Expr) -> Scalar:
    listed = node.expressions
    if not 1 <= len(listed) <= MOST_LISTED:
        raise reader.refusal(node, f"a list of 1 to {MOST_LISTED:,} literals")
    value, *values = _comparable(reader, node, node.this, *listed)
    if not all(isinstance(each, LiteralValue) for each in values):
        raise reader.refusal(node, "literals in the list of in")
    return Within(value, tuple(values))


def _is(reader: OperandReader, node: exp.Expr) -> Scalar:
    if type(node.expression).__name__ != "Null":
        raise reader.refusal(node, "is null or is not null")
    return Absent(reader.scalar(node.this))


def _connection(operator: str) -> Read:
    def read(reader: OperandReader, node: exp.Expr) -> Scalar:
        return Connected(operator, reader.of_type(node.this, "boolean"), reader.of_type(node.expression, "boolean"))

    return read


def _not(reader: OperandReader, node: exp.Expr) -> Scalar:
    return Negated(reader.of_type(node.this, "boolean"))


def _arithmetic(operator: str) -> Read:
    def read(reader: OperandReader, node: exp.Expr) -> Scalar:
        left, right = (reader.of_type(side, "integer", "decimal") for side in (node.this, node.expression))
        if operator == "/" or "decimal" in (left.type, right.type):
            return DecimalArithmetic(operator, left, right)
        return WholeArithmetic(operator, left, right)

    return read


def _whole_division(operator: str) -> Read:
    def read(reader: OperandReader, node: exp.Expr) -> Scalar:
        return WholeArithmetic(operator, reader.of_type(node.this, "integer"), reader.of_type(node.expression, "integer"))

    return read


def _minus(reader: OperandReader, node: exp.Expr) -> Scalar:
    literal = node.this
    if type(literal).__name__ == "Literal" and not literal.args.get("is_string") and not literal.this.startswith("-"):
        return _number(reader, node, f"-{literal.this}")
    value = reader.of_type(node.this, "integer", "decimal")
    return WholeArithmetic("-", integer(0), value) if value.type == "integer" else DecimalArithmetic("-", decimal(0.0), value)


def _cased(upper: bool) -> Read:
    def read(reader: OperandReader, node: exp.Expr) -> Scalar:
        return Cased(reader.of_type(node.this, "text"), upper)

    return read


def _part(reader: OperandReader, node: exp.Expr) -> Scalar:
    """Positions are literals: engines do not agree where a position is 0 or negative, or a length is."""
    start = _position(reader, node, node.args.get("start"), 1)
    length = node.args.get("length")
    return Part(reader.of_type(node.this, "text"), start, None if length is None else _position(reader, node, length, 0))


def _position(reader: OperandReader, node: exp.Expr, found: exp.Expr | None, least: int) -> int:
    text = str(found.this) if type(found).__name__ == "Literal" and found is not None and not found.args.get("is_string") else ""
    if not (text.isascii() and text.isdecimal() and len(text) < 8 and least <= int(text) <= MOST_CHARACTERS):
        raise reader.refusal(
            node, "substr(text, start, length) with whole numbers, a start of at least 1 and a length of at least 0"
        )
    return int(text)


def _date_part(part: DatePartName) -> Read:
    def read(reader: OperandReader, node: exp.Expr) -> Scalar:
        return DatePart(reader.of_type(node.this, "date"), part)

    return read


EXTRACTED: Mapping[str, DatePartName] = {
    name.upper(): name for name in ("year", "quarter", "month", "week", "day", "doy", "dow", "isodow")
}


def _extract(reader: OperandReader, node: exp.Expr) -> Scalar:
    part = EXTRACTED.get(str(node.this.this).upper()) if type(node.this).__name__ == "Var" else None
    if part is None:
        raise reader.refusal(node, f"extract of {', '.join(EXTRACTED.values())}")
    return DatePart(reader.of_type(node.expression, "date"), part)


ONE, TWO = frozenset({"this"}), frozenset({"this", "expression"})

# By the name of sqlglot's class: what is not here is refused.
MEANINGS: Mapping[str, NodeMeaning] = {
    "Column": NodeMeaning(_column, ONE),
    "Literal": NodeMeaning(_literal, ONE | {"is_string"}),
    "Boolean": NodeMeaning(_truth, ONE),
    "Cast": NodeMeaning(_date, ONE | {"to"}),
    "Paren": NodeMeaning(_inside, ONE),
    "EQ": NodeMeaning(_comparison("="), TWO),
    "NEQ": NodeMeaning(_comparison("<>"), TWO),
    "LT": NodeMeaning(_comparison("<"), TWO),
    "LTE": NodeMeaning(_comparison("<="), TWO),
    "GT": NodeMeaning(_comparison(">"), TWO),
    "GTE": NodeMeaning(_comparison(">="), TWO),
    "Between": NodeMeaning(_between, ONE | {"low", "high"}),
    "In": NodeMeaning(_within, ONE | {"expressions"}),
    "Is": NodeMeaning(_is, TWO),
    "And": NodeMeaning(_connection("AND"), TWO),
    "Or": NodeMeaning(_connection("OR"), TWO),
    "Not": NodeMeaning(_not, ONE),
    "Add": NodeMeaning(_arithmetic("+"), TWO),
    "Sub": NodeMeaning(_arithmetic("-"), TWO),
    "Mul": NodeMeaning(_arithmetic("*"), TWO),
    "Div": NodeMeaning(_arithmetic("/"), TWO | {"typed", "safe"}),
    "IntDiv": NodeMeaning(_whole_division("//"), TWO),
    "Mod": NodeMeaning(_whole_division("%"), TWO),
    "Neg": NodeMeaning(_minus, ONE),
    "Lower": NodeMeaning(_cased(upper=False), ONE),
    "Upper": NodeMeaning(_cased(upper=True), ONE),
    "Substring": NodeMeaning(_part, ONE | {"start", "length"}),
    "Extract": NodeMeaning(_extract, TWO),
    "Year": NodeMeaning(_date_part("year"), ONE),
    "Quarter": NodeMeaning(_date_part("quarter"), ONE),
    "Month": NodeMeaning(_date_part("month"), ONE),
    "Week": NodeMeaning(_date_part("week"), ONE),
    "WeekOfYear": NodeMeaning(_date_part("week"), ONE),
    "Day": NodeMeaning(_date_part("day"), ONE),
    "DayOfMonth": NodeMeaning(_date_part("day"), ONE),
    "DayOfYear": NodeMeaning(_date_part("doy"), ONE),
    "DayOfWeek": NodeMeaning(_date_part("dow"), ONE),
    "DayOfWeekIso": NodeMeaning(_date_part("isodow"), ONE),
}

"""Parser of the SQL expressions in a file, such as the `where` of a query or the expression of a computed column.

sql_tree.py lets sqlglot turn the text into a tree of nodes, and this module turns the tree into scalars (scalars.py), which every engine
computes equally. It refuses every kind of node, and every part of a node, that is not in MEANINGS. That list is a whitelist on purpose: an
expression reads private rows, so nothing may be added that can fail for some values (a failing row would be an answer without noise), that
reads another row, or that two engines compute differently.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import partial, reduce
from typing import TYPE_CHECKING

from dpcli.base.errors import InputError
from dpcli.file.toml.suggest import did_you_mean
from dpcli.release.data_source import TEXT, Column
from dpcli.release.engines.conversions import converted_text
from dpcli.release.engines.dialects import DatePartName, Period, ScalarType
from dpcli.release.expressions.scalars import (
    NUMBERS,
    Scalar,
    absolute,
    change_case,
    character_count,
    choice_by_truth,
    column,
    common_type,
    compose,
    date_part,
    decimal,
    decimal_arithmetic,
    first_day,
    first_true,
    integer,
    joined,
    literal,
    matches_pattern,
    nearest_whole,
    negation,
    text_of,
    to_decimal,
    whole_arithmetic,
    whole_number,
    without_spaces,
)
from dpcli.release.expressions.sql_tree import DEEPEST_NESTING, parse_expression, quote_for_message, too_deep

if TYPE_CHECKING:
    from sqlglot import exp

ALLOWED = (
    "columns, literals, comparison, and, or, not, between, in, like, is null, case when, coalesce, nullif, least, greatest, cast, "
    "+ - * / // % ||, abs, floor, ceil, round, concat, lower, upper, trim, substr, length, and year, quarter, month, week, day, "
    "dayofyear, dayofweek, isodow, extract or date_trunc of a date"
)
WHOLE_LEAST, WHOLE_MOST = -(2**63), 2**63 - 1  # the 64-bit integers
MOST_CHARACTERS = 1_000_000  # largest start and length of substr, a number of 7 digits
MOST_LISTED = 10_000  # largest number of values in a list in (...)

PARTS: tuple[DatePartName, ...] = ("year", "quarter", "month", "week", "day", "doy", "dow", "isodow")
PERIODS: tuple[Period, ...] = ("year", "quarter", "month", "week")

# Names that sqlglot gives to the parts of a node with one operand, and with two.
ONE, TWO = frozenset({"this"}), frozenset({"this", "expression"})

COMPARISONS = {"EQ": "=", "NEQ": "<>", "LT": "<", "LTE": "<=", "GT": ">", "GTE": ">="}


@dataclass(frozen=True, slots=True)
class Expressions:
    """The columns that expressions may name.

    within: names of the computed columns that are being read, the outermost first. They detect a column that is computed from itself.
    computed: computed columns that have been read. Each is read once, however many others use it.
    depth: number of expressions around the one that is read, if it is that of a computed column.
    """

    columns: Mapping[str, Column]
    within: tuple[str, ...] = ()
    computed: dict[str, Scalar] = field(default_factory=dict)
    depth: int = 0

    def scalar(self, text: str, key: str) -> Scalar:
        """Return the scalar that an SQL expression describes.

        Raises InputError if the text is not SQL, uses something that is not allowed, or combines incompatible types.
        """
        return SqlReader(self, key, self.depth).scalar(parse_expression(text, key))

    def condition(self, text: str, key: str) -> Scalar:
        """Return the scalar of a condition, which is true, false or unknown. Raises InputError if the text is no allowed condition."""
        scalar = self.scalar(text, key)
        if scalar.type != "boolean":
            raise InputError(f"{key}: expected a condition, found an expression of type {scalar.type}")
        return scalar

    def column(self, name: str, key: str, depth: int = 0) -> Scalar:
        """Return the column with the exact name. For a computed column, return the scalar of its expression.

        depth: number of expressions around the column.

        Raises InputError if there is no such column, it is computed from itself, or its expression has another type.
        """
        declared = self.columns.get(name)
        if declared is None:
            hint = did_you_mean(name, self.columns) or "a text stands in single quotes"
            raise InputError(f'{key}: expected a column of [source.columns], found "{name}" ({hint})')
        if declared.expression is None:
            return column(name, declared.type)
        if name in self.computed:
            return self.computed[name]
        if name in self.within:
            raise InputError(f'{key}: expected columns that are computed from others, found "{name}" computed from itself')
        expression_key = f"source.columns.{name}.expression"
        scalar = Expressions(self.columns, (*self.within, name), self.computed, depth).scalar(declared.expression, expression_key)
        if declared.type == "decimal" and scalar.type == "integer":
            scalar = to_decimal(scalar)
        if scalar.type != declared.type:
            raise InputError(f"{expression_key}: expected type {declared.type}, as declared, found {scalar.type}")
        self.computed[name] = Scalar(scalar.type, lambda layers: layers.compute(name, scalar))
        return self.computed[name]


@dataclass(frozen=True, slots=True)
class SqlReader:
    """A reader of the nodes of one expression.

    key: key that states the expression, for messages.
    """

    expressions: Expressions
    key: str
    depth: int = 0

    def scalar(self, node: exp.Expr) -> Scalar:
        """Return the scalar of a node. Raises InputError if the node has a part or a kind that is not in MEANINGS, or is too deep."""
        if self.depth > DEEPEST_NESTING:
            raise too_deep(self.key)
        if node.comments:
            raise InputError(f"{self.key}: expected no comment, found a comment")
        meaning = MEANINGS.get(type(node).__name__)
        present = {name for name, value in node.args.items() if value}
        if meaning is None or not present <= meaning.arguments:
            raise self.refusal(node)
        return meaning.read(SqlReader(self.expressions, self.key, self.depth + 1), node)

    def refusal(self, node: exp.Expr, expected: str = f"only {ALLOWED}") -> InputError:
        """Return the error of a node that is refused. The message quotes the node."""
        return InputError(f"{self.key}: expected {expected}, found {quote_for_message(node)}")

    def of_type(self, node: exp.Expr, *types: ScalarType) -> Scalar:
        """Return an operand that must have one of these types. Raises InputError if it has another type."""
        scalar = self.scalar(node)
        if scalar.type not in types:
            raise InputError(
                f"{self.key}: expected {' or '.join(types)} in {quote_for_message(node.parent or node)}, found "
                f"{quote_for_message(node)} of type {scalar.type}"
            )
        return scalar

    def comparable(self, node: exp.Expr, *operands: exp.Expr) -> tuple[Scalar, ...]:
        """Return operands that must all have the same type, or all be numbers. Raises InputError if they have other types."""
        scalars = tuple(map(self.scalar, operands))
        types = dict.fromkeys(scalar.type for scalar in scalars)
        if len(types) > 1 and not types.keys() <= set(NUMBERS):
            hint = " (a date is written date '2020-01-31')" if types.keys() == {"date", "text"} else ""
            raise self.refusal(node, f"values of one type{hint}, not {', '.join(types)}")
        return scalars


Read = Callable[[SqlReader, "exp.Expr"], Scalar]


@dataclass(frozen=True, slots=True)
class NodeMeaning:
    """The meaning of one kind of node.

    arguments: names of the parts that the node may have.
    """

    read: Read
    arguments: frozenset[str]


def _is_a(node: exp.Expr | None, name: str) -> bool:
    """Return whether a node is of the class of sqlglot with this name."""
    return type(node).__name__ == name


def _is_text(node: exp.Expr) -> bool:
    return _is_a(node, "Literal") and bool(node.args.get("is_string"))


def _is_number(node: exp.Expr | None) -> bool:
    return node is not None and _is_a(node, "Literal") and not node.args.get("is_string")


def _read_column(reader: SqlReader, node: exp.Expr) -> Scalar:
    if not _is_a(node.this, "Identifier"):
        raise reader.refusal(node)
    return reader.expressions.column(node.this.this, reader.key, reader.depth)


def _read_literal(reader: SqlReader, node: exp.Expr) -> Scalar:
    return literal(node.this, "text") if _is_text(node) else _number(reader, node, node.this)


def _number(reader: SqlReader, node: exp.Expr, text: str) -> Scalar:
    """Return a number as an integer if it consists of digits, otherwise as a double.

    Raises InputError if the integer has more than 64 bits, or the double is infinite.
    """
    if text.removeprefix("-").isdecimal() and text.isascii():
        value = int(text) if len(text) < 25 else WHOLE_MOST + 1  # a longer text would take long to convert
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


def _read_boolean(reader: SqlReader, node: exp.Expr) -> Scalar:
    return literal("true" if node.this else "false", "boolean")


def _read_cast(reader: SqlReader, node: exp.Expr) -> Scalar:
    """Return a value converted to another type; null where a text has no conversion.

    A text is read as in a csv file. A decimal is not converted, because databases round differently, and write the digits differently.
    """
    to = CAST_TYPES.get(node.args["to"].sql())
    if to == "date" and _is_text(node.this):
        return _date_literal(reader, node)
    if to is None:
        raise reader.refusal(node, f"a cast to {', '.join(map(str.lower, CAST_TYPES))}")
    value = reader.scalar(node.this)
    if value.type == to:
        return value
    if value.type == TEXT:
        return converted_text(value, to)
    convert = CASTS.get((value.type, to))
    if convert is None:
        hint = "; floor, ceil or round makes it whole" if (value.type, to) == ("decimal", "integer") else ""
        raise reader.refusal(node, f"a cast that every engine does alike, not of {value.type} to {to}{hint}")
    return convert(value)


def _truth_as_integer(value: Scalar) -> Scalar:
    return choice_by_truth(value, integer(1), integer(0))


def _date_literal(reader: SqlReader, node: exp.Expr) -> Scalar:
    """Return a date that is written as date '2020-01-31'. Raises InputError if there is no such day."""
    try:
        value = date.fromisoformat(node.this.this)
    except ValueError:
        raise reader.refusal(node, "date 'YYYY-MM-DD'") from None
    return literal(value.isoformat(), "date")


def _comparison_reader(operator: str) -> Read:
    def read(reader: SqlReader, node: exp.Expr) -> Scalar:
        left, right = reader.comparable(node, node.this, node.expression)
        if left.type == "boolean" and operator not in ("=", "<>"):
            raise reader.refusal(node, "= or <> between booleans")
        return compose("boolean", f"({{0}} {operator} {{1}})", left, right)

    return read


def _read_between(reader: SqlReader, node: exp.Expr) -> Scalar:
    value, least, most = reader.comparable(node, node.this, node.args["low"], node.args["high"])
    if value.type == "boolean":
        raise reader.refusal(node, "numbers, text or dates with between")
    return compose("boolean", "({0} BETWEEN {1} AND {2})", value, least, most)


def _read_in(reader: SqlReader, node: exp.Expr) -> Scalar:
    listed = node.expressions
    if not 1 <= len(listed) <= MOST_LISTED:
        raise reader.refusal(node, f"a list of 1 to {MOST_LISTED:,} literals")
    value, *values = reader.comparable(node, node.this, *listed)
    if not all(listed_value.literal for listed_value in values):
        raise reader.refusal(node, "literals in the list of in")
    places = ", ".join(f"{{{place}}}" for place in range(1, len(values) + 1))
    return compose("boolean", f"({{0}} IN ({places}))", value, *values)


def _like_reader(ignores_case: bool) -> Read:
    def read(reader: SqlReader, node: exp.Expr) -> Scalar:
        if not _is_text(node.expression):
            raise reader.refusal(node.expression, "a pattern in quotes after like")
        matching = matches_pattern(reader.of_type(node.this, "text"), node.expression.this, ignores_case)
        return negation(matching) if node.args.get("negate") else matching

    return read


def _of_common_type(function: str, values: Sequence[Scalar]) -> Scalar:
    """Return a function of all values. If one of them is a decimal, all are read as decimals, and so is the result."""
    places = ", ".join(f"{{{place}}}" for place in range(len(values)))
    return compose(common_type(values), f"{function}({places})", *values)


def _extreme_reader(function: str) -> Read:
    """Return a reader of least or greatest, which leave out nulls."""

    def read(reader: SqlReader, node: exp.Expr) -> Scalar:
        values = reader.comparable(node, node.this, *node.expressions)
        if len(values) < 2:
            raise reader.refusal(node, f"at least two values in {function}")  # Spark refuses one
        if values[0].type not in (*NUMBERS, "date"):
            raise reader.refusal(node, f"numbers or dates in {function}")
        return _of_common_type(function, values)

    return read


def _read_is_null(reader: SqlReader, node: exp.Expr) -> Scalar:
    """Return the test of a value for null, which is never null itself."""
    if not _is_a(node.expression, "Null"):
        raise reader.refusal(node, "is null or is not null")
    return compose("boolean", "({0} IS NULL)", reader.scalar(node.this))


def _read_case(reader: SqlReader, node: exp.Expr) -> Scalar:
    branches, otherwise = node.args["ifs"], node.args.get("default")
    conditions = [reader.of_type(branch.this, "boolean") for branch in branches]
    results = [branch.args["true"] for branch in branches]
    return first_true(conditions, reader.comparable(node, *results, *([] if otherwise is None else [otherwise])))


def _read_coalesce(reader: SqlReader, node: exp.Expr) -> Scalar:
    return _of_common_type("coalesce", reader.comparable(node, node.this, *node.expressions))


def _read_nullif(reader: SqlReader, node: exp.Expr) -> Scalar:
    """Return the first value, or null if the two are equal. Of an integer and a decimal, it is a decimal."""
    return _of_common_type("NULLIF", reader.comparable(node, node.this, node.expression))


def _connection_reader(operator: str) -> Read:
    def read(reader: SqlReader, node: exp.Expr) -> Scalar:
        sides = (reader.of_type(side, "boolean") for side in (node.this, node.expression))
        return compose("boolean", f"({{0}} {operator} {{1}})", *sides)

    return read


def _arithmetic_reader(operator: str) -> Read:
    def read(reader: SqlReader, node: exp.Expr) -> Scalar:
        left, right = (reader.of_type(side, "integer", "decimal") for side in (node.this, node.expression))
        if operator == "/" or "decimal" in (left.type, right.type):
            return decimal_arithmetic(operator, left, right)
        return whole_arithmetic(operator, left, right)

    return read


def _whole_division_reader(operator: str) -> Read:
    def read(reader: SqlReader, node: exp.Expr) -> Scalar:
        left, right = (reader.of_type(side, "integer") for side in (node.this, node.expression))
        return whole_arithmetic(operator, left, right)

    return read


def _read_minus(reader: SqlReader, node: exp.Expr) -> Scalar:
    operand = node.this
    if _is_number(operand) and not operand.this.startswith("-"):
        return _number(reader, node, f"-{operand.this}")
    value = reader.of_type(operand, "integer", "decimal")
    if value.type == "integer":
        return whole_arithmetic("-", integer(0), value)
    return decimal_arithmetic("-", decimal(0.0), value)


def _read_substring(reader: SqlReader, node: exp.Expr) -> Scalar:
    """Return a substring, counted in Unicode code points.

    Start and length must be literals, since engines disagree on positions that are 0 or negative, and on negative lengths.
    """
    bounds = [_literal_count(reader, node, node.args.get("start"), 1)]
    if node.args.get("length") is not None:
        bounds.append(_literal_count(reader, node, node.args["length"], 0))
    return compose("text", f"substring({{0}}, {', '.join(map(str, bounds))})", reader.of_type(node.this, "text"))


def _read_joined(reader: SqlReader, node: exp.Expr) -> Scalar:
    return joined(*(reader.of_type(side, "text") for side in (node.this, node.expression)))


def _read_concat(reader: SqlReader, node: exp.Expr) -> Scalar:
    """Return texts one after another, where null counts as an empty text."""
    texts = [compose("text", "coalesce({0}, {1})", reader.of_type(part, "text"), literal("", "text")) for part in node.expressions]
    return reduce(joined, texts)


def _literal_count(reader: SqlReader, node: exp.Expr, count: exp.Expr | None, least: int) -> int:
    """Return a number of characters, which must be a literal. Raises InputError for any other argument."""
    text = str(count.this) if count is not None and _is_number(count) else ""
    if text.isascii() and text.isdecimal() and len(text) < 8 and least <= int(text) <= MOST_CHARACTERS:
        return int(text)
    raise reader.refusal(node, "substr(text, start, length) with a whole start of at least 1 and a whole length of at least 0")


def _read_extract(reader: SqlReader, node: exp.Expr) -> Scalar:
    name = str(node.this.this).lower() if _is_a(node.this, "Var") else ""
    part = next((part for part in PARTS if part == name), None)
    if part is None:
        raise reader.refusal(node, f"extract of {', '.join(PARTS)}")
    return date_part(part, reader.of_type(node.expression, "date"))


def _read_first_day(reader: SqlReader, node: exp.Expr) -> Scalar:
    unit = node.args["unit"]
    name = str(unit.this).lower() if _is_a(unit, "Var") or _is_text(unit) else ""
    period = next((period for period in PERIODS if period == name), None)
    if period is None:
        raise reader.refusal(node, f"date_trunc of {', '.join(PERIODS)}")
    return first_day(period, reader.of_type(node.this, "date"))


def _function_of(function: Callable[[Scalar], Scalar], *types: ScalarType) -> NodeMeaning:
    """Return the meaning of a function of one operand, which must have one of these types."""
    return NodeMeaning(lambda reader, node: function(reader.of_type(node.this, *types)), ONE)


# The types of a cast, as sqlglot writes them, and the conversions of what is no text.
CAST_TYPES: dict[str, ScalarType] = {
    "INT": "integer",
    "BIGINT": "integer",
    "DOUBLE": "decimal",
    "TEXT": "text",
    "BOOLEAN": "boolean",
    "DATE": "date",
}
CASTS: dict[tuple[ScalarType, ScalarType], Callable[[Scalar], Scalar]] = {
    ("integer", "decimal"): to_decimal,
    ("integer", "text"): text_of,
    ("boolean", "text"): text_of,
    ("date", "text"): text_of,
    ("boolean", "integer"): _truth_as_integer,
}
DATE_PARTS: dict[str, DatePartName] = {
    "Year": "year",
    "Quarter": "quarter",
    "Month": "month",
    "Week": "week",
    "WeekOfYear": "week",
    "Day": "day",
    "DayOfMonth": "day",
    "DayOfYear": "doy",
    "DayOfWeek": "dow",
    "DayOfWeekIso": "isodow",
}

# The meanings by the name of sqlglot's class, so that sqlglot is imported only when an expression is read.
MEANINGS: Mapping[str, NodeMeaning] = {
    "Column": NodeMeaning(_read_column, ONE),
    "Literal": NodeMeaning(_read_literal, ONE | {"is_string"}),
    "Boolean": NodeMeaning(_read_boolean, ONE),
    "Cast": NodeMeaning(_read_cast, ONE | {"to"}),
    "TryCast": NodeMeaning(_read_cast, ONE | {"to", "safe"}),
    "Paren": NodeMeaning(lambda reader, node: reader.scalar(node.this), ONE),
    **{name: NodeMeaning(_comparison_reader(operator), TWO) for name, operator in COMPARISONS.items()},
    "Between": NodeMeaning(_read_between, ONE | {"low", "high"}),
    "In": NodeMeaning(_read_in, ONE | {"expressions"}),
    "Like": NodeMeaning(_like_reader(ignores_case=False), TWO | {"negate"}),
    "ILike": NodeMeaning(_like_reader(ignores_case=True), TWO | {"negate"}),
    "Is": NodeMeaning(_read_is_null, TWO),
    "Case": NodeMeaning(_read_case, frozenset({"ifs", "default"})),
    "Coalesce": NodeMeaning(_read_coalesce, ONE | {"expressions"}),
    "Nullif": NodeMeaning(_read_nullif, TWO),
    "Least": NodeMeaning(_extreme_reader("least"), ONE | {"expressions", "ignore_nulls"}),
    "Greatest": NodeMeaning(_extreme_reader("greatest"), ONE | {"expressions", "ignore_nulls"}),
    "And": NodeMeaning(_connection_reader("AND"), TWO),
    "Or": NodeMeaning(_connection_reader("OR"), TWO),
    "Not": _function_of(negation, "boolean"),
    **{name: NodeMeaning(_arithmetic_reader(operator), TWO) for name, operator in (("Add", "+"), ("Sub", "-"), ("Mul", "*"))},
    "Div": NodeMeaning(_arithmetic_reader("/"), TWO | {"typed", "safe"}),
    "IntDiv": NodeMeaning(_whole_division_reader("//"), TWO),
    "Mod": NodeMeaning(_whole_division_reader("%"), TWO),
    "Neg": NodeMeaning(_read_minus, ONE),
    "DPipe": NodeMeaning(_read_joined, TWO | {"safe"}),
    "Concat": NodeMeaning(_read_concat, frozenset({"expressions", "safe", "coalesce"})),
    "Round": _function_of(nearest_whole, *NUMBERS),
    "Abs": _function_of(absolute, *NUMBERS),
    "Floor": _function_of(partial(whole_number, function="floor"), *NUMBERS),
    "Ceil": _function_of(partial(whole_number, function="ceil"), *NUMBERS),
    "Trim": _function_of(without_spaces, "text"),
    "Length": _function_of(character_count, "text"),
    "Lower": _function_of(partial(change_case, upper=False), "text"),
    "Upper": _function_of(partial(change_case, upper=True), "text"),
    "Substring": NodeMeaning(_read_substring, ONE | {"start", "length"}),
    "Extract": NodeMeaning(_read_extract, TWO),
    "DateTrunc": NodeMeaning(_read_first_day, ONE | {"unit"}),
    "TimestampTrunc": NodeMeaning(_read_first_day, ONE | {"unit"}),
    **{name: _function_of(partial(date_part, part), "date") for name, part in DATE_PARTS.items()},
}

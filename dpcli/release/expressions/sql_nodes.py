"""The kinds of nodes that an SQL expression in a file may consist of, and their translation to scalars.

sql_tree.py lets sqlglot turn the text of an expression into a tree of *nodes*, such as a comparison or a call. `NodeTranslator` turns a
node into a *scalar* (scalars.py), a typed expression whose SQL has the same value in every engine. sql_grammar.py calls it for the `where`
of a query and the expression of a computed column.

MEANINGS is a whitelist: it has each kind of node that is allowed, with the parts that it may have, and everything else is refused. An
expression reads private rows. So no kind may be added that can fail for some values (a failing row would be an answer without noise), that
reads another row, or that two engines compute differently.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import partial, reduce
from typing import TYPE_CHECKING

from dpcli.base.errors import InputError
from dpcli.release.data_source import TEXT
from dpcli.release.engines.conversions import converted_text
from dpcli.release.engines.dialects import DatePartName, Period, ScalarType
from dpcli.release.expressions.scalars import (
    NUMBERS,
    Scalar,
    absolute,
    change_case,
    character_count,
    choice_by_truth,
    common_type,
    compose,
    concatenate,
    date_part,
    decimal,
    decimal_arithmetic,
    first_day,
    first_true,
    integer,
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
from dpcli.release.expressions.sql_tree import DEEPEST_NESTING, quote_for_message, too_deep

if TYPE_CHECKING:
    from sqlglot import exp

# The allowed expressions in words, for messages. MEANINGS decides.
ALLOWED = (
    "columns, literals, comparison, and, or, not, between, in, like, is null, case when, coalesce, nullif, least, greatest, cast, "
    "+ - * / // % ||, abs, floor, ceil, round, concat, lower, upper, trim, substr, length, and year, quarter, month, week, day, "
    "dayofyear, dayofweek, isodow, extract or date_trunc of a date"
)
WHOLE_LEAST, WHOLE_MOST = -(2**63), 2**63 - 1  # the integers of 64 bits, which every engine has
MOST_CHARACTERS = 1_000_000  # largest start and length of substr; arbitrary
MOST_LISTED = 10_000  # largest number of values in a list in (...); the limit on the length of an expression allows fewer

EXTRACT_PARTS: tuple[DatePartName, ...] = ("year", "quarter", "month", "week", "day", "doy", "dow", "isodow")
TRUNC_PERIODS: tuple[Period, ...] = ("year", "quarter", "month", "week")

# Names of the parts of a node with one operand, and with two.
ONE, TWO = frozenset({"this"}), frozenset({"this", "expression"})

COMPARISONS = {"EQ": "=", "NEQ": "<>", "LT": "<", "LTE": "<=", "GT": ">", "GTE": ">="}  # operators by sqlglot's class


@dataclass(frozen=True, slots=True)
class NodeTranslator:
    """The translation of the nodes of one expression.

    column: function that returns a column by its exact name; its other arguments are `key` and the depth of the name in the expression.
    key: key of the file that states the expression, for messages.
    depth: number of nodes around the one that is translated, including those around the column that the expression computes.
    """

    column: Callable[[str, str, int], Scalar]
    key: str
    depth: int = 0

    def scalar(self, node: exp.Expr) -> Scalar:
        """Return the scalar of a node. Raises InputError if the node has a part or a kind that is not in MEANINGS, or is too deep."""
        if self.depth > DEEPEST_NESTING:
            raise too_deep(self.key)
        if node.comments:
            raise InputError(f"{self.key}: expected no comment, found a comment")
        meaning = MEANINGS.get(type(node).__name__)
        parts = {name for name, value in node.args.items() if value}
        if meaning is None or not parts <= meaning.parts:
            raise self.refusal(node)
        return meaning.translate(NodeTranslator(self.column, self.key, self.depth + 1), node)

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


Translate = Callable[[NodeTranslator, "exp.Expr"], Scalar]  # function that turns a node of one kind into a scalar


@dataclass(frozen=True, slots=True)
class NodeMeaning:
    """The meaning of one kind of node.

    parts: names of the parts that the node may have; sqlglot calls them arguments. A node with another part is refused: the part might
        change its meaning.
    """

    translate: Translate
    parts: frozenset[str]


def _is_a(node: exp.Expr | None, name: str) -> bool:
    """Return whether a node is of the class of sqlglot with this name. sqlglot is thus not imported here."""
    return type(node).__name__ == name


def _is_text(node: exp.Expr) -> bool:
    return _is_a(node, "Literal") and bool(node.args.get("is_string"))


def _is_number(node: exp.Expr | None) -> bool:
    return node is not None and _is_a(node, "Literal") and not node.args.get("is_string")


def _translate_column(translator: NodeTranslator, node: exp.Expr) -> Scalar:
    if not _is_a(node.this, "Identifier"):
        raise translator.refusal(node)
    return translator.column(node.this.this, translator.key, translator.depth)


def _translate_literal(translator: NodeTranslator, node: exp.Expr) -> Scalar:
    return literal(node.this, "text") if _is_text(node) else _number(translator, node, node.this)


def _number(translator: NodeTranslator, node: exp.Expr, text: str) -> Scalar:
    """Return a number as an integer if it consists of digits, otherwise as a double.

    Raises InputError if the integer has more than 64 bits, or the double is infinite.
    """
    if text.removeprefix("-").isdecimal() and text.isascii():
        # Integers of 64 bits have at most 20 characters. A text of 25 or more is refused unconverted: Python refuses very long ones.
        value = int(text) if len(text) < 25 else WHOLE_MOST + 1
        if WHOLE_LEAST <= value <= WHOLE_MOST:
            return integer(value)
        raise translator.refusal(node, "integers of 64 bits")
    try:
        number = float(text)
    except ValueError:
        raise translator.refusal(node, "a number") from None
    if not math.isfinite(number):
        raise translator.refusal(node, "a finite number")
    return decimal(number)


def _translate_boolean(translator: NodeTranslator, node: exp.Expr) -> Scalar:
    return literal("true" if node.this else "false", "boolean")


def _translate_cast(translator: NodeTranslator, node: exp.Expr) -> Scalar:
    """Return a value converted to another type; null where a text has no conversion.

    A text is read as in a csv file. A decimal is not converted, because databases round differently, and write the digits differently.
    """
    to = CAST_TYPES.get(node.args["to"].sql())
    if to == "date" and _is_text(node.this):  # sqlglot reads date '2020-01-31' as a cast of a text
        return _date_literal(translator, node)
    if to is None:
        raise translator.refusal(node, f"a cast to {', '.join(map(str.lower, CAST_TYPES))}")
    value = translator.scalar(node.this)
    if value.type == to:
        return value
    if value.type == TEXT:
        return converted_text(value, to)
    convert = CASTS.get((value.type, to))
    if convert is None:
        hint = "; floor, ceil or round makes it whole" if (value.type, to) == ("decimal", "integer") else ""
        raise translator.refusal(node, f"a cast that every engine does alike, not of {value.type} to {to}{hint}")
    return convert(value)


def _truth_as_integer(value: Scalar) -> Scalar:
    return choice_by_truth(value, integer(1), integer(0))


def _date_literal(translator: NodeTranslator, node: exp.Expr) -> Scalar:
    """Return a date that is written as date '2020-01-31'. Raises InputError if there is no such day."""
    try:
        value = date.fromisoformat(node.this.this)
    except ValueError:
        raise translator.refusal(node, "date 'YYYY-MM-DD'") from None
    return literal(value.isoformat(), "date")


def _comparison(operator: str) -> Translate:
    def translate(translator: NodeTranslator, node: exp.Expr) -> Scalar:
        left, right = translator.comparable(node, node.this, node.expression)
        if left.type == "boolean" and operator not in ("=", "<>"):
            raise translator.refusal(node, "= or <> between booleans")
        return compose("boolean", f"({{0}} {operator} {{1}})", left, right)

    return translate


def _translate_between(translator: NodeTranslator, node: exp.Expr) -> Scalar:
    value, least, most = translator.comparable(node, node.this, node.args["low"], node.args["high"])
    if value.type == "boolean":
        raise translator.refusal(node, "numbers, text or dates with between")
    return compose("boolean", "({0} BETWEEN {1} AND {2})", value, least, most)


def _translate_in(translator: NodeTranslator, node: exp.Expr) -> Scalar:
    listed = node.expressions
    if not 1 <= len(listed) <= MOST_LISTED:
        raise translator.refusal(node, f"a list of 1 to {MOST_LISTED:,} literals")
    value, *values = translator.comparable(node, node.this, *listed)
    if not all(listed_value.literal for listed_value in values):
        raise translator.refusal(node, "literals in the list of in")
    places = ", ".join(f"{{{place}}}" for place in range(1, len(values) + 1))
    return compose("boolean", f"({{0}} IN ({places}))", value, *values)


def _like(ignores_case: bool) -> Translate:
    def translate(translator: NodeTranslator, node: exp.Expr) -> Scalar:
        if not _is_text(node.expression):
            raise translator.refusal(node.expression, "a pattern in quotes after like")
        matching = matches_pattern(translator.of_type(node.this, "text"), node.expression.this, ignores_case)
        return negation(matching) if node.args.get("negate") else matching

    return translate


def _of_common_type(function: str, values: Sequence[Scalar]) -> Scalar:
    """Return a function of all values. If one of them is a decimal, all are read as decimals, and so is the result."""
    places = ", ".join(f"{{{place}}}" for place in range(len(values)))
    return compose(common_type(values), f"{function}({places})", *values)


def _extreme(function: str) -> Translate:
    """Return the translation of least or greatest, which leave out nulls."""

    def translate(translator: NodeTranslator, node: exp.Expr) -> Scalar:
        values = translator.comparable(node, node.this, *node.expressions)
        if len(values) < 2:
            raise translator.refusal(node, f"at least two values in {function}")  # Spark refuses one
        if values[0].type not in (*NUMBERS, "date"):
            raise translator.refusal(node, f"numbers or dates in {function}")
        return _of_common_type(function, values)

    return translate


def _translate_is_null(translator: NodeTranslator, node: exp.Expr) -> Scalar:
    """Return the test of a value for null, which is never null itself."""
    if not _is_a(node.expression, "Null"):
        raise translator.refusal(node, "is null or is not null")
    return compose("boolean", "({0} IS NULL)", translator.scalar(node.this))


def _translate_case(translator: NodeTranslator, node: exp.Expr) -> Scalar:
    branches, otherwise = node.args["ifs"], node.args.get("default")
    conditions = [translator.of_type(branch.this, "boolean") for branch in branches]
    results = [branch.args["true"] for branch in branches]
    return first_true(conditions, translator.comparable(node, *results, *([] if otherwise is None else [otherwise])))


def _translate_coalesce(translator: NodeTranslator, node: exp.Expr) -> Scalar:
    return _of_common_type("coalesce", translator.comparable(node, node.this, *node.expressions))


def _translate_nullif(translator: NodeTranslator, node: exp.Expr) -> Scalar:
    """Return the first value, or null if the two are equal. Of an integer and a decimal, it is a decimal."""
    return _of_common_type("NULLIF", translator.comparable(node, node.this, node.expression))


def _and_or(operator: str) -> Translate:
    def translate(translator: NodeTranslator, node: exp.Expr) -> Scalar:
        sides = (translator.of_type(side, "boolean") for side in (node.this, node.expression))
        return compose("boolean", f"({{0}} {operator} {{1}})", *sides)

    return translate


def _arithmetic(operator: str) -> Translate:
    def translate(translator: NodeTranslator, node: exp.Expr) -> Scalar:
        left, right = (translator.of_type(side, "integer", "decimal") for side in (node.this, node.expression))
        if operator == "/" or "decimal" in (left.type, right.type):
            return decimal_arithmetic(operator, left, right)
        return whole_arithmetic(operator, left, right)

    return translate


def _whole_division(operator: str) -> Translate:
    def translate(translator: NodeTranslator, node: exp.Expr) -> Scalar:
        left, right = (translator.of_type(side, "integer") for side in (node.this, node.expression))
        return whole_arithmetic(operator, left, right)

    return translate


def _translate_minus(translator: NodeTranslator, node: exp.Expr) -> Scalar:
    """Return a number with the other sign. A negative literal is read as a whole: the digits of -2^63 alone exceed 64 bits."""
    operand = node.this
    if _is_number(operand) and not operand.this.startswith("-"):
        return _number(translator, node, f"-{operand.this}")
    value = translator.of_type(operand, "integer", "decimal")
    if value.type == "integer":
        return whole_arithmetic("-", integer(0), value)
    return decimal_arithmetic("-", decimal(0.0), value)


def _translate_substring(translator: NodeTranslator, node: exp.Expr) -> Scalar:
    """Return a substring, counted in Unicode code points.

    Start and length must be literals, since engines disagree on positions that are 0 or negative, and on negative lengths.
    """
    bounds = [_literal_count(translator, node, node.args.get("start"), 1)]
    if node.args.get("length") is not None:
        bounds.append(_literal_count(translator, node, node.args["length"], 0))
    return compose("text", f"substring({{0}}, {', '.join(map(str, bounds))})", translator.of_type(node.this, "text"))


def _translate_joined(translator: NodeTranslator, node: exp.Expr) -> Scalar:
    return concatenate(*(translator.of_type(side, "text") for side in (node.this, node.expression)))


def _translate_concat(translator: NodeTranslator, node: exp.Expr) -> Scalar:
    """Return texts one after another, where null counts as an empty text."""
    texts = [
        compose("text", "coalesce({0}, {1})", translator.of_type(part, "text"), literal("", "text")) for part in node.expressions
    ]
    return reduce(concatenate, texts)


def _literal_count(translator: NodeTranslator, node: exp.Expr, count: exp.Expr | None, least: int) -> int:
    """Return a number of characters, which must be a literal. Raises InputError for any other argument."""
    text = str(count.this) if count is not None and _is_number(count) else ""
    # MOST_CHARACTERS has 7 digits. A longer text is not converted, because Python refuses very long ones.
    if text.isascii() and text.isdecimal() and len(text) < 8 and least <= int(text) <= MOST_CHARACTERS:
        return int(text)
    raise translator.refusal(node, "substr(text, start, length) with a whole start of at least 1 and a whole length of at least 0")


def _translate_extract(translator: NodeTranslator, node: exp.Expr) -> Scalar:
    name = str(node.this.this).lower() if _is_a(node.this, "Var") else ""
    part = next((part for part in EXTRACT_PARTS if part == name), None)  # the same text, as a DatePartName for type checkers
    if part is None:
        raise translator.refusal(node, f"extract of {', '.join(EXTRACT_PARTS)}")
    return date_part(part, translator.of_type(node.expression, "date"))


def _translate_first_day(translator: NodeTranslator, node: exp.Expr) -> Scalar:
    unit = node.args["unit"]
    name = str(unit.this).lower() if _is_a(unit, "Var") or _is_text(unit) else ""
    period = next((period for period in TRUNC_PERIODS if period == name), None)
    if period is None:
        raise translator.refusal(node, f"date_trunc of {', '.join(TRUNC_PERIODS)}")
    return first_day(period, translator.of_type(node.this, "date"))


def _function_of(function: Callable[[Scalar], Scalar], *types: ScalarType) -> NodeMeaning:
    """Return the meaning of a function of one operand, which must have one of these types."""
    return NodeMeaning(lambda translator, node: function(translator.of_type(node.this, *types)), ONE)


# The types to which a value can be cast, by sqlglot's names of them; and the casts from other types than text (see `_translate_cast`).
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
DATE_FUNCTIONS: dict[str, DatePartName] = {
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

# The whitelist: the meaning of each kind of node, by the name of sqlglot's class for it. Every other kind is refused. The parts "safe",
# "typed", "coalesce" and "ignore_nulls" are flags that sqlglot's parser sets itself, so a node may have them.
MEANINGS: Mapping[str, NodeMeaning] = {
    "Column": NodeMeaning(_translate_column, ONE),
    "Literal": NodeMeaning(_translate_literal, ONE | {"is_string"}),
    "Boolean": NodeMeaning(_translate_boolean, ONE),
    "Cast": NodeMeaning(_translate_cast, ONE | {"to"}),
    "TryCast": NodeMeaning(_translate_cast, ONE | {"to", "safe"}),
    "Paren": NodeMeaning(lambda translator, node: translator.scalar(node.this), ONE),
    **{name: NodeMeaning(_comparison(operator), TWO) for name, operator in COMPARISONS.items()},
    "Between": NodeMeaning(_translate_between, ONE | {"low", "high"}),
    "In": NodeMeaning(_translate_in, ONE | {"expressions"}),
    "Like": NodeMeaning(_like(ignores_case=False), TWO | {"negate"}),
    "ILike": NodeMeaning(_like(ignores_case=True), TWO | {"negate"}),
    "Is": NodeMeaning(_translate_is_null, TWO),
    "Case": NodeMeaning(_translate_case, frozenset({"ifs", "default"})),
    "Coalesce": NodeMeaning(_translate_coalesce, ONE | {"expressions"}),
    "Nullif": NodeMeaning(_translate_nullif, TWO),
    "Least": NodeMeaning(_extreme("least"), ONE | {"expressions", "ignore_nulls"}),
    "Greatest": NodeMeaning(_extreme("greatest"), ONE | {"expressions", "ignore_nulls"}),
    "And": NodeMeaning(_and_or("AND"), TWO),
    "Or": NodeMeaning(_and_or("OR"), TWO),
    "Not": _function_of(negation, "boolean"),
    **{name: NodeMeaning(_arithmetic(operator), TWO) for name, operator in (("Add", "+"), ("Sub", "-"), ("Mul", "*"))},
    "Div": NodeMeaning(_arithmetic("/"), TWO | {"typed", "safe"}),
    "IntDiv": NodeMeaning(_whole_division("//"), TWO),
    "Mod": NodeMeaning(_whole_division("%"), TWO),
    "Neg": NodeMeaning(_translate_minus, ONE),
    "DPipe": NodeMeaning(_translate_joined, TWO | {"safe"}),
    "Concat": NodeMeaning(_translate_concat, frozenset({"expressions", "safe", "coalesce"})),
    "Round": _function_of(nearest_whole, *NUMBERS),
    "Abs": _function_of(absolute, *NUMBERS),
    "Floor": _function_of(partial(whole_number, function="floor"), *NUMBERS),
    "Ceil": _function_of(partial(whole_number, function="ceil"), *NUMBERS),
    "Trim": _function_of(without_spaces, "text"),
    "Length": _function_of(character_count, "text"),
    "Lower": _function_of(partial(change_case, upper=False), "text"),
    "Upper": _function_of(partial(change_case, upper=True), "text"),
    "Substring": NodeMeaning(_translate_substring, ONE | {"start", "length"}),
    "Extract": NodeMeaning(_translate_extract, TWO),
    "DateTrunc": NodeMeaning(_translate_first_day, ONE | {"unit"}),
    "TimestampTrunc": NodeMeaning(_translate_first_day, ONE | {"unit"}),
    **{name: _function_of(partial(date_part, part), "date") for name, part in DATE_FUNCTIONS.items()},
}

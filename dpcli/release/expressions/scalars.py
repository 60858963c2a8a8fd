"""Typed scalar expressions and the SQL that computes them. An expression that is used twice is computed once, in an inner SELECT.

A *scalar* is an expression with one value per row, of the type that [source.columns] would call integer, decimal (a double), text, boolean
or date. It is written as SQL only when a statement is built, by its `write`: the result is a *term*, a piece of SQL over the names that
exist in one *layer*. The layers are nested SELECTs that give names to terms, so that no term is repeated (`Layers`). sql_nodes.py makes
scalars of the expressions in a file, and engines/row_terms.py writes them into a statement.

Three rules hold for every function here: it has the same value in every engine, no value of a row makes it fail (it is null instead), and
the length of its SQL does not multiply by nesting. If a function broke the second rule, one private row would decide whether a release
fails, which would be an answer without noise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Literal, Protocol

from dpcli.release.engines.dialects import DatePartName, Dialect, Period, ScalarType

NUMBERS: tuple[ScalarType, ...] = ("integer", "decimal")
UPPER, LOWER = "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz"
# In arithmetic on decimals, an operand whose absolute value exceeds FARTHEST gives null, and one below NEAREST counts as 0. So no result is
# infinite, NaN or too small for a double. One of the three engines would raise an error for such results.
FARTHEST, NEAREST = 1e150, 1e-150
LARGEST_WHOLE = 9.2e18  # just below 2^63, so that a whole-number double below it fits into 64 bits
# Largest number of characters of a concatenation. Without a bound, an engine could fail; its value is arbitrary.
LONGEST_JOINED = 1_000_000
ESCAPE = "!"  # character that makes the next one of a pattern stand for itself, in every engine


@dataclass(frozen=True, slots=True)
class Term:
    """A piece of SQL.

    depth: number of the innermost layer in which all of its names exist.
    """

    sql: str
    depth: int = 0


class Columns(Protocol):
    """The columns of a table."""

    def term(self, name: str, layers: Layers) -> Term:
        """Return a column as a term of its declared type. Raises InputError if the table has no such column or another type."""


@dataclass(slots=True)
class Layers:
    """Nested SELECTs that give names to terms, so that no term is repeated in the SQL text. The innermost one is layer 0.

    Each SELECT names terms over the names of the inner SELECTs, for example:

        (SELECT *, t0 + 1 AS t1 FROM (SELECT *, abs(c0) AS t0 FROM (SELECT age AS c0 FROM people) AS base) AS l0) AS l1

    names: the names of each layer, by the SQL that they stand for.
    joins: the joins of each layer, as SQL that follows the inner SELECT in its FROM clause.
    computed: the computed columns that have been written, by their names.
    """

    dialect: Dialect
    columns: Columns
    names: list[dict[str, str]] = field(default_factory=list)
    computed: dict[str, Term] = field(default_factory=dict)
    joins: list[list[str]] = field(default_factory=list)

    def bind(self, term: Term) -> Term:
        """Return a name for a term, so that it can be used several times and is computed once. Equal terms get one name."""
        self._add_layers(term.depth)
        name = self.names[term.depth].setdefault(term.sql, f"t{sum(map(len, self.names))}")
        return Term(name, term.depth + 1)

    def join(self, sql: str, depth: int) -> None:
        """Join a table to a layer, whose names are then also those of the table. Equal SQL is joined once."""
        self._add_layers(depth)
        if sql not in self.joins[depth]:
            self.joins[depth].append(sql)

    def _add_layers(self, depth: int) -> None:
        """Add empty layers until there is one with the number `depth`."""
        while len(self.names) <= depth:
            self.names.append({})
            self.joins.append([])

    def compute(self, name: str, scalar: Scalar) -> Term:
        """Return the computed column with this name and scalar. It is written at its first use, and named from then on."""
        if name not in self.computed:
            self.computed[name] = self.bind(scalar.write(self))
        return self.computed[name]

    def over(self, base: str) -> str:
        """Return an item of a FROM clause that defines every bound name over the item `base`."""
        item = base
        for number, layer in enumerate(self.names):
            columns = "".join(f", {sql} AS {name}" for sql, name in layer.items())
            source = " ".join((item, *self.joins[number]))
            item = f"({self.dialect.layer(f'*{columns}', source)}) AS l{number}"
        return item


def fill_template(template: str, *terms: Term) -> Term:
    """Return a template whose places {0}, {1}, ... are filled with the SQL of terms."""
    return Term(template.format(*(term.sql for term in terms)), max((term.depth for term in terms), default=0))


@dataclass(frozen=True, slots=True)
class Scalar:
    """A typed expression. Its value may be null, which is SQL's unknown for a condition.

    write: function that writes it as SQL over the layers.
    literal: whether it is a constant, which the list of `in` must consist of.
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


def negation(condition: Scalar) -> Scalar:
    return compose("boolean", "(NOT {0})", condition)


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


def apply_to_named(type_: ScalarType, value: Scalar, function: Callable[[Scalar], Scalar]) -> Scalar:
    """Return a function of a value, which the function may use several times.

    The value is written once and gets a name. If it were repeated, the length of the SQL would multiply in nested expressions.
    """

    def write(layers: Layers) -> Term:
        name = layers.bind(value.write(layers))
        return function(Scalar(value.type, lambda _: name)).write(layers)

    return Scalar(type_, write)


def choice_by_truth(condition: Scalar, if_true: Scalar, if_false: Scalar) -> Scalar:
    """Return `if_true` where a condition is true, and `if_false` where it is false; null where it is unknown. Both have one type.

    SQL's ELSE would also apply where the condition is unknown.
    """
    return apply_to_named(if_true.type, condition, lambda known: first_true([known, negation(known)], [if_true, if_false]))


def change_case(value: Scalar, upper: bool) -> Scalar:
    """Return a text with its ASCII letters in upper or lower case. Engines and their versions disagree about all other letters."""
    lower_letters, upper_letters = literal(LOWER, "text"), literal(UPPER, "text")
    letters = (lower_letters, upper_letters) if upper else (upper_letters, lower_letters)
    return compose("text", "translate({0}, {1}, {2})", value, *letters)


def matches_pattern(value: Scalar, pattern: str, ignores_case: bool = False) -> Scalar:
    """Return whether a whole text matches a pattern of LIKE, in which % stands for any characters and _ for one.

    No character of the pattern escapes another. If case is ignored, it is the case of ASCII letters, as in `change_case`.
    """
    if ignores_case:
        value, pattern = change_case(value, upper=False), pattern.translate(str.maketrans(UPPER, LOWER))
    escaped = pattern.replace(ESCAPE, 2 * ESCAPE)
    return compose("boolean", f"({{0}} LIKE {{1}} ESCAPE '{ESCAPE}')", value, literal(escaped, "text"))


def character_count(value: Scalar) -> Scalar:
    """Return the number of Unicode code points of a text."""
    return _by_dialect("integer", lambda dialect, sql: dialect.cast(f"length({sql})", "integer"), value)


def without_spaces(value: Scalar) -> Scalar:
    """Return a text without the spaces (U+0020) at its ends."""
    return _by_dialect("text", lambda dialect, sql: dialect.trimmed(sql), value)


def concatenate(left: Scalar, right: Scalar) -> Scalar:
    """Return a text followed by another. It is null if one of them is, or if it is longer than LONGEST_JOINED."""

    def write(layers: Layers) -> Term:
        names = [layers.bind(side.write(layers)) for side in (left, right)]
        first, second = (Scalar("text", lambda _, name=name: name) for name in names)  # type: ignore[misc]
        lengths = whole_arithmetic("+", character_count(first), character_count(second))
        fits = compose("boolean", "({0} <= {1})", lengths, integer(LONGEST_JOINED))
        return first_true([fits], [compose("text", "({0} || {1})", first, second)]).write(layers)

    return Scalar("text", write)


def absolute(value: Scalar) -> Scalar:
    """Return the absolute value of a number. It is null for the least integer of 64 bits, whose absolute value does not fit into them."""
    if value.type == "decimal":
        return compose("decimal", "abs({0})", value)

    def absolute_integer(number: Scalar) -> Scalar:
        is_negative = compose("boolean", "({0} < {1})", number, integer(0))
        return first_true([is_negative], [whole_arithmetic("-", integer(0), number), number])

    return apply_to_named("integer", value, absolute_integer)


def whole_number(value: Scalar, function: Literal["floor", "ceil"]) -> Scalar:
    """Return a number rounded down or up, as an integer; null if its absolute value is at least LARGEST_WHOLE."""
    if value.type == "integer":
        return value

    def write(layers: Layers) -> Term:
        number, limit = layers.bind(value.write(layers)), decimal(LARGEST_WHOLE).write(layers)
        rounded = layers.dialect.cast(f"{function}({number.sql})", "integer")
        return fill_template(f"(CASE WHEN abs({{0}}) < {{1}} THEN {rounded} END)", number, limit)

    return Scalar("integer", write)


def nearest_whole(value: Scalar) -> Scalar:
    """Return the nearest integer; null if its absolute value is at least LARGEST_WHOLE. A half is rounded away from 0."""
    if value.type == "integer":
        return value

    def with_sign(number: Scalar) -> Scalar:
        is_negative = compose("boolean", "({0} < {1})", number, decimal(0.0))
        size = apply_to_named("integer", absolute(number), _half_up)
        return apply_to_named(
            "integer",
            size,
            lambda rounded: first_true([is_negative, negation(is_negative)], [whole_arithmetic("-", integer(0), rounded), rounded]),
        )

    return apply_to_named("integer", value, with_sign)


def _half_up(size: Scalar) -> Scalar:
    """Return a number >= 0 rounded to the nearest integer, and a half upwards: its floor, plus 1 if the rest is at least one half.

    The rest is exact. The sum of the number and one half, whose floor is the usual formula, may be rounded.
    """

    def raised(floor: Scalar) -> Scalar:
        is_high = compose("boolean", "({0} - {1} >= {2})", size, floor, decimal(0.5))
        return first_true([is_high, negation(is_high)], [whole_arithmetic("+", floor, integer(1)), floor])

    return apply_to_named("integer", whole_number(size, "floor"), raised)


def first_day(period: Period, value: Scalar) -> Scalar:
    """Return the first day of the year, quarter, month or week that contains a date. A week begins on Monday."""
    return _by_dialect("date", lambda dialect, sql: dialect.first_day(period, sql), value)


def date_part(part: DatePartName, value: Scalar) -> Scalar:
    """Return a part of a date in the Gregorian calendar, as an integer.

    `week` is the week of ISO 8601, `dow` counts from 0 for Sunday, and `isodow` from 1 for Monday to 7 for Sunday.
    """
    return _by_dialect("integer", lambda dialect, sql: dialect.date_part(part, sql), value)


def text_of(value: Scalar) -> Scalar:
    """Return an integer, a boolean or a date as a text: its digits, true or false, or YYYY-MM-DD."""
    if value.type == "boolean":
        return choice_by_truth(value, literal("true", "text"), literal("false", "text"))
    return _by_dialect("text", lambda dialect, sql: dialect.cast(sql, "text"), value)


def _by_dialect(type_: ScalarType, function: Callable[[Dialect, str], str], value: Scalar) -> Scalar:
    """Return a function of one value, which each dialect writes in its own way. `function` writes its argument once."""

    def write(layers: Layers) -> Term:
        term = value.write(layers)
        return Term(function(layers.dialect, term.sql), term.depth)

    return Scalar(type_, write)

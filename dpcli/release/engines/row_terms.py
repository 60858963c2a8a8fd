"""The expressions of an aggregation as SQL: the unit, the parts of the key and the integers of a row, and the conditions on it.

An *aggregation* (aggregate.py) asks for exact sums of integers by key; sql_statement.py builds its statement around the expressions that
`row_terms` returns. A *scalar* is a typed expression, which is written as a *term* of SQL over *layers*, nested SELECTs that give names to
terms (scalars.py). `layers.bind` gives a term such a name, so that it is computed once although it is used several times. *Steps* are
values that are rounded to whole multiples of a declared step, so that sums are exact.

An expression that is refused is an InputError here, before a row is read. A row whose unit or key is null, or whose value is missing and
not replaced, does not count: whatever writes such an expression adds the condition too. Sensitivities rest on the ranges that are enforced
here.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from dpcli.base.errors import InputError
from dpcli.release.aggregate import MOST_ROWS, Aggregation, GroupKey, KeyValue, Steps
from dpcli.release.data_source import MOST_STEPS, TEXT
from dpcli.release.engines.dialects import ScalarType
from dpcli.release.engines.source_table import SourceTable
from dpcli.release.expressions.scalars import NUMBERS, Layers, Scalar, Term, as_decimal, decimal, fill_template, integer, literal
from dpcli.release.expressions.sql_grammar import Expressions

# Limits without which a sum could be wrong.
MOST_SUM = 10**38  # limit of the narrowest integer sum of the three engines, which has 38 digits, a little less than 128 bits
MOST_BOUND = 2**62  # max_groups and max_rows must be below it, so that SQL compares them as 64-bit integers
STEP_LEAST, STEP_MOST = 1e-20, 1e20  # range of the size of a step; the ends are arbitrary, and far inside the range of doubles
# Limits of memory and time, which are arbitrary.
MOST_BINS = 10_000  # largest number of bins, to bound the length of the SQL
MOST_KEYS = 2_000_000  # largest number of declared keys over all parts of the key; the answer lists each of them
UNIT_TYPES = (TEXT, "integer")
KEY_CLASSES: Mapping[ScalarType, type] = {"text": str, "integer": int, "boolean": bool}  # types that a part of a key may have


@dataclass(frozen=True, slots=True)
class GroupPart:
    """A part of the key as SQL.

    count: number of values that the part can have; None if only the data determine them.
    """

    sql: str
    count: int | None


@dataclass(frozen=True, slots=True)
class RowTerms:
    """The expressions of an aggregation as SQL over the outermost names of the layers.

    unit: unit of a row; None if each row is a unit of its own.
    keys: parts of the key, and then the part whose different values are counted, if there is one.
    values: integers that are summed.
    conditions: conditions that are all true for a row that counts.
    """

    unit: str | None
    keys: tuple[GroupPart, ...]
    values: tuple[str, ...]
    conditions: tuple[str, ...]


def row_terms(aggregation: Aggregation, table: SourceTable, layers: Layers) -> RowTerms:
    """Return all expressions of an aggregation as SQL. Raises InputError if one of them is refused."""
    _require_bounds(aggregation)
    writer = RowWriter(Expressions(table.columns), layers)
    unit = None if aggregation.unit is None else writer.unit(aggregation.unit)
    if aggregation.where is not None:
        writer.conditions.append(writer.expressions.condition(aggregation.where, "where").write(layers).sql)
    if aggregation.filled_columns:
        writer.conditions.append(writer.any_value(aggregation.filled_columns))
    keys = tuple(map(writer.part, aggregation.parts))
    values = tuple(map(writer.value, aggregation.values))
    return RowTerms(unit, keys, values, tuple(dict.fromkeys(writer.conditions)))  # each condition once


def _require_bounds(aggregation: Aggregation) -> None:
    """Raise InputError if a bound on a unit is out of range, if sums might overflow, or if too many keys are declared."""
    for name, bound in (("max_groups", aggregation.max_groups), ("max_rows", aggregation.max_rows)):
        if not 1 <= bound < MOST_BOUND:
            raise InputError(f"{name}: expected a whole number from 1 to below 2^62, found {bound}")
    bounds_rows = aggregation.unit is not None and aggregation.clip is None
    # A sum of a unit with too many rows is made positive, which may double it, and multiplied by max_rows (`_bounded_sum`).
    factor = 2 * min(aggregation.max_rows, MOST_ROWS) if bounds_rows else 1
    if any(factor * steps.furthest * MOST_ROWS >= MOST_SUM for steps in aggregation.values):
        raise InputError(
            "min, max: expected sums of at most 38 digits for 2^40 rows, found a larger range: use larger steps or a smaller range"
        )
    key_count = math.prod(len(key.declared or (0,)) for key in aggregation.keys)  # a part without declared values has the factor 1
    if key_count > MOST_KEYS:
        raise InputError(f"by: expected at most {MOST_KEYS:,} declared keys, found {key_count:,}")


@dataclass(frozen=True, slots=True)
class RowWriter:
    """A writer of SQL expressions over the columns of a row.

    expressions: the expressions that a file may state. A second argument such as "unit" or "by" is the setting that messages name.
    conditions: conditions on a row, to which each written expression adds those that it needs.
    """

    expressions: Expressions
    layers: Layers
    conditions: list[str] = field(default_factory=list)

    def unit(self, name: str) -> str:
        """Return the unit of a row as SQL, and add conditions that exclude rows in which it is null or empty."""
        scalar = self.expressions.column(name, "unit")
        if scalar.type not in UNIT_TYPES:
            raise InputError(f'unit: expected a column of type text or integer, found "{name}" of type {scalar.type}')
        unit = scalar.write(self.layers).sql
        self.conditions.append(f"{unit} IS NOT NULL")
        if scalar.type == TEXT:
            self.conditions.append(f"{unit} <> {self.layers.dialect.text('')}")
        return unit

    def any_value(self, names: Iterable[str]) -> str:
        """Return the condition that a row has a value in at least one of these columns."""
        values = (self.expressions.column(name, "source.columns").write(self.layers).sql for name in names)
        return f"({' OR '.join(f'{value} IS NOT NULL' for value in values)})"

    def part(self, key: GroupKey) -> GroupPart:
        """Return a part of the key, and add conditions that exclude rows in which it is null or, if values are declared, another value."""
        if key.steps is not None:
            return GroupPart(self.value(key.steps), key.steps.maximum - key.steps.minimum + 1)
        scalar = self.expressions.scalar(key.expression, "by")
        if key.bins is not None:
            sql = self._bin(scalar, key.bins).sql
            self.conditions.append(f"{sql} IS NOT NULL")
            return GroupPart(sql, len(key.bins) - 1)
        if scalar.type not in KEY_CLASSES:
            raise InputError(f"by: expected keys of text, integers or booleans, found {key.expression!r} of type {scalar.type}")
        sql = scalar.write(self.layers).sql
        self.conditions.append(f"{sql} IS NOT NULL")
        if key.domain is None:
            return GroupPart(sql, 2 if scalar.type == "boolean" else None)
        self.conditions.append(self._is_declared(sql, scalar.type, key.domain))
        return GroupPart(sql, len(key.domain))

    def _is_declared(self, sql: str, type_: ScalarType, domain: Sequence[KeyValue]) -> str:
        """Return the condition that a part of the key has a declared value."""
        kind = KEY_CLASSES[type_]
        if not domain or len(set(domain)) < len(domain) or not all(type(value) is kind for value in domain):
            raise InputError(
                f"by: expected a domain of different values of type {type_}, found {len(domain):,} values that repeat or have another type"
            )
        numbers = [value for value in domain if type(value) is int]  # not isinstance: a boolean is no integer here
        if numbers and max(numbers) - min(numbers) == len(numbers) - 1:  # consecutive numbers need only their two ends in the SQL
            return f"{sql} BETWEEN {self._constant(min(numbers), type_)} AND {self._constant(max(numbers), type_)}"
        return f"{sql} IN ({', '.join(self._constant(value, type_) for value in domain)})"

    def _constant(self, value: KeyValue, type_: ScalarType) -> str:
        """Return a declared value as SQL. Raises InputError if it is a text that a database cannot store."""
        text = value if isinstance(value, str) else str(value).lower()  # in lower case, as SQL spells true and false
        try:
            text.encode()
        except UnicodeEncodeError:
            raise InputError("by: expected a domain of Unicode text, found a value that is not Unicode") from None
        if "\0" in text:
            raise InputError("by: expected a domain of text without NUL, found a NUL")
        return literal(text, type_).write(self.layers).sql

    def _bin(self, scalar: Scalar, edges: tuple[float, ...]) -> Term:
        """Return the index of a value's bin; null if it is outside all bins.

        The lower edges are in a list, in which a binary search finds the last one that the value reaches.
        """
        if scalar.type not in NUMBERS:
            raise InputError(f"bins: expected a column of numbers, found one of type {scalar.type}")
        rising = all(map(math.isfinite, edges)) and all(low < high for low, high in itertools.pairwise(edges))
        if not 2 <= len(edges) <= MOST_BINS + 1 or not rising:
            raise InputError(f"bins: expected 2 to {MOST_BINS + 1:,} finite edges, each above the one before")
        layers = self.layers
        value = layers.bind(as_decimal(scalar, layers))
        edge_terms = [decimal(edge).write(layers) for edge in edges]
        lower_edges = layers.dialect.list_of([edge.sql for edge in edge_terms[:-1]])
        lower = layers.bind(Term(lower_edges))  # elements past the end are null, and no value is >= null
        index = integer(0).write(layers)
        for power in reversed(range((len(edges) - 2).bit_length())):  # the bits of the largest index, the highest first
            further = layers.bind(fill_template("({0} + {1})", index, integer(2**power).write(layers)))
            # The template has the SQL of `lower` and `further` already. They are passed too, because their names must exist in the layer of
            # the result.
            reached = fill_template(f"{{0}} >= {layers.dialect.element(lower.sql, further.sql)}", value, lower, further)
            index = layers.bind(fill_template("CASE WHEN {0} THEN {1} ELSE {2} END", reached, further, index))
        first, last = edge_terms[0], edge_terms[-1]
        return layers.bind(fill_template("CASE WHEN {0} BETWEEN {1} AND {2} THEN {3} END", value, first, last, index))

    def value(self, steps: Steps) -> str:
        """Return the integer of a row: its clamped value in steps, squared if the steps say so.

        Adds a condition that excludes rows without a value, unless a number replaces a missing value.
        """
        _require_exact(steps)
        scalar = self.expressions.scalar(steps.expression, "column")
        if scalar.type not in NUMBERS:
            raise InputError(f"column: expected a number to add up, found {steps.expression!r} of type {scalar.type}")
        layers = self.layers
        number = layers.bind(self._clamped_steps(steps, scalar))
        if steps.squared_about is not None:
            distance = layers.bind(fill_template("({0} - {1})", number, integer(steps.squared_about).write(layers)))
            # The square of up to 2^54 steps may exceed 64 bits.
            wide = layers.dialect.wide(distance.sql)
            number = layers.bind(Term(f"({wide} * {wide})", distance.depth))
        if steps.missing is None:
            self.conditions.append(f"{number.sql} IS NOT NULL")
        return number.sql

    def _clamped_steps(self, steps: Steps, scalar: Scalar) -> Term:
        """Return a number in whole steps, clamped: floor(clamped / step + 0.5), or the number itself if it is an integer in steps of 1.

        The whole number is clamped too, so that rounding in the bounds or in the quotient cannot take it beyond an end. Null is handled
        first, since SQL's least and greatest ignore null and would return a bound.
        """
        layers = self.layers
        if scalar.type == "integer" and steps.step == 1.0:
            value = layers.bind(scalar.write(layers))
            step_count = value
        else:
            value = layers.bind(as_decimal(scalar, layers))
            numbers = (steps.minimum * steps.step, steps.maximum * steps.step, steps.step, 0.5)
            constants = (decimal(number).write(layers) for number in numbers)
            floor = fill_template("floor(least(greatest({0}, {1}), {2}) / {3} + {4})", value, *constants)
            step_count = Term(layers.dialect.cast(floor.sql, "integer"), floor.depth)
        ends = (integer(end).write(layers) for end in (steps.minimum, steps.maximum))
        clamped = fill_template("least(greatest({0}, {1}), {2})", step_count, *ends)
        missing = Term("NULL") if steps.missing is None else integer(steps.steps_of(steps.missing)).write(layers)
        return fill_template("CASE WHEN {0} IS NULL THEN {1} ELSE {2} END", value, missing, clamped)


def _require_exact(steps: Steps) -> None:
    """Raise InputError if the steps of a value might be rounded."""
    if not STEP_LEAST <= steps.step <= STEP_MOST:
        raise InputError(f"step: expected a number from {STEP_LEAST:g} to {STEP_MOST:g}, found {steps.step!r}")
    largest = max(abs(steps.minimum), abs(steps.maximum), abs(steps.squared_about or 0))
    if not steps.minimum <= steps.maximum or largest > MOST_STEPS:
        raise InputError(f"min, max: expected a range of at most 2^53 steps from 0, found {steps.minimum} to {steps.maximum}")
    if steps.missing is not None and not math.isfinite(steps.missing):
        raise InputError(f"missing: expected a finite number, found {steps.missing!r}")

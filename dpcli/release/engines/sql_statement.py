"""The SQL statement of an aggregation, in any dialect.

The statement computes five stages. It selects the rows that pass the conditions. It groups them by unit and key. It chooses at most
max_groups keys of each unit, and at most max_rows rows of each unit in each key. It adds up the chosen rows.

A part of the key that is steps becomes part of the key only in the last stage. Until then, a unit's rows are bounded over all values of
that part together. If a window bounds units in each block separately, "unit" means a pair of a unit and a block everywhere below. Only
units with more rows than allowed are processed row by row. All other units are processed by one GROUP BY.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from dpcli.base.errors import InputError
from dpcli.release.aggregate import MOST_ROWS, Aggregation, GroupKey, KeyValue, Steps
from dpcli.release.engines.dialects import Dialect, ScalarType
from dpcli.release.engines.source_table import ActualTable, SourceTable, Values
from dpcli.release.expressions.scalars import NUMBERS, Layers, Scalar, Term, as_decimal, decimal, fill_template, integer, literal
from dpcli.release.expressions.sql_grammar import Expressions

MOST_STEPS = 2**53  # largest number of steps from 0; a double represents all integers up to it
MOST_SUM = 10**38  # limit of the narrowest integer sum of the three engines, which has 38 digits, a little less than 128 bits
STEP_LEAST, STEP_MOST = 1e-20, 1e20  # range of the size of a step
MOST_BOUND = 2**62  # max_groups and max_rows must be below
MOST_BINS = 10_000
MOST_KEYS = 2_000_000  # largest number of declared keys, over all parts of the key
TEXT: ScalarType = "text"
UNITS = (TEXT, "integer")
PYTHON: Mapping[ScalarType, type] = {"text": str, "integer": int, "boolean": bool}


@dataclass(frozen=True, slots=True)
class GroupPart:
    """A part of the key as SQL.

    Attributes:
        sql: SQL expression.
        count: Number of values that the part can have; None if only the data determine them.
    """

    sql: str
    count: int | None


@dataclass(frozen=True, slots=True)
class RowTerms:
    """The expressions of an aggregation as SQL over the outermost names of the layers.

    Attributes:
        unit: Unit of a row; None if each row is a unit of its own.
        keys: Parts of the key.
        values: Integers that are summed.
        conditions: Conditions that are all true for a row that counts.
    """

    unit: str | None
    keys: tuple[GroupPart, ...]
    values: tuple[str, ...]
    conditions: tuple[str, ...]


def row_terms(aggregation: Aggregation, table: SourceTable, layers: Layers) -> RowTerms:
    """Return all expressions of an aggregation as SQL. Raises InputError if one of them is refused."""
    _require_bounds(aggregation)
    expressions = Expressions(table.columns)
    conditions: list[str] = []
    unit = None if aggregation.unit is None else _unit(aggregation.unit, expressions, layers, conditions)
    if aggregation.where is not None:
        conditions.append(expressions.condition(aggregation.where, "where").write(layers).sql)
    keys = tuple(_part(key, expressions, layers, conditions) for key in aggregation.keys)
    values = tuple(_value(value, expressions, layers, conditions) for value in aggregation.values)
    return RowTerms(unit, keys, values, tuple(dict.fromkeys(conditions)))


def _require_bounds(aggregation: Aggregation) -> None:
    for name in ("max_groups", "max_rows"):
        if not 1 <= getattr(aggregation, name) < MOST_BOUND:
            raise InputError(f"{name}: expected a whole number from 1 to below 2^62, found {getattr(aggregation, name)}")
    declared = math.prod(len(key.declared or (0,)) for key in aggregation.keys)
    if declared > MOST_KEYS:
        raise InputError(f"by: expected at most {MOST_KEYS:,} declared keys, found {declared:,}")


def _unit(name: str, expressions: Expressions, layers: Layers, conditions: list[str]) -> str:
    """Return the unit of a row as SQL, and add conditions that exclude rows without a unit."""
    scalar = expressions.column(name, "unit")
    if scalar.type not in UNITS:
        raise InputError(f'unit: expected a column of type text or integer, found "{name}" of type {scalar.type}')
    unit = scalar.write(layers).sql
    conditions.append(f"{unit} IS NOT NULL")
    if scalar.type == TEXT:
        conditions.append(f"{unit} <> {layers.dialect.text('')}")
    return unit


def _part(key: GroupKey, expressions: Expressions, layers: Layers, conditions: list[str]) -> GroupPart:
    """Return a part of the key, and add conditions that exclude rows without a declared value."""
    if key.steps is not None:
        return GroupPart(_value(key.steps, expressions, layers, conditions), key.steps.maximum - key.steps.minimum + 1)
    scalar = expressions.scalar(key.expression, "by")
    if key.bins is not None:
        sql = _bin(scalar, key.bins, layers).sql
        conditions.append(f"{sql} IS NOT NULL")
        return GroupPart(sql, len(key.bins) - 1)
    if scalar.type not in PYTHON:
        raise InputError(f"by: expected keys of text, integers or booleans, found {key.expression!r} of type {scalar.type}")
    sql = scalar.write(layers).sql
    conditions.append(f"{sql} IS NOT NULL")
    if key.domain is None:
        return GroupPart(sql, 2 if scalar.type == "boolean" else None)
    conditions.append(_among(sql, scalar, key.domain, layers))
    return GroupPart(sql, len(key.domain))


def _among(sql: str, scalar: Scalar, domain: Sequence[KeyValue], layers: Layers) -> str:
    """Return the condition that a part of the key has a declared value."""
    kind = PYTHON[scalar.type]
    if not domain or len(set(domain)) < len(domain) or not all(type(value) is kind for value in domain):
        raise InputError(
            f"by: expected a domain of different values of type {scalar.type}, found {len(domain):,} values that repeat or have "
            "another type"
        )
    numbers = [value for value in domain if type(value) is int]
    if numbers and max(numbers) - min(numbers) == len(numbers) - 1:
        return f"{sql} BETWEEN {_constant(min(numbers), scalar.type, layers)} AND {_constant(max(numbers), scalar.type, layers)}"
    return f"{sql} IN ({', '.join(_constant(value, scalar.type, layers) for value in domain)})"


def _constant(value: KeyValue, to: ScalarType, layers: Layers) -> str:
    text = value if isinstance(value, str) else str(value).lower()
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InputError("by: expected a domain of Unicode text, found a value that is not Unicode") from None
    if "\0" in text:
        raise InputError("by: expected a domain of text without NUL, found a NUL")
    return literal(text, to).write(layers).sql


def _bin(scalar: Scalar, edges: tuple[float, ...], layers: Layers) -> Term:
    """Return the index of a value's bin; null if it is outside all bins. A binary search avoids the linear time of one CASE per bin."""
    if scalar.type not in NUMBERS:
        raise InputError(f"bins: expected a column of numbers, found one of type {scalar.type}")
    rising = all(math.isfinite(edge) for edge in edges) and all(a < b for a, b in itertools.pairwise(edges))
    if not 2 <= len(edges) <= MOST_BINS + 1 or not rising:
        raise InputError(f"bins: expected 2 to {MOST_BINS + 1:,} finite edges, each above the one before")
    value = layers.bind(as_decimal(scalar, layers))
    at = [decimal(edge).write(layers).sql for edge in edges]
    lower = layers.bind(Term(layers.dialect.list_of(at[:-1])))  # elements past the end are null, and no value is >= null
    index = integer(0).write(layers)
    for step in (2**power for power in reversed(range((len(edges) - 2).bit_length()))):
        further = layers.bind(fill_template("({0} + {1})", index, integer(step).write(layers)))
        reached = fill_template(f"{{0}} >= {layers.dialect.element(lower.sql, further.sql)}", value, lower, further)
        index = layers.bind(fill_template("CASE WHEN {0} THEN {1} ELSE {2} END", reached, further, index))
    return layers.bind(fill_template("CASE WHEN {0} BETWEEN {1} AND {2} THEN {3} END", value, Term(at[0]), Term(at[-1]), index))


def _value(steps: Steps, expressions: Expressions, layers: Layers, conditions: list[str]) -> str:
    """Return the integer of a row: its clamped value in steps, squared if the steps say so."""
    _require_exact(steps)
    scalar = expressions.scalar(steps.expression, "column")
    if scalar.type not in NUMBERS:
        raise InputError(f"column: expected a number to add up, found {steps.expression!r} of type {scalar.type}")
    counted = layers.bind((_counted if (scalar.type, steps.step) == ("integer", 1.0) else _stepped)(steps, scalar, layers))
    if steps.squared is not None:
        distance = layers.bind(fill_template("({0} - {1})", counted, integer(steps.squared).write(layers)))
        wide = layers.dialect.wide(distance.sql)
        counted = layers.bind(Term(f"({wide} * {wide})", distance.depth))
    if steps.missing is None:
        conditions.append(f"{counted.sql} IS NOT NULL")
    return counted.sql


def _counted(steps: Steps, scalar: Scalar, layers: Layers) -> Term:
    """Return an integer column, in steps of 1."""
    value = layers.bind(scalar.write(layers))
    return _clamped(steps, value, value, layers)


def _stepped(steps: Steps, scalar: Scalar, layers: Layers) -> Term:
    """Return a column of any numbers in steps: floor(clamped / step + 0.5)."""
    value = layers.bind(as_decimal(scalar, layers))
    numbers = (steps.minimum * steps.step, steps.maximum * steps.step, steps.step, 0.5)
    floor = fill_template(
        "floor(least(greatest({0}, {1}), {2}) / {3} + {4})", value, *(decimal(each).write(layers) for each in numbers)
    )
    return _clamped(steps, value, Term(layers.dialect.cast(floor.sql, "integer"), floor.depth), layers)


def _clamped(steps: Steps, value: Term, counted: Term, layers: Layers) -> Term:
    """Return the clamped integer. Null is handled first, since SQL's least and greatest ignore null and would return a bound."""
    ends = (integer(each).write(layers) for each in (steps.minimum, steps.maximum))
    clamped = fill_template("least(greatest({0}, {1}), {2})", counted, *ends)
    return fill_template("CASE WHEN {0} IS NULL THEN {1} ELSE {2} END", value, _missing(steps, layers), clamped)


def _missing(steps: Steps, layers: Layers) -> Term:
    return Term("NULL") if steps.missing is None else integer(steps.count_of(steps.missing)).write(layers)


def _require_exact(steps: Steps) -> None:
    """Raise InputError if sums of the steps might be rounded or overflow."""
    if not STEP_LEAST <= steps.step <= STEP_MOST:
        raise InputError(f"step: expected a number from {STEP_LEAST:g} to {STEP_MOST:g}, found {steps.step!r}")
    if not steps.minimum <= steps.maximum or max(abs(steps.minimum), abs(steps.maximum), abs(steps.squared or 0)) > MOST_STEPS:
        raise InputError(f"min, max: expected a range of at most 2^53 steps from 0, found {steps.minimum} to {steps.maximum}")
    if steps.missing is not None and not math.isfinite(steps.missing):
        raise InputError(f"missing: expected a finite number, found {steps.missing!r}")
    if steps.furthest * MOST_ROWS >= MOST_SUM:
        raise InputError(
            "min, max: expected sums of at most 38 digits for 2^40 rows, found a larger range: use larger steps or a smaller range"
        )


SEPARATOR = "|"  # between the parts of the text that is hashed


@dataclass(frozen=True, slots=True)
class RowNames:
    """Column names of the rows that count.

    Attributes:
        keys: Columns of the parts of the key.
        stepped: Those of the columns `keys` that are steps.
        values: Columns of the integers that are summed.
        unit: Column of the unit, or columns of the unit and the block.
    """

    keys: tuple[str, ...]
    stepped: tuple[str, ...]
    values: tuple[str, ...]
    unit: tuple[str, ...] = ("u",)

    @property
    def bounded(self) -> tuple[str, ...]:
        """The columns of the groups within which the rows of a unit are bounded."""
        return (*self.unit, *(key for key in self.keys if key not in self.stepped))

    @property
    def unit_and_keys(self) -> tuple[str, ...]:
        return (*self.unit, *self.keys)


def statement(aggregation: Aggregation, table: SourceTable, actual: ActualTable, dialect: Dialect, secret: bytes) -> str:
    """Return SQL that yields one row for each key: the parts of the key, the numbers of units and rows, and the sums.

    Args:
        aggregation: The aggregation.
        table: The table as [source] declares it.
        actual: The table as the engine reports it.
        dialect: SQL dialect of the engine.
        secret: Key of the hash that chooses contributions.

    Raises:
        InputError: An expression is refused, or the table lacks a column.
    """
    values = Values(table, actual)
    layers = Layers(dialect, values)
    terms = row_terms(aggregation, table, layers)
    if aggregation.unit is not None:
        values.require_one_spelling(aggregation.unit)
    block = values.block(layers) if terms.unit else None
    names = RowNames(
        tuple(f"k{n}" for n in range(len(terms.keys))),
        tuple(f"k{n}" for n, key in enumerate(aggregation.keys) if key.steps is not None),
        tuple(f"v{n}" for n in range(len(terms.values))),
        ("u",) if block is None else ("u", "b"),
    )
    columns = (
        *((f"{terms.unit} AS u",) if terms.unit else ()),
        *((f"{block} AS b",) if block else ()),
        *(f"{part.sql} AS {name}" for part, name in zip(terms.keys, names.keys, strict=True)),
        *(f"{sql} AS {name}" for sql, name in zip(terms.values, names.values, strict=True)),
    )
    conditions = (*terms.conditions, *values.conditions(layers))
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    kept = f"SELECT {comma_separated(columns) or '1 AS c0'} FROM {layers.over(values.base())}{where}"
    if terms.unit is None:
        counted = ", ".join((*names.keys, "count(*)", "count(*)", *_sums(names, dialect)))
        return f"SELECT {counted} FROM ({kept}) AS kept{group_by_clause(names.keys)}"
    steps = "".join(
        f"{name} AS {hint} ({sql}), " for name, hint, sql in _bounded(aggregation, terms.keys, names, dialect, secret)
    ).removesuffix(", ")
    counted = ", ".join((*names.keys, "count(*)", "sum(n)", *(dialect.total(f"s{number}") for number in range(len(names.values)))))
    return f"WITH kept AS {dialect.again} ({kept}), {steps} SELECT {counted} FROM bounded{group_by_clause(names.keys)}"


def _bounded(
    aggregation: Aggregation, keys: Sequence[GroupPart], names: RowNames, dialect: Dialect, secret: bytes
) -> Iterator[tuple[str, str, str]]:
    """Yield (name, hint, SQL) of each subquery that leads from the rows that count to the bounded contributions of each unit.

    All subqueries start from one read of the table, since a view may have other rows each time it is read.
    """
    own, each = comma_separated(names.bounded), comma_separated(names.unit_and_keys)
    sums = "".join(f", {sql} AS s{number}" for number, sql in enumerate(_sums(names, dialect)))
    added = "".join(f", s{number}" for number in range(len(names.values)))
    most = dialect.cast(str(aggregation.max_rows), "integer")
    yield "added", dialect.once, f"SELECT {own}, count(*) AS n{sums} FROM kept GROUP BY {own}"
    chosen = "added"
    if aggregation.max_groups < _most_groups(key for key, name in zip(keys, names.keys, strict=True) if name not in names.stepped):
        order = comma_separated((f"{_lead(names.bounded, most, dialect, secret)} DESC", *names.bounded))
        ranked = (
            f"SELECT {own}, n{added}, row_number() OVER (PARTITION BY {comma_separated(names.unit)} ORDER BY {order}) AS place FROM "
            "added"
        )
        chosen = "chosen"
        yield chosen, dialect.once, f"SELECT {own}, n{added} FROM ({ranked}) AS ranked WHERE place <= {aggregation.max_groups}"
    columns = (*names.unit_and_keys, *names.values)
    if columns == names.bounded:
        yield "bounded", "", f"SELECT {own}, least(n, {most}) AS n FROM {chosen}"
        return
    same = " AND ".join(f"kept.{name} = {chosen}.{name}" for name in names.bounded)
    rows = f"SELECT {comma_separated(f'kept.{name} AS {name}' for name in columns)} FROM kept JOIN {chosen} ON {same}"
    rows += "" if names.stepped else f" WHERE n > {most}"  # units with fewer rows need not be processed row by row
    copies = f"row_number() OVER (PARTITION BY {comma_separated(columns)} ORDER BY {names.unit[0]}) AS copy"
    yield "numbered", "", f"SELECT {comma_separated(columns)}, {copies} FROM ({rows}) AS excess"
    order = comma_separated((_hashed((*columns, "copy"), dialect, secret), *columns, "copy"))
    ranked = f"SELECT {comma_separated(columns)}, row_number() OVER (PARTITION BY {own} ORDER BY {order}) AS place FROM numbered"
    yield "cut", "", f"SELECT {each}, count(*) AS n{sums} FROM ({ranked}) AS ranked WHERE place <= {most} GROUP BY {each}"
    few = "" if names.stepped else f"SELECT {each}, n{added} FROM {chosen} WHERE n <= {most} UNION ALL "
    yield "bounded", "", f"{few}SELECT {each}, n{added} FROM cut"


def _most_groups(keys: Iterable[GroupPart]) -> float:
    """Return the largest number of keys that one unit can have; infinity if it is unknown."""
    return math.prod(math.inf if part.count is None else part.count for part in keys)


def _lead(columns: Sequence[str], most: str, dialect: Dialect, secret: bytes) -> str:
    """Return the number by which the keys of a unit are ordered at random, the highest first.

    The keys are ordered as if they were drawn one after another with probabilities proportional to w = n / least(n, most). The number is
    log(U) / w with U uniform. It is minus an exponential time with rate w, so it is the highest with a probability proportional to w.
    """
    uniform = f"({dialect.cast(_hashed(columns, dialect, secret), 'decimal')} + {dialect.cast('0.5', 'decimal')})"
    share = f"({dialect.cast(f'least(n, {most})', 'decimal')} / {dialect.cast('n', 'decimal')})"
    return f"ln({uniform} / {dialect.cast(str(2**48), 'decimal')}) * {share}"


def _hashed(columns: Sequence[str], dialect: Dialect, secret: bytes) -> str:
    """Return the hash of a row's columns as text, each preceded by its length, so that different rows have independent hashes."""
    texts = [dialect.cast(column, "text") for column in columns]
    parts = (dialect.text(secret.hex()), *(part for text in texts for part in (dialect.cast(f"length({text})", "text"), text)))
    return dialect.digest(f" || {dialect.text(SEPARATOR)} || ".join(parts))


def _sums(names: RowNames, dialect: Dialect) -> tuple[str, ...]:
    return tuple(dialect.total(name) for name in names.values)


def comma_separated(columns: Iterator[str] | Sequence[str]) -> str:
    return ", ".join(columns)


def group_by_clause(columns: Sequence[str]) -> str:
    return f" GROUP BY {comma_separated(columns)}" if columns else ""

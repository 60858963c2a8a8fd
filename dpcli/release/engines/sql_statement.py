"""The SQL statement of an aggregation, in any dialect.

An *aggregation* (aggregate.py) asks for counts and sums for each *key* by which rows are grouped, after each *unit* (whom the release
protects, with all of its rows) was limited to max_groups keys and max_rows rows in each. The engines (sql_engine.py) run the statement. It
has five stages. It selects the rows that pass the conditions (`kept`). It groups them by unit and key (`added`). It chooses at most
max_groups keys of each unit (`chosen`). It bounds what each unit adds to each key to what max_rows rows can add (`bounded`). It adds up the
contributions. All choices follow from a hash of the unit and the key with a secret, so they depend on no other unit.

A key may have several parts. Two kinds of parts are *inner*: a number that is rounded to whole steps (`Steps`), and the part whose
different values are counted (`Aggregation.distinct`). A *group* of rows has the same unit and the same other parts. If there are inner
parts, the rows of a group are bounded together, row by row, whatever their inner parts are. Without inner parts, the number and the sums of
the rows of a group suffice.

A ledger may divide a dataset into *blocks*, such as weeks. If units are bounded in each block separately, "unit" means a pair of a unit and
a block everywhere below.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from dpcli.release.aggregate import Aggregation, Steps
from dpcli.release.engines.dialects import DIGEST_BITS, Dialect
from dpcli.release.engines.row_terms import GroupPart, RowTerms, row_terms
from dpcli.release.engines.source_table import Values
from dpcli.release.expressions.scalars import Layers

SEPARATOR = "|"  # between the parts of the text that is hashed; each part is preceded by its length, so any character would do


def statement(aggregation: Aggregation, values: Values, dialect: Dialect, secret: bytes) -> str:
    """Return SQL that yields one row for each key: the parts of the key, the numbers of units and rows, and the sums.

    For a sum by one column, it is of this form, where m is max_rows:

        WITH kept AS (SELECT unit AS u, key AS k0, value AS v0 FROM table WHERE conditions),
            added AS (SELECT u, k0, count(*) AS n, sum(v0) AS s0 FROM kept GROUP BY u, k0),
            chosen AS (SELECT u, k0, n, s0 FROM added, ranked at random in each u, WHERE place <= max_groups),
            bounded AS (SELECT u, k0, least(n, m) AS n, s0 scaled down if n > m AS s0 FROM chosen)
        SELECT k0, count(*), sum(n), sum(s0) FROM bounded GROUP BY k0

    values: the columns of the table; `selected` then has those that the statement reads.
    secret: key of the hash that chooses contributions.

    Raises InputError if an expression is refused, or the table lacks a column.
    """
    layers = Layers(dialect, values)
    terms = row_terms(aggregation, values.table, layers)
    if aggregation.unit is not None:
        values.require_one_spelling(aggregation.unit)
    block = values.block(layers) if terms.unit else None
    conditions = (*terms.conditions, *values.conditions(layers))
    names = _row_names(aggregation, terms, block)
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    columns = _named_columns(terms, block, names) or "1 AS c0"
    select = "SELECT" if aggregation.distinct is None else "SELECT DISTINCT"  # equal units, keys and values: one row
    kept = f"{select} {columns} FROM {layers.over(values.base())}{where}"
    keys = names.keys[: len(aggregation.keys)]  # without the part whose different values are counted
    # One number counts both units and rows: each row is a unit, or the rows are the different values.
    counts_by_key = comma_separated((*keys, "count(*)", "count(*)"))
    if terms.unit is None:  # a unit has one row, so there is nothing to bound but its sum
        sums = (dialect.total(_clipped(value, aggregation, dialect)) for value in names.values)
        return f"SELECT {comma_separated((counts_by_key, *sums))} FROM ({kept}) AS kept{group_by_clause(keys)}"
    subqueries = (Subquery("kept", kept), *_bounding_subqueries(aggregation, terms.keys, names, dialect, secret))
    definitions = comma_separated(f"{subquery.name} AS {dialect.with_hint} ({subquery.sql})" for subquery in subqueries)
    if aggregation.distinct is not None:
        values_of_key = f"SELECT DISTINCT {comma_separated(names.keys)} FROM bounded"  # several units may have one value
        return f"WITH {definitions} SELECT {counts_by_key} FROM ({values_of_key}) AS different{group_by_clause(keys)}"
    # `bounded` has a row for each unit and key, with the number n of the unit's rows that count.
    totals = comma_separated((*names.keys, "count(*)", "sum(n)", *map(dialect.total, names.sums)))
    return f"WITH {definitions} SELECT {totals} FROM bounded{group_by_clause(names.keys)}"


@dataclass(frozen=True, slots=True)
class RowNames:
    """Column names of the rows that count.

    keys: columns of the parts of the key.
    inner: the columns of the inner parts among `keys`.
    values: columns of the integers that are summed.
    unit: column of the unit, or columns of the unit and the block.
    """

    keys: tuple[str, ...]
    inner: tuple[str, ...]
    values: tuple[str, ...]
    unit: tuple[str, ...]

    @property
    def group(self) -> tuple[str, ...]:
        """The columns of the groups within which the rows of a unit are bounded."""
        return (*self.unit, *(key for key in self.keys if key not in self.inner))

    @property
    def unit_and_keys(self) -> tuple[str, ...]:
        """The columns that identify the bounded contribution of a unit to a key of the answer."""
        return (*self.unit, *self.keys)

    @property
    def sums(self) -> tuple[str, ...]:
        """Columns of the sums of `values`, after rows have been added up."""
        return tuple(f"s{number}" for number in range(len(self.values)))


def _row_names(aggregation: Aggregation, terms: RowTerms, block: str | None) -> RowNames:
    """Return names that are made up here, so that no name of the data is special in SQL."""
    keys = tuple(f"k{number}" for number in range(len(terms.keys)))
    parts = zip(keys, aggregation.parts, strict=True)
    inner = tuple(name for name, part in parts if part.steps is not None or part is aggregation.distinct)
    values = tuple(f"v{number}" for number in range(len(terms.values)))
    return RowNames(keys, inner, values, ("u",) if block is None else ("u", "b"))


def _named_columns(terms: RowTerms, block: str | None, names: RowNames) -> str:
    """Return the expressions of a row with their names, as the columns of a SELECT; "" if there are none."""
    columns = [*zip((part.sql for part in terms.keys), names.keys, strict=True), *zip(terms.values, names.values, strict=True)]
    if terms.unit is not None:
        of_unit = (terms.unit,) if block is None else (terms.unit, block)
        columns = [*zip(of_unit, names.unit, strict=True), *columns]
    return comma_separated(f"{sql} AS {name}" for sql, name in columns)


@dataclass(frozen=True, slots=True)
class Subquery:
    """A subquery of the statement's WITH clause."""

    name: str
    sql: str


def _bounding_subqueries(
    aggregation: Aggregation, keys: Sequence[GroupPart], names: RowNames, dialect: Dialect, secret: bytes
) -> Iterator[Subquery]:
    """Yield the subqueries that lead from the rows that count, `kept`, to the bounded contributions of each unit, `bounded`."""
    group = comma_separated(names.group)
    sums = "".join(f", {name}" for name in names.sums)
    new_sums = "".join(f", {dialect.total(value)} AS {name}" for value, name in zip(names.values, names.sums, strict=True))
    max_rows = dialect.cast(str(aggregation.max_rows), "integer")

    yield Subquery("added", f"SELECT {group}, count(*) AS n{new_sums} FROM kept GROUP BY {group}")
    groups = "added"
    bounded_parts = (part for part, name in zip(keys, names.keys, strict=True) if name not in names.inner)
    if aggregation.max_groups < _most_groups(bounded_parts):  # otherwise no unit can have too many keys
        groups = "chosen"
        keys_of_unit = names.group[len(names.unit) :]
        order = comma_separated((f"{_random_rank(names.group, max_rows, dialect, secret)} DESC", *keys_of_unit))
        place = f"row_number() OVER (PARTITION BY {comma_separated(names.unit)} ORDER BY {order}) AS place"
        ranked = f"SELECT {group}, n{sums}, {place} FROM added"
        limited = f"SELECT {group}, n{sums} FROM ({ranked}) AS ranked WHERE place <= {aggregation.max_groups}"
        yield Subquery(groups, limited)

    hash_number = _hash_of(names.group, dialect, secret)
    if names.inner:
        yield from _bounded_row_by_row(groups, names, hash_number, max_rows, dialect)
        return
    values = zip(names.sums, aggregation.values, strict=True)
    bounded_sums = (f"{_bounded_sum(name, steps, aggregation, dialect, hash_number)} AS {name}" for name, steps in values)
    columns = comma_separated((group, f"least(n, {max_rows}) AS n", *bounded_sums))
    yield Subquery("bounded", f"SELECT {columns} FROM {groups}")


def _bounded_row_by_row(groups: str, names: RowNames, hash_number: str, max_rows: str, dialect: Dialect) -> Iterator[Subquery]:
    """Yield the subqueries that keep at most m = max_rows rows of each unit in each group, whose inner parts distinguish the rows.

    The rows are in the order of the inner parts, at the places p = 1 to n. The row at p counts if (p m + h) mod n < m, where h is a hash of
    the unit and the group.

    Proof: If n <= m, all rows count. Otherwise, p m + h takes every value mod n once as h goes from 0 to n - 1. So m of the n remainders
    keep a row: each row has the same chance, m / n. Let g be the greatest common divisor of m and n. For each h, p m + h takes each of the
    n / g values mod n that equal h mod g at g places, and m / g of these values are below m. So m rows count, whichever they are. The
    order, n and h follow from the unit's own rows and the secret. n is counted in the same read as the rows.

    groups: name of the subquery with the groups that count.
    """
    group, unit_and_keys = comma_separated(names.group), comma_separated(names.unit_and_keys)
    hashed = f"SELECT {group}, {hash_number} AS hash_number FROM {groups}"
    row = comma_separated(f"kept.{name} AS {name}" for name in names.unit_and_keys)
    same_group = " AND ".join(f"kept.{name} = hashed.{name}" for name in names.group)
    rows = f"SELECT {row}, hash_number FROM kept JOIN ({hashed}) AS hashed ON {same_group}"
    ordered = f"PARTITION BY {group} ORDER BY {comma_separated(names.inner)}"
    place = f"row_number() OVER ({ordered}) AS place"
    size = f"count(*) OVER ({ordered} ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS size"
    yield Subquery("numbered", f"SELECT *, {place}, {size} FROM ({rows}) AS excess")
    wide_rows = dialect.wide(max_rows)
    is_kept = f"({dialect.wide('place')} * {wide_rows} + hash_number % size) % size < {wide_rows}"
    yield Subquery("bounded", f"SELECT {unit_and_keys}, count(*) AS n FROM numbered WHERE {is_kept} GROUP BY {unit_and_keys}")


def _most_groups(keys: Iterable[GroupPart]) -> float:
    """Return the largest number of keys that one unit can have; infinity if it is unknown."""
    return math.prod(math.inf if part.count is None else part.count for part in keys)


def _random_rank(columns: Sequence[str], most: str, dialect: Dialect, secret: bytes) -> str:
    """Return the number by which the keys of a unit are ordered at random, the highest first. `most` is SQL of max_rows.

    The keys are ordered as if they were drawn one after another with probabilities proportional to w = n / least(n, most). The number is
    log(U) / w with U uniform. It is minus an exponential time with rate w, so it is the highest with a probability proportional to w.
    """
    hash_number = f"({dialect.cast(_hash_of(columns, dialect, secret), 'decimal')} + {dialect.cast('0.5', 'decimal')})"
    uniform = f"{hash_number} / {dialect.cast(str(2**DIGEST_BITS), 'decimal')}"
    inverse_weight = f"({dialect.cast(f'least(n, {most})', 'decimal')} / {dialect.cast('n', 'decimal')})"
    return f"ln({uniform}) * {inverse_weight}"


def _hash_of(columns: Sequence[str], dialect: Dialect, secret: bytes) -> str:
    """Return the hash of a row's columns as text, each preceded by its length, so that different rows have independent hashes."""
    parts = [dialect.text(secret.hex())]
    for column in columns:
        text = dialect.cast(column, "text")
        parts += [dialect.cast(f"length({text})", "text"), text]
    return dialect.digest(f" || {dialect.text(SEPARATOR)} || ".join(parts))


def _bounded_sum(name: str, steps: Steps, aggregation: Aggregation, dialect: Dialect, hash_number: str) -> str:
    """Return the bounded sum of a unit in a group: clipped if the aggregation has a range, and otherwise bounded to m = max_rows rows.

    If the unit has n > m rows in the group, then m s / n counts of the sum s of their integers, which is m times their mean. A hash h of
    the unit and the group, mod n, rounds it to a whole number: floor((m s + h) / n).

    Proof: Let every integer be from a to b. Then n a <= s <= n b, so m s / n is from m a to m b. These ends are whole numbers, so both
    ways of rounding stay between them. Each sum of a unit is thus within the range of the sums of m rows. If h is uniform from 0 to n - 1,
    the expectation is m s / n exactly, as for the sum of m of the n rows that are drawn at random (Hermite's identity: floor((x + h) / n),
    summed over h, is x for a whole x). Several sums of one unit are each in their range, but need not be the sums of any m rows together,
    so each of them must be priced by itself.
    """
    if aggregation.clip is not None:
        return _clipped(name, aggregation, dialect)
    count, rows, furthest = (dialect.wide(number) for number in ("n", str(aggregation.max_rows), str(steps.furthest)))
    not_negative = f"({name} + {count} * {furthest})"  # because engines round quotients of negative numbers in different directions
    part = f"{dialect.quotient(f'({rows} * {not_negative} + {hash_number} % n)', count)} - {rows} * {furthest}"
    return f"CASE WHEN n > {aggregation.max_rows} THEN {part} ELSE {name} END"


def _clipped(number: str, aggregation: Aggregation, dialect: Dialect) -> str:
    """Return the sum of a unit, clipped to the range of the aggregation if it has one."""
    if aggregation.clip is None:
        return number
    least, most = (dialect.wide(str(end)) for end in aggregation.clip)
    return f"least(greatest({number}, {least}), {most})"


def comma_separated(columns: Iterable[str]) -> str:
    return ", ".join(columns)


def group_by_clause(columns: Sequence[str]) -> str:
    return f" GROUP BY {comma_separated(columns)}" if columns else ""

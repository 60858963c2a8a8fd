"""The SQL statement of an aggregation, in any dialect.

The statement computes five stages. It selects the rows that pass the conditions. It groups them by unit and key. It chooses at most
max_groups keys of each unit, and at most max_rows rows of each unit in each key. It adds up the chosen rows.

A part of the key that is steps, or whose values are counted, becomes part of the key only in the last stage. Until then, a unit's rows are
bounded over all values of that part together. If a window bounds units in each block separately, "unit" means a pair of a unit and a block
everywhere below. Only units with more rows than allowed are processed row by row. All other units are processed by one GROUP BY.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from dpcli.release.aggregate import Aggregation
from dpcli.release.engines.dialects import DIGEST_BITS, Dialect
from dpcli.release.engines.row_terms import GroupPart, RowTerms, row_terms
from dpcli.release.engines.source_table import Values
from dpcli.release.expressions.scalars import Layers

SEPARATOR = "|"  # between the parts of the text that is hashed


def statement(aggregation: Aggregation, values: Values, dialect: Dialect, secret: bytes) -> str:
    """Return SQL that yields one row for each key: the parts of the key, the numbers of units and rows, and the sums.

    Args:
        values: The columns of the table; `read` then has those that the statement reads.
        secret: Key of the hash that chooses contributions.

    Raises:
        InputError: An expression is refused, or the table lacks a column.
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
    select = "SELECT" if aggregation.distinct is None else "SELECT DISTINCT"
    kept = f"{select} {columns} FROM {layers.over(values.base())}{where}"
    keys = names.keys[: len(aggregation.keys)]
    different = comma_separated((*keys, "count(*)", "count(*)"))  # of rows that all differ in the part whose values are counted
    if terms.unit is None:
        sums = (dialect.total(_clipped(value, aggregation, dialect)) for value in names.values)
        return f"SELECT {comma_separated((different, *sums))} FROM ({kept}) AS kept{group_by_clause(keys)}"
    totals = comma_separated((*names.keys, "count(*)", "sum(n)", *map(dialect.total, names.sums)))
    subqueries = (Subquery("kept", dialect.again, kept), *_bounded(aggregation, terms.keys, names, dialect, secret))
    definitions = comma_separated(f"{subquery.name} AS {subquery.hint} ({subquery.sql})" for subquery in subqueries)
    if aggregation.distinct is not None:
        values_of_key = f"SELECT DISTINCT {comma_separated(names.keys)} FROM bounded"
        return f"WITH {definitions} SELECT {different} FROM ({values_of_key}) AS different{group_by_clause(keys)}"
    return f"WITH {definitions} SELECT {totals} FROM bounded{group_by_clause(names.keys)}"


@dataclass(frozen=True, slots=True)
class RowNames:
    """Column names of the rows that count.

    Attributes:
        keys: Columns of the parts of the key.
        inner: The columns among `keys` over whose values a unit's rows are bounded together.
        values: Columns of the integers that are summed.
        unit: Column of the unit, or columns of the unit and the block.
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
    """A subquery of the statement's WITH clause. Its hint says whether the engine should compute it once, or at each use."""

    name: str
    hint: str
    sql: str


def _bounded(
    aggregation: Aggregation, keys: Sequence[GroupPart], names: RowNames, dialect: Dialect, secret: bytes
) -> Iterator[Subquery]:
    """Yield the subqueries that lead from the rows that count, `kept`, to the bounded contributions of each unit, `bounded`.

    All of them start from one read of the table, since a view may have other rows each time it is read.

    Which rows count of the n rows of a unit in a group, where at most m = max_rows may: The rows are in the order of their values, at the
    places p = 1 to n. Let s be the remainder of a hash of the unit and the group, mod n. The row at p counts if (p m + s) mod n < m.

    Proof: If n <= m, all rows count. Otherwise, p m + s takes every value mod n once as s goes from 0 to n - 1. So m of the n remainders
    keep a row: each row has the same chance, m / n. Let g be the greatest common divisor of m and n. For each s, p m + s takes each of the
    n / g values mod n that equal s mod g at g places, and m / g of these values are below m. So m rows count, whichever they are. The
    order, n and s follow from the unit's own rows and the secret. n is counted in the same read as the rows.
    """
    group, unit_and_keys = comma_separated(names.group), comma_separated(names.unit_and_keys)
    new_sums = "".join(f", {sql} AS {name}" for sql, name in zip(_sums(names, dialect), names.sums, strict=True))
    sums = "".join(f", {name}" for name in names.sums)
    max_rows = dialect.cast(str(aggregation.max_rows), "integer")

    yield Subquery("added", dialect.once, f"SELECT {group}, count(*) AS n{new_sums} FROM kept GROUP BY {group}")
    chosen = "added"
    bounded_parts = (part for part, name in zip(keys, names.keys, strict=True) if name not in names.inner)
    if aggregation.max_groups < _most_groups(bounded_parts):
        chosen = "chosen"
        keys_of_unit = names.group[len(names.unit) :]
        order = comma_separated((f"{_lead(names.group, max_rows, dialect, secret)} DESC", *keys_of_unit))
        place = f"row_number() OVER (PARTITION BY {comma_separated(names.unit)} ORDER BY {order}) AS place"
        ranked = f"SELECT {group}, n{sums}, {place} FROM added"
        limited = f"SELECT {group}, n{sums} FROM ({ranked}) AS ranked WHERE place <= {aggregation.max_groups}"
        yield Subquery(chosen, dialect.once, limited)

    # If all rows of a unit in a group count, or are alike, then their sums or their number suffice.
    if aggregation.clip is not None or not (names.values or names.inner):
        clipped = "".join(f", {_clipped(name, aggregation, dialect)} AS {name}" for name in names.sums)
        yield Subquery("bounded", "", f"SELECT {group}, least(n, {max_rows}) AS n{clipped} FROM {chosen}")
        return

    exceeding = f"SELECT {group}, {_hashed(names.group, dialect, secret)} AS hash_number FROM {chosen}"
    if not names.inner:
        exceeding += f" WHERE n > {max_rows}"  # units with fewer rows need not be processed row by row
    row = comma_separated(f"kept.{name} AS {name}" for name in (*names.unit_and_keys, *names.values))
    same_group = " AND ".join(f"kept.{name} = exceeding.{name}" for name in names.group)
    rows = f"SELECT {row}, hash_number FROM kept JOIN ({exceeding}) AS exceeding ON {same_group}"
    ordered = f"PARTITION BY {group} ORDER BY {comma_separated((*names.inner, *names.values))}"
    place = f"row_number() OVER ({ordered}) AS place"
    size = f"count(*) OVER ({ordered} ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS size"
    yield Subquery("numbered", "", f"SELECT *, {place}, {size} FROM ({rows}) AS excess")
    wide_rows = dialect.wide(max_rows)
    is_kept = f"({dialect.wide('place')} * {wide_rows} + hash_number % size) % size < {wide_rows}"
    cut = f"SELECT {unit_and_keys}, count(*) AS n{new_sums} FROM numbered WHERE {is_kept} GROUP BY {unit_and_keys}"
    yield Subquery("cut", "", cut)

    bounded = f"SELECT {unit_and_keys}, n{sums} FROM cut"
    if not names.inner:
        bounded = f"SELECT {unit_and_keys}, n{sums} FROM {chosen} WHERE n <= {max_rows} UNION ALL {bounded}"
    yield Subquery("bounded", "", bounded)


def _most_groups(keys: Iterable[GroupPart]) -> float:
    """Return the largest number of keys that one unit can have; infinity if it is unknown."""
    return math.prod(math.inf if part.count is None else part.count for part in keys)


def _lead(columns: Sequence[str], most: str, dialect: Dialect, secret: bytes) -> str:
    """Return the number by which the keys of a unit are ordered at random, the highest first. `most` is SQL of max_rows.

    The keys are ordered as if they were drawn one after another with probabilities proportional to w = n / least(n, most). The number is
    log(U) / w with U uniform. It is minus an exponential time with rate w, so it is the highest with a probability proportional to w.
    """
    hash_number = f"({dialect.cast(_hashed(columns, dialect, secret), 'decimal')} + {dialect.cast('0.5', 'decimal')})"
    uniform = f"{hash_number} / {dialect.cast(str(2**DIGEST_BITS), 'decimal')}"
    inverse_weight = f"({dialect.cast(f'least(n, {most})', 'decimal')} / {dialect.cast('n', 'decimal')})"
    return f"ln({uniform}) * {inverse_weight}"


def _hashed(columns: Sequence[str], dialect: Dialect, secret: bytes) -> str:
    """Return the hash of a row's columns as text, each preceded by its length, so that different rows have independent hashes."""
    parts = [dialect.text(secret.hex())]
    for column in columns:
        text = dialect.cast(column, "text")
        parts += [dialect.cast(f"length({text})", "text"), text]
    return dialect.digest(f" || {dialect.text(SEPARATOR)} || ".join(parts))


def _clipped(number: str, aggregation: Aggregation, dialect: Dialect) -> str:
    """Return the sum of a unit, clipped to the range of the aggregation if it has one."""
    if aggregation.clip is None:
        return number
    least, most = (dialect.wide(str(end)) for end in aggregation.clip)
    return f"least(greatest({number}, {least}), {most})"


def _sums(names: RowNames, dialect: Dialect) -> tuple[str, ...]:
    return tuple(dialect.total(name) for name in names.values)


def comma_separated(columns: Iterable[str]) -> str:
    return ", ".join(columns)


def group_by_clause(columns: Sequence[str]) -> str:
    return f" GROUP BY {comma_separated(columns)}" if columns else ""

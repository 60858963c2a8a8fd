"""Aggregations: the exact sums of integers by key that a query needs, before any noise is added.

An `Aggregation` is the question that a measure (measures/), such as a count or a sum, asks of an engine (engines/), such as DuckDB. The
engine answers it by one SQL statement. The question also states the bounds on a *unit* (whom the release protects, with all of its rows).
The sensitivity follows from them: if an engine let a unit add more, the noise would be too small. The answer has a `Total` for each *key*
by which rows are grouped. It is exact and private: only a measure may use it, and only to add noise or to choose with noise.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dpcli.base.errors import InputError, InternalError

KeyValue = str | int | bool
# Largest number of rows of a key, about 10^12: an arbitrary limit on which exact sums rest. row_terms.py refuses integers whose sum over
# this number of rows would overflow, and `totals_of` refuses more rows.
MOST_ROWS = 2**40


@dataclass(frozen=True, slots=True)
class Steps:
    """An integer for each row: the row's value in steps.

    A *step* is the declared unit of rounding of a column. The value is clamped and then rounded to whole steps: floor(value / step + 0.5).

    expression: SQL scalar whose value is a number.
    minimum, maximum: bounds in steps. The value is clamped to the range from minimum x step to maximum x step.
    step: size of a step in units of the value; positive.
    missing: value that replaces null, NaN and infinity. If None, a row without a value is not counted.
    squared_about: if not None, a centre in steps. The integer of a row is then (steps - squared_about)^2.
    """

    expression: str
    minimum: int
    maximum: int
    step: float
    missing: float | None = None
    squared_about: int | None = None

    @property
    def furthest(self) -> int:
        """The largest absolute value that a row's integer can have."""
        centre = 0 if self.squared_about is None else self.squared_about
        distance = max(abs(self.minimum - centre), abs(self.maximum - centre))
        return distance if self.squared_about is None else distance**2

    def steps_of(self, value: float) -> int:
        """Return the number of steps of a value, as the engines compute it: clamped, rounded, and not squared."""
        clamped = min(max(value, self.minimum * self.step), self.maximum * self.step)
        return min(max(math.floor(clamped / self.step + 0.5), self.minimum), self.maximum)


@dataclass(frozen=True, slots=True)
class GroupKey:
    """A part of the key by which rows are grouped, such as a column of `by`. A row whose part is null is not counted.

    expression: SQL scalar whose value is a text, integer or boolean, or a number if there are bins.
    domain: declared values. Rows with other values are excluded before contributions are bounded. If None, every value counts.
    bins: edges in increasing order. The part is then the index of the bin, from 0. A bin contains its lower edge, and the last bin contains
        its upper edge too. Rows outside all bins are not counted.
    steps: if not None, the part is the integer of these steps, such as the value of which a quantile is asked, and `expression` is not
        used. The rows of a unit are then bounded over all values of the part together, and the answer contains only keys that some row has.
    """

    expression: str
    domain: tuple[KeyValue, ...] | None = None
    bins: tuple[float, ...] | None = None
    steps: Steps | None = None

    @property
    def declared(self) -> tuple[KeyValue, ...] | None:
        """Every value that the part can have, in order; None if the values are known from the data only."""
        return self.domain if self.bins is None else tuple(range(len(self.bins) - 1))


@dataclass(frozen=True, slots=True)
class Aggregation:
    """A question to an engine: the number of units, the number of rows and the sums of integers, for each key.

    For example, the amounts spent by state, from 0 to 500 in steps of 0.01, of visitors who count with 2 rows in 1 state each:

        Aggregation("visitor", None, (GroupKey('"state"', ("CA", "NY")),), (Steps('"spent"', 0, 50_000, 0.01),), max_groups=1, max_rows=2)

    A unit counts in at most max_groups keys, with at most max_rows rows in each. The bounds apply after every filter (where, missing
    values, domains) and before the rows are summed. The choice of a unit's keys and rows depends only on the unit's own rows and on a
    secret. So removing a unit changes at most max_groups keys. In each of them the count of units changes by one, the count of rows by at
    most max_rows, and each sum by at most max_rows times the largest integer.

    If a part of the key is `steps`, keys that differ only in this part count as one key: the bounds hold for the totals over all values of
    the part. Rows are counted then, and nothing is summed.

    With `clip`, all rows of a unit in a key are added up exactly, and the unit's sum is clipped to the range. So removing a unit changes
    each sum by at most the largest absolute value in the range. max_rows then bounds only the count of rows.

    With `distinct`, rows of a unit that agree in key and value are one row, of which at most max_rows count in each key. The totals are the
    numbers of different values among the rows that count, over all units. So removing a unit changes each of them by at most max_rows.

    The contributions that count are drawn at random. Within a key, all rows of a unit are equally likely to count. The keys of a unit are
    drawn one after the other, each with a probability proportional to n / min(n, max_rows), where n is the unit's number of rows in the
    key. So if max_groups is 1, all rows of a unit in the whole table are equally likely to count. No rows are drawn for sums: of the sum of
    a unit with n > max_rows rows, the part max_rows / n counts, rounded up or down at random to a whole number with this expectation. It is
    between max_rows times the smallest and max_rows times the largest integer.

    unit: column that names the unit of a row. Rows in which it is null or empty are excluded. If None, each row is a unit of its own.
    where: SQL condition. Rows for which it is not true are excluded.
    keys: parts of the key; if empty, there is one group with the key ().
    values: integers of each row that are summed.
    max_groups: largest number of keys in which a unit counts.
    max_rows: largest number of rows of a unit that count in one key.
    clip: smallest and largest sum of a unit in one key; None if its rows are bounded. No part of the key may then be steps.
    distinct: part whose different values are counted, as units and as rows; None to count units and rows. Nothing is summed then.
    filled_columns: if not empty, rows without a value in any of these columns are excluded.
    """

    unit: str | None
    where: str | None
    keys: tuple[GroupKey, ...]
    values: tuple[Steps, ...]
    max_groups: int
    max_rows: int
    clip: tuple[int, int] | None = None
    distinct: GroupKey | None = None
    filled_columns: tuple[str, ...] = ()

    @property
    def parts(self) -> tuple[GroupKey, ...]:
        """The parts of the key, and then the part whose different values are counted (`distinct`), if there is one."""
        return self.keys if self.distinct is None else (*self.keys, self.distinct)


@dataclass(frozen=True, slots=True)
class Total:
    """The exact, private numbers of one key: units, rows and sums. They must never be printed, logged or stored."""

    units: int
    rows: int
    sums: tuple[int, ...]

    def __repr__(self) -> str:  # a traceback or a debugger must not show the numbers
        return "Total(...)"


Totals = Mapping[tuple[KeyValue, ...], Total]


def totals_of(rows: Iterable[Sequence[Any]], aggregation: Aggregation) -> Totals:
    """Return the totals of every key. A declared key without rows has zeros.

    rows: rows of the engine's answer: the parts of the key, the numbers of units and rows, and the sums.

    Raises:
        InputError: A key has more than MOST_ROWS rows, so that its sums may have overflowed.
        InternalError: The engine returned an undeclared key, or no sum for a key with rows.
    """
    key_length = len(aggregation.keys)
    domains = [key.declared for key in aggregation.keys]
    all_declared = None not in domains
    totals: dict[tuple[KeyValue, ...], Total] = {}
    if all_declared:
        nothing = Total(0, 0, (0,) * len(aggregation.values))
        totals = dict.fromkeys(itertools.product(*(domain or () for domain in domains)), nothing)
    for row in rows:
        key, numbers = tuple(row[:key_length]), row[key_length:]
        units, row_count, *sums = (int(number or 0) for number in numbers)  # SQL's sum over no rows is null
        if row_count and None in numbers:
            raise InternalError("an engine returned no sum for a key that has rows")
        if row_count > MOST_ROWS:
            raise InputError("source: expected at most 2^40 rows")
        if all_declared and key not in totals:
            raise InternalError("an engine returned a key that is not declared")
        totals[key] = Total(units, row_count, tuple(sums))
    return totals


def quoted(name: str) -> str:
    """Return the name of a table or column, quoted for SQL. The name may contain any character."""
    return '"' + name.replace('"', '""') + '"'

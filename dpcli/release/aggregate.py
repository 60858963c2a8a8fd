"""Aggregations: sums of integers by key, which an engine computes exactly for a measure, before any noise."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dpcli.base.errors import InputError, InternalError

KeyValue = str | int | bool
MOST_ROWS = 2**40  # of a table: more than 10^12


@dataclass(frozen=True, slots=True)
class Steps:
    """An integer of each row: floor(value / step + 0.5) of a value that was clamped first.

    Attributes:
        expression: SQL scalar, a number.
        minimum, maximum: In steps: the value is clamped to minimum x step and maximum x step.
        step: Positive; of the value.
        missing: What null, NaN and infinity count as; None: a row without a value is out of the query.
        squared: None, or the centre in steps: then the integer is (steps - squared)^2.
    """

    expression: str
    minimum: int
    maximum: int
    step: float
    missing: float | None = None
    squared: int | None = None

    @property
    def furthest(self) -> int:
        """The largest absolute value of a row's integer."""
        if self.squared is None:
            return max(abs(self.minimum), abs(self.maximum))
        return max(abs(self.minimum - self.squared), abs(self.maximum - self.squared)) ** 2

    def count_of(self, value: float) -> int:
        """Return the integer of a clamped value before it is squared, as the engines compute it."""
        import math

        clamped = min(max(value, self.minimum * self.step), self.maximum * self.step)
        return min(max(math.floor(clamped / self.step + 0.5), self.minimum), self.maximum)


@dataclass(frozen=True, slots=True)
class GroupKey:
    """A part of the key by which rows are grouped. A row whose part is null is out of the query.

    Attributes:
        expression: SQL scalar: text, integer or boolean; a number if there are bins.
        domain: Every value that counts: rows with another are out, before contributions are bounded. None: every value that there is.
        bins: Rising edges: the part is then the number of the bin, from 0. A bin has its lower edge, the last one both; what is outside of
            all bins is out of the query.
        steps: The part is the integer of these steps (their expression, not this one's): rows are counted by their value, and a unit's are
            bounded in all of these values together. Keys that no row has are not in the answer.
    """

    expression: str
    domain: tuple[KeyValue, ...] | None = None
    bins: tuple[float, ...] | None = None
    steps: Steps | None = None

    @property
    def declared(self) -> tuple[KeyValue, ...] | None:
        """Every value that the part can have, in order; None if only the data tell."""
        return tuple(range(len(self.bins) - 1)) if self.bins is not None else self.domain


@dataclass(frozen=True, slots=True)
class Aggregation:
    """A question to an engine: by key, how many units and rows there are, and the sums of integers of their rows.

    One unit counts in at most max_groups keys, and with at most max_rows rows in each; keys of steps are told apart only afterwards. Which
    ones depends on its own rows and the secret alone. This is done after every filter (where, missing values, domains), and before anything
    is added up, so that without the unit at most max_groups keys change: each by one unit, at most max_rows rows, and max_rows times the
    furthest integer of a sum. Where there are keys of steps, that is true of all of them together.

    What is left out is drawn. In a key every row has the same chance to count. So it has over all keys where max_groups is 1: that one is
    drawn in proportion to its rows, divided by those of it that count; each further one so among those that are left.

    Attributes:
        unit: Column that says whose a row is; a row in which it is null or empty is left out. None: each row is a unit of its own.
        where: SQL scalar, a condition; rows that it is not true for are out.
        keys: None: one group, with the key ().
    """

    unit: str | None
    where: str | None
    keys: tuple[GroupKey, ...]
    values: tuple[Steps, ...]
    max_groups: int
    max_rows: int


@dataclass(frozen=True, slots=True)
class Total:
    """The exact integers of one key: never printed, logged or kept."""

    units: int
    rows: int
    sums: tuple[int, ...]

    def __repr__(self) -> str:  # a traceback or a debugger's log would show it
        return "Total(...)"


Totals = Mapping[tuple[KeyValue, ...], Total]


def totals_of(rows: Iterable[Sequence[Any]], aggregation: Aggregation) -> Totals:
    """Return the totals of every declared key, zeros if no row has it. Raises InputError if the sums may have overflown."""
    count = len(aggregation.keys)
    declared = [key.declared for key in aggregation.keys]
    nothing = Total(0, 0, (0,) * len(aggregation.values))
    totals: dict[tuple[KeyValue, ...], Total] = {}
    if all(domain is not None for domain in declared):
        totals = dict.fromkeys(itertools.product(*(domain or () for domain in declared)), nothing)
    for row in rows:
        units, many, *sums = row[count:]
        if many and None in sums:
            raise InternalError("an engine answered with no sum where there are rows")
        units, many, *sums = (int(each or 0) for each in (units, many, *sums))  # of no row at all, a sum is null
        if many > MOST_ROWS:
            raise InputError("source: expected at most 2^40 rows")
        key = tuple(row[:count])
        if None not in declared and key not in totals:
            raise InternalError("an engine answered with a key that was not asked for")
        totals[key] = Total(units, many, tuple(sums))
    return totals


def quoted(name: str) -> str:
    """Quote the name of a table or a column for SQL, whatever is in it."""
    return '"' + name.replace('"', '""') + '"'

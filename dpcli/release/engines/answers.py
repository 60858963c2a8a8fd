"""From the rows that an engine answers with to totals by key."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

from dpcli.base.errors import InputError, InternalError
from dpcli.release.aggregate import MOST_ROWS, Aggregation, KeyValue, Total, Totals


def totals_of(rows: Iterable[Sequence[Any]], aggregation: Aggregation) -> Totals:
    """Every declared key, with zeros where no row has it. Raises InputError where the sums may have overflown."""
    count = len(aggregation.keys)
    declared = [key.declared for key in aggregation.keys]
    nothing = Total(0, 0, (0,) * len(aggregation.values))
    found: dict[tuple[KeyValue, ...], Total] = {}
    if all(domain is not None for domain in declared):
        found = dict.fromkeys(itertools.product(*(domain or () for domain in declared)), nothing)
    for row in rows:
        units, many, *sums = row[count:]
        if many and None in sums:
            raise InternalError("an engine answered with no sum where there are rows")
        units, many, *sums = (int(each or 0) for each in (units, many, *sums))  # of no row at all, a sum is null
        if many > MOST_ROWS:
            raise InputError("source: expected at most 2^40 rows, found more")
        key = tuple(row[:count])
        if None not in declared and key not in found:
            raise InternalError("an engine answered with a key that was not asked for")
        found[key] = Total(units, many, tuple(sums))
    return found

"""Aggregations in plain Python, row by row, as an independent check of the engines' answers (`totals`).

An aggregation filters rows, limits the rows and groups of each unit, clamps values to integers, and adds them up. Each SQL expression is
also given as a Python function of a row, so that the engines' reading of SQL is tested too.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dpcli.release.aggregate import Aggregation, GroupKey, Steps, Total

Row = Mapping[str, Any]
Function = Callable[[Row], Any]


@dataclass(frozen=True)
class Asked:
    """An aggregation, with a Python function for each of its SQL expressions."""

    aggregation: Aggregation
    meanings: Mapping[str, Function]

    def value(self, expression: str, row: Row) -> Any:
        return self.meanings[expression](row)


def totals(
    asked: Asked, rows: Sequence[Row], secret: bytes, block: Callable[[Row], tuple[Any, ...]] = lambda row: ()
) -> dict[tuple[Any, ...], Total]:
    """Return the totals of each group.

    Args:
        secret: The key of the hash by which rows and groups of a unit are chosen.
        block: Function from a row to its block. The limits of a unit apply in each block separately.
    """
    question = asked.aggregation
    units: dict[Any, dict[tuple[Any, ...], list[tuple[int, ...]]]] = defaultdict(lambda: defaultdict(list))
    for number, row in enumerate(rows):
        unit = number if question.unit is None else row[question.unit]
        key = tuple(part_of(asked, key, row) for key in question.parts)
        values = tuple(integer_of(asked, steps, row) for steps in question.values)
        kept = question.where is None or asked.value(question.where, row) is True
        if kept and unit not in (None, "") and None not in key and None not in values:
            units[(unit, *block(row))][key].append(values)
    if question.distinct is not None:
        return different(question, units, secret)
    units_of: dict[tuple[Any, ...], set[Any]] = defaultdict(set)
    many: Counter[tuple[Any, ...]] = Counter()
    sums: dict[tuple[Any, ...], list[int]] = defaultdict(lambda: [0] * len(question.values))
    for unit, groups in units.items():
        own: dict[tuple[Any, ...], list[int]] = defaultdict(lambda: [0] * len(question.values))
        for key, values in bounded(question, unit, groups, secret):
            units_of[key].add(unit)
            many[key] += 1
            for place, value in enumerate(values):
                own[key][place] += value
        if question.values:  # all rows of a key that counts add up, and then the sum is bounded
            for key in own:
                own[key] = [of_unit(question, sum(each), len(each), unit, key, secret) for each in zip(*groups[key], strict=True)]
        for key, added in own.items():
            sums[key] = [old + new for old, new in zip(sums[key], added, strict=True)]
    domains = [key.declared for key in question.keys]
    keys = set(many) if None in domains else set(itertools.product(*domains))
    return {key: Total(len(units_of[key]), many[key], tuple(sums[key])) for key in keys}


def different(
    question: Aggregation, units: Mapping[Any, Mapping[tuple[Any, ...], Sequence[tuple[int, ...]]]], secret: bytes
) -> dict[tuple[Any, ...], Total]:
    """Return the number of different values of the last part of the keys, for each group by the other parts."""
    assert question.distinct is not None
    domains = [key.declared for key in question.keys]
    values: dict[tuple[Any, ...], set[Any]] = defaultdict(set)
    values.update({} if None in domains else {key: set() for key in itertools.product(*domains)})
    for unit, groups in units.items():
        for key, _ in bounded(question, unit, {key: [()] for key in groups}, secret):
            values[key[:-1]].add(key[-1])
    return {key: Total(len(each), len(each), ()) for key, each in values.items()}


def bounded(
    question: Aggregation, unit: tuple[Any, ...], groups: Mapping[tuple[Any, ...], Sequence[tuple[int, ...]]], secret: bytes
) -> Iterator[tuple[tuple[Any, ...], tuple[int, ...]]]:
    """Yield the rows of one unit that count after the limits on its groups and rows, as keys and integers.

    Steps and counted values do not form groups here: rows are chosen first, and then separated by them.
    """
    if question.unit is None:
        yield from ((key, values) for key, rows in groups.items() for values in rows)
        return
    own: dict[tuple[Any, ...], list[Any]] = defaultdict(list)
    for key, rows in groups.items():
        parts = zip(key, question.parts, strict=True)
        by = tuple(part for part, asked in parts if asked.steps is None and asked is not question.distinct)
        own[by] += [(key, values) for values in rows]

    def lead(by: tuple[Any, ...]) -> float:
        count = len(own[by])
        return math.log((digest(secret, *unit, *by) + 0.5) / 2**48) * (min(count, question.max_rows) / count)

    for by in sorted(own, key=lambda by: (-lead(by), by))[: question.max_groups]:
        count, most = len(own[by]), question.max_rows
        shift = digest(secret, *unit, *by) % count
        yield from (row for place, row in enumerate(sorted(own[by]), start=1) if (place * most + shift) % count < most)


def of_unit(question: Aggregation, total: int, count: int, unit: tuple[Any, ...], key: tuple[Any, ...], secret: bytes) -> int:
    """Return the sum of a unit in a group after its limit.

    It is clipped, or else it is max_rows times the mean of its rows, rounded up or down by a hash.
    """
    if question.clip is not None:
        least, most = question.clip
        return min(max(total, least), most)
    if count <= question.max_rows:
        return total
    return (question.max_rows * total + digest(secret, *unit, *key) % count) // count


def part_of(asked: Asked, key: GroupKey, row: Row) -> Any:
    """Return one part of the key of a row; None if the row belongs to no group."""
    if key.steps is not None:
        return integer_of(asked, key.steps, row)
    value = asked.value(key.expression, row)
    if key.bins is not None:
        inside = value is not None and key.bins[0] <= value <= key.bins[-1]
        return min(sum(edge <= value for edge in key.bins), len(key.bins) - 1) - 1 if inside else None
    return value if key.domain is None or value in key.domain else None


def integer_of(asked: Asked, steps: Steps, row: Row) -> int | None:
    """Return floor(clamped / step + 1/2) in floating-point arithmetic, as the engines compute it."""
    value = asked.value(steps.expression, row)
    if value is None:
        value = steps.missing
    if value is None:
        return None
    clamped = min(max(float(value), steps.minimum * steps.step), steps.maximum * steps.step)
    whole = min(max(math.floor(clamped / steps.step + 0.5), steps.minimum), steps.maximum)
    return whole if steps.squared_about is None else (whole - steps.squared_about) ** 2


def digest(secret: bytes, *parts: Any) -> int:
    texts = [str(part).lower() if isinstance(part, bool) else str(part) for part in parts]
    joined = "|".join((secret.hex(), *(each for text in texts for each in (str(len(text)), text))))
    return int(hashlib.sha256(joined.encode()).hexdigest()[:12], 16)

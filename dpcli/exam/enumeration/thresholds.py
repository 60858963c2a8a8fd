"""Releases based on stability: propose-test-release, and a histogram that shows only keys whose noisy count exceeds a threshold.

references.py uses these functions; nothing here uses dpcli's own mechanisms. A *release* maps the records of a sample, each a letter such
as CHANGING (drawing_records.py), to its *law*, the probability of each outcome.

Propose-test-release answers only if the data are far from data with another answer: a noisy *distance* (number of changes) must exceed a
level. `distances` finds it by a search over all small data. Both mechanisms may fail with probability delta: the test passes although it
should not, or a key is shown although only one unit has it. The noise on the distance has scale 1 / epsilon.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator

import numpy as np

from dpcli.exam.enumeration.additive_noise import cells, laplace
from dpcli.exam.enumeration.drawing_records import CHANGING, REPLACING, Array, Records, Release, Situation, product

SIDE = 12  # largest count that the search covers; the distances that matter are less than half of it
# Discrete noise is summed up to these distances. With scales up to 2, what is left out is far below the rounding of doubles.
DISTANCE_OF_TEST, DISTANCE_OF_COUNT = 400, 200
JUMP = 9.0  # height of the jump of a number whose noise hides a move by 1; arbitrary
Counts = tuple[int, int]  # numbers of records with each of two values
Weight = Callable[[int], float]  # noise -> its probability, up to a constant


def beyond(scale: float, least: int) -> float:
    """Return P(X > least) for discrete Laplace noise X, by a sum of its terms."""
    weights = {x: math.exp(-abs(x) / scale) for x in range(-DISTANCE_OF_TEST, DISTANCE_OF_TEST + 1)}
    return math.fsum(weight for x, weight in weights.items() if x > least) / math.fsum(weights.values())


@functools.cache
def threshold(epsilon: float, delta: float) -> int:
    """Return the smallest threshold that the noise exceeds with probability at most delta."""
    return next(t for t in itertools.count() if beyond(1.0 / epsilon, t) <= delta)


def passing(epsilon: float, level: int, distance: int) -> float:
    """Return the probability that the test passes, which is that the distance with noise exceeds the level."""
    return beyond(1.0 / epsilon, level - distance)


def mode(counts: Counts) -> int:
    """Return the more frequent of two values, which are 0 and 1; 0 in a tie."""
    zeros, ones = counts
    return int(ones > zeros)


@functools.cache
def distances(adjacency: str) -> dict[Counts, int]:
    """Return, for each pair of counts, the number of changes to the nearest pair that has a neighbour with another mode.

    The search begins at the pairs of distance 0.
    """
    steps = ((1, -1), (-1, 1)) if adjacency == "replace-one" else ((1, 0), (-1, 0), (0, 1), (0, -1))
    all_counts = set(itertools.product(range(SIDE + 1), range(SIDE + 1)))
    neighbours = {(x, y): all_counts.intersection((x + dx, y + dy) for dx, dy in steps) for x, y in all_counts}
    distance: dict[Counts, int] = {}
    edge = {counts for counts in all_counts if any(mode(counts) != mode(neighbour) for neighbour in neighbours[counts])}
    depth = 0
    while edge:
        distance |= dict.fromkeys(edge, depth)
        edge = set().union(*(neighbours[counts] for counts in edge)) - distance.keys()
        depth += 1
    return distance


def tested_modes(epsilon: float, delta: float, situation: Situation) -> Iterator[Release]:
    """Yield releases of the more frequent of two values, which are empty if the test fails. Each record is a unit."""
    level, distance = threshold(epsilon, delta), distances(situation.adjacency)
    # Counts of the records that do not change: at the edge, near it and farther away.
    for base in ((4, 4), (5, 3), (6, 3), (4, 6), (7, 2)):

        def release(records: Records, base: Counts = base) -> Array:
            first_count, second_count = base
            counts = first_count + records.count(CHANGING), second_count + records.count(REPLACING)
            passed = passing(epsilon, level, distance.get(counts, SIDE))  # outside of the search, the distance is large
            law = [1.0 - passed, 0.0, 0.0]  # no answer, the value 0, the value 1
            law[1 + mode(counts)] = passed
            return np.array(law)

        yield release


def tested_number(epsilon: float, delta: float, scale: float, situation: Situation) -> Iterator[Release]:
    """Yield releases of a number with Laplace noise, which are empty if the test fails.

    Each unit moves the number by 1. From `jump` to `jump` + 1 units it jumps by JUMP more, which only the test can hide.
    """
    level = threshold(epsilon, delta)
    for jump, up in itertools.product((-3, -1, 0, 1, 4), (1.0, -1.0)):

        def release(records: Records, jump: int = jump, up: float = up) -> Array:
            units = sum(situation.changed_units(records))
            distance = min(abs(units - jump), abs(units - jump - 1))  # to the nearer side of the jump
            passed = passing(epsilon, level, distance)
            number = up * units + JUMP * (units > jump)
            # The cells reach 12 noise scales below 0, and above 10, which is near the largest number.
            answer = cells(laplace(scale), number, low=-12.0 * scale, high=12.0 * scale + 10.0, count=400)
            return np.append(1.0 - passed, passed * answer)

        yield release


def shown_keys(weight: Weight, least: int, keys: int, rows: int, situation: Situation) -> Iterator[Release]:
    """Yield releases of the noisy counts above the threshold `least`, where `weight` is the law of the noise.

    A unit adds `rows` to each of `keys` keys. These keys have records of other units, or no other records. Under replace-one, the record
    that replaces the unit's record adds to the same number of other keys. The units of a group share their keys, or each unit has separate
    keys.
    """
    total = math.fsum(map(weight, range(-DISTANCE_OF_COUNT, DISTANCE_OF_COUNT + 1)))
    group, replaces = situation.group, situation.adjacency == "replace-one"
    reach = 10 if keys == 1 else 6  # few for several keys, because their joint law has (reach + 2)^keys outcomes

    @functools.cache
    def distribution(count: int) -> Array:
        """Return the law of one key. The first outcome is a hidden key. The last outcome joins all numbers beyond `reach`."""
        if count == 0:
            return np.array([1.0, *[0.0] * (reach + 1)])
        law = {x: weight(x - count) / total for x in range(count - DISTANCE_OF_COUNT, count + DISTANCE_OF_COUNT + 1)}
        visible = [law[x] for x in range(least + 1, least + 1 + reach)]
        more = math.fsum(p for x, p in law.items() if x > least + reach)
        return np.array([1.0 - math.fsum(visible) - more, *visible, more])

    # Numbers of key sets. The units of a group share one set, or each unit has a separate set. With separate sets of several keys, and as
    # many for the records that replace them, the joint law would have too many outcomes.
    set_counts = (1,) if group == 1 or (replaces and keys > 1) else (1, group)
    for others, sets in itertools.product(itertools.product((0, least), repeat=2 if replaces else 1), set_counts):

        def release(records: Records, others: tuple[int, ...] = others, sets: int = sets) -> Array:
            laws = []
            for letter, others_count in zip((CHANGING, REPLACING), others, strict=False):
                units = situation.changed_units(records, letter)
                counts = [sum(units)] if sets == 1 else units
                for count in counts:
                    laws += [distribution(others_count + rows * count)] * keys
            return product(laws)

        yield release

"""All pairs of small neighbouring tables, and the probabilities of a release on each, by enumeration of its noise."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from dpcli.mechanisms.neighbours import Adjacency
from dpcli.release.stability.propose_test import Draw

Vector = tuple[int, ...]  # rows of each value
Law = dict[Any, float]
Released = Callable[[Vector, Draw], Any]
REACH = 14  # of the noise of a test, which has tails beyond it at its ends: more than any distance and threshold here
FAR = 40  # of the noise on a number


def vectors(values: int, most: int, total: int) -> Iterator[Vector]:
    """Yield all vectors of counts with at most `most` of each value and at most `total` in all."""
    for found in itertools.product(range(most + 1), repeat=values):
        if sum(found) <= total:
            yield found


def pairs(
    adjacency: Adjacency, values: int, total: int, units: list[Vector], always_one: bool = False
) -> set[tuple[Vector, Vector]]:
    """Return all pairs of neighbours: a unit is added, or replaced by another one.

    units: The counts that one unit may add. A replacing unit may have no rows, unless `always_one`.
    """
    nothing = (0,) * values
    others = list(vectors(values, total, total))
    versions = units if always_one else [nothing, *units]
    if adjacency is Adjacency.REPLACE_ONE:
        changes = list(itertools.combinations(versions, 2))
    else:
        changes = [(nothing, unit) for unit in units]
    return {(add(one, u), add(one, v)) for one in others for u, v in changes}


def add(one: Vector, other: Vector) -> Vector:
    return tuple(a + b for a, b in zip(one, other, strict=True))


def noise(scale: float, reach: int) -> dict[int, float]:
    """Return P(DLap = x) for |x| < reach. The probability beyond is added to the two ends."""
    r = math.exp(-1.0 / scale)
    inner = {x: (1.0 - r) / (1.0 + r) * r ** abs(x) for x in range(1 - reach, reach)}
    return {-reach: r**reach / (1.0 + r), **inner, reach: r**reach / (1.0 + r)}


def law_after_test(released: Released, scale: float, data: Vector) -> Law:
    """Return the law of a release whose first draw is the noise of the test, if every other draw is 0."""
    law: Law = {}
    for first, probability in noise(scale, REACH).items():
        drawn = itertools.chain([first], itertools.repeat(0))
        answer = released(data, lambda _: next(drawn))  # noqa: B023
        law[answer] = law.get(answer, 0.0) + probability
    return law


def noised(law: Law, scale: float) -> Law:
    """Return a law with the noise that is drawn after the test."""
    spread = noise(scale, FAR)
    found: Law = {None: law.get(None, 0.0)}
    for answer, weight in law.items():
        for x, probability in spread.items() if answer is not None else ():
            found[answer + x] = found.get(answer + x, 0.0) + weight * probability
    return found


def excess(one: Mapping[Any, float], other: Mapping[Any, float], epsilon: float) -> float:
    """Return the hockey-stick divergence of two laws."""
    return math.fsum(max(p - math.exp(epsilon) * other.get(answer, 0.0), 0.0) for answer, p in one.items())


def worst(neighbours: set[tuple[Vector, Vector]], law: Callable[[Vector], Law], epsilon: float) -> float:
    """Return the largest divergence over all neighbours, in both directions."""
    known = functools.cache(law)
    return max(max(excess(known(a), known(b), epsilon), excess(known(b), known(a), epsilon)) for a, b in neighbours)

"""Where the trade-off curve of several guarantees bends."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import pairwise

Straight = tuple[float, float]  # fall per unit of the false positive rate, height where that rate is 0

LARGEST = 700.0  # e^epsilon is a number up to there; a larger epsilon bends the curve within less than any picture shows


def corners(pairs: Iterable[tuple[float, float]]) -> tuple[float, ...]:
    """The false positive rates, 0 and 1 among them, at which the curve of these (epsilon, delta) pairs bends.

    Each pair bounds the false negative rate by max(0, 1 - delta - e^eps alpha, e^-eps (1 - delta - alpha)); several do so by the largest,
    which is convex and piecewise linear. Drawn through its corners it is itself; through other points it would lie above itself.
    """
    heights: dict[float, float] = {0.0: 0.0}
    for epsilon, delta in pairs:
        if epsilon <= LARGEST:
            for fall, height in ((math.exp(epsilon), 1.0 - delta), (math.exp(-epsilon), math.exp(-epsilon) * (1.0 - delta))):
                heights[fall] = max(heights.get(fall, 0.0), height)
    highest = _highest(sorted(heights.items(), reverse=True))
    bends = (_meet(left, right) for left, right in pairwise(highest))
    return (0.0, *sorted({x for x in bends if 0.0 < x < 1.0}), 1.0)


def _highest(lines: list[Straight]) -> list[Straight]:
    """Those of the lines, steepest first, that are somewhere the highest."""
    kept: list[Straight] = []
    for line in lines:
        while kept and (line[1] >= kept[-1][1] or (len(kept) > 1 and _meet(kept[-2], line) <= _meet(kept[-2], kept[-1]))):
            kept.pop()
        kept.append(line)
    return kept


def _meet(left: Straight, right: Straight) -> float:
    """Where two lines are equally high."""
    return (left[1] - right[1]) / (left[0] - right[0])

"""The corners of a trade-off curve, through which a picture of it is exact.

A trade-off curve gives, for each false positive rate of an attack, the smallest false negative rate that privacy allows. Each pair
(epsilon, delta) of a mechanism bounds it from below by two falling lines, and the curve is the highest of all lines: convex, with a corner
wherever another line becomes the highest. A picture through other points would lie above the curve, and so show more privacy than there is.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

LARGEST_EXPONENT = 700.0  # e^epsilon is finite up to this; the corner of a larger epsilon is invisible in every picture


class FallingLine(NamedTuple):
    """The line (false negative rate) = height - fall * (false positive rate), part of a trade-off curve."""

    fall: float
    height: float

    def crossing(self, other: FallingLine) -> float:
        """Return the false positive rate at which two lines of different falls cross."""
        return (self.height - other.height) / (self.fall - other.fall)


def corners(pairs: Iterable[tuple[float, float]]) -> tuple[float, ...]:
    """Return 0, the false positive rates at which the trade-off curve of these (epsilon, delta) pairs bends, and 1, in increasing order.

    Pairs whose epsilon exceeds LARGEST_EXPONENT are left out.

    Each pair bounds the false negative rate at a false positive rate alpha from below by
    max(0, 1 - delta - e^eps alpha, e^-eps (1 - delta - alpha)).
    """
    heights: dict[float, float] = {0.0: 0.0}  # the largest height of the lines of each fall
    for epsilon, delta in pairs:
        if epsilon <= LARGEST_EXPONENT:
            steep, flat = math.exp(epsilon), math.exp(-epsilon)
            heights[steep] = max(heights.get(steep, 0.0), 1.0 - delta)
            heights[flat] = max(heights.get(flat, 0.0), flat * (1.0 - delta))
    lines = [FallingLine(fall, height) for fall, height in sorted(heights.items(), reverse=True)]
    bends = {left.crossing(right) for left, right in pairwise(_upper_envelope(lines))}
    return (0.0, *sorted(x for x in bends if 0.0 < x < 1.0), 1.0)


def _upper_envelope(lines: list[FallingLine]) -> list[FallingLine]:
    """Return the lines that are the highest at some false positive rate >= 0. Input and output have the steepest line first."""
    highest: list[FallingLine] = []
    for line in lines:
        while highest and _is_hidden(highest, line):
            highest.pop()
        highest.append(line)
    return highest


def _is_hidden(highest: list[FallingLine], line: FallingLine) -> bool:
    """Return whether `line` hides the last envelope line: it overtakes that line no later than that line overtakes the one before."""
    last = highest[-1]
    if line.height >= last.height:  # already at a false positive rate of 0
        return True
    return len(highest) > 1 and highest[-2].crossing(line) <= highest[-2].crossing(last)

"""Vectors of whole numbers of bounded norms, up to the order and the signs of their coordinates, that no other one exceeds."""

from __future__ import annotations

import math
from collections.abc import Iterator

MOST_LOOKS = 2000  # vectors that are looked at


class TooManyShifts(Exception):
    """There are more vectors than are looked at."""


def largest_shifts(squared: int, most: int, total: int, dimension: int) -> tuple[tuple[int, ...], ...]:
    """The vectors v with |v|^2 <= squared that are maximal coordinate by coordinate.

    Args:
        most: bound on one coordinate. total: on their sum. dimension: on how many there are.

    Returns:
        Positive coordinates, falling; every other vector within the bounds has, in some order, none that is larger in size than one
        of these. Raises TooManyShifts.
    """
    found = []
    for looked, shift in enumerate(_within(min(math.isqrt(squared), most), squared, total, dimension)):
        if looked == MOST_LOOKS:
            raise TooManyShifts
        left = squared - sum(x * x for x in shift)
        if not any(x < most and 2 * x + 1 <= left and sum(shift) < total for x in set(shift)):
            found.append(shift)
    return tuple(found)


def _within(largest: int, squared: int, total: int, places: int) -> Iterator[tuple[int, ...]]:
    """All with coordinates up to `largest`, to which no coordinate of 1 can be added."""
    if largest == 1:
        yield (1,) * min(squared, total, places)
        return
    for count in range(min(squared // (largest * largest), total // largest, places), -1, -1):
        for rest in _within(largest - 1, squared - count * largest * largest, total - count * largest, places - count):
            yield (largest,) * count + rest

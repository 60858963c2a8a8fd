"""The worst participation pattern of a binary tree, exactly: a search over where counts can stand.

The squared sensitivity is the sum, over the complete nodes, of the squared count of participations within. Which counts the nodes can have
at once depends on the pattern through one number only: how many steps after the end of a node the next participation may be, which is
least where every participation is as early as its node allows. So of each node, by the first step in it that is free, and by its count,
the pairs of a sum and a wait count of which no other has a larger sum and no longer wait.
"""

from __future__ import annotations

import functools
import math

Points = tuple[tuple[int, int], ...]  # (sum of squares, steps after the end at which the next may be), both rising


def most_squares(steps: int, separation: int, participations: int) -> int:
    """The largest sum over the complete nodes of squared counts, of at most so many participations at least `separation` apart."""
    alone = separation.bit_length() - 1  # nodes of 2^alone <= separation steps hold one at most

    @functools.cache
    def node(level: int, free: int, count: int) -> Points:
        """Of a complete node of 2^level steps; nothing where it cannot hold so many."""
        size = 2**level
        if count == 0:
            return ((0, max(free - size, 0)),)
        if count > max(-((free - size) // separation), 0):
            return ()
        if level <= alone:
            return ((level + 1, free + separation - size),)
        full = -(-(size // 2) // separation)
        return _best(
            [
                (left + right + count * count, later)
                for first in range(max(0, count - full), min(count, full) + 1)
                for left, wait in node(level - 1, free, first)
                for right, later in node(level - 1, wait, count - first)
            ]
        )

    forest: dict[int, Points] = {0: ((0, 0),)}
    for level in reversed(range(steps.bit_length())):
        if steps >> level & 1:
            longer: dict[int, list[tuple[int, int]]] = {}
            for used, points in forest.items():
                for count in range(min(participations - used, math.ceil(2**level / separation)) + 1):
                    for total, free in points:
                        found = node(level, free, count)
                        longer.setdefault(used + count, []).extend((total + more, wait) for more, wait in found)
            forest = {used: _best(points) for used, points in longer.items()}
    return max(points[-1][0] for points in forest.values() if points)


def _best(points: list[tuple[int, int]]) -> Points:
    """Those of which no other has a larger sum and no longer wait."""
    kept: list[tuple[int, int]] = []
    for total, wait in sorted(points, key=lambda point: (point[1], -point[0])):
        if not kept or total > kept[-1][0]:
            kept.append((total, wait))
    return tuple(kept)

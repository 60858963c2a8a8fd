"""Sensitivity of the encoded stream of a matrix mechanism where one record takes part several times (L2, per unit contribution).

A participation pattern has at most k steps, any two at least b apart. All entries of the encoder are non-negative, so the worst
contributions are all alike and add up (Choquette-Choo et al. 2022, arXiv:2211.06530).

The worst pattern of a binary tree is searched for exactly. The squared sensitivity is the sum, over the complete nodes, of the squared
count of participations within. Which counts the nodes can have at once depends on the pattern through one number only: how many steps after
the end of a node the next participation may be, which is least where every participation is as early as its node allows. So of each node,
by the first step in it that is free, and by its count, the pairs of a sum and a wait count of which no other has a larger sum and no longer
wait.
"""

from __future__ import annotations

import functools
import math

from dpcli.numerics.arrays import Array, np

SEARCHED = 100  # participations up to which the worst pattern in a tree is searched for

Points = tuple[tuple[int, int], ...]  # (sum of squares, steps after the end at which the next may be), both rising


def most_squares(steps: int, separation: int, participations: int) -> int:
    """The largest sum over the complete nodes of squared counts, of at most so many participations at least `separation` apart."""
    alone = separation.bit_length() - 1  # nodes of 2^alone <= separation steps hold one at most

    @functools.cache
    def node(level: int, free: int, count: int) -> Points:
        """Return the points of a complete node of 2^level steps; nothing where it cannot hold so many."""
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
                        options = node(level, free, count)
                        longer.setdefault(used + count, []).extend((total + more, wait) for more, wait in options)
            forest = {used: _best(points) for used, points in longer.items()}
    return max(points[-1][0] for points in forest.values() if points)


def _best(points: list[tuple[int, int]]) -> Points:
    """Return the points of which no other has a larger sum and no longer wait."""
    kept: list[tuple[int, int]] = []
    for total, wait in sorted(points, key=lambda point: (point[1], -point[0])):
        if not kept or total > kept[-1][0]:
            kept.append((total, wait))
    return tuple(kept)


def toeplitz_sensitivity(coefficients: Array, steps: int, separation: int, participations: int) -> float:
    """The norm of the sum of columns 0, b, 2b, ... of the lower triangular Toeplitz matrix with this first column.

    Args:
        coefficients: non-negative and non-increasing; zero beyond the last one.

    The worst pattern is the densest from the start: the product of columns i < j is sum_s c_s c_{s+j-i} over s < n - j, which falls
    with j and with j - i, and the l-th participation is not before l b (Kalinin & Lampert 2024, arXiv:2405.13763, Theorem 2; McMahan
    et al. 2024, arXiv:2408.08868). Rounded up.
    """
    b = min(separation, steps)
    rows = math.ceil(steps / b)
    column = np.zeros(rows * b)
    column[: min(steps, len(coefficients))] = coefficients[:steps]
    largest = float(column.max()) or 1.0  # taken out: squares overflow, or vanish, long before the norm does
    column /= largest
    total = np.cumsum(column.reshape(rows, b), axis=0)  # of all earlier columns b apart
    if participations < rows:
        total[participations:] -= total[:-participations].copy()
    squares = np.square(total.reshape(-1)[:steps])
    return math.sqrt(float(squares.sum())) * largest * (1.0 + 1e-12)


def exact_in_tree(steps: int, separation: int, participations: int) -> bool:
    """Return whether some participation pattern reaches `tree_sensitivity`."""
    return min(participations, math.ceil(steps / separation)) <= SEARCHED


def tree_sensitivity(steps: int, separation: int, participations: int) -> float:
    """Return the sensitivity of a binary tree whose complete nodes are released with noise: the root of the sum over nodes of squared
    counts, rounded up.

    One participation: the number of levels with a complete node (Kairouz et al. 2021, arXiv:2103.00039). Up to SEARCHED: by search. More,
    from above, level by level: a node of 2^l leaves holds at most m = min(k, ceil(2^l / b)) of the k participations, and a sum of squares
    of counts up to m that add up to k is largest where as many as possible are m.
    """
    most = min(participations, math.ceil(steps / separation))
    if most <= SEARCHED:
        return math.sqrt(most_squares(steps, separation, most)) * (1.0 + 1e-15)
    total = 0
    for level in range(steps.bit_length()):
        size = 2**level
        full = min(most, math.ceil(size / separation))
        counted = min(most, (steps // size) * full)
        total += counted // full * full**2 + (counted % full) ** 2
    return math.sqrt(total) * (1.0 + 1e-15)

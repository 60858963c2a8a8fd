"""How far the encoded stream of a matrix mechanism moves where one record takes part several times (L2, per unit contribution).

A participation pattern has at most k steps, any two at least b apart. All entries of the encoder are non-negative, so the worst
contributions are all alike and add up (Choquette-Choo et al. 2022, arXiv:2211.06530).
"""

from __future__ import annotations

import math

from dpcli.numerics.arrays import Array, np
from dpcli.numerics.closed.tree_patterns import most_squares

SEARCHED = 100  # participations up to which the worst pattern in a tree is searched for


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
    """Whether some participation pattern reaches `tree_sensitivity`."""
    return min(participations, math.ceil(steps / separation)) <= SEARCHED


def tree_sensitivity(steps: int, separation: int, participations: int) -> float:
    """Of a binary tree whose complete nodes are released with noise: the root of the sum over nodes of squared counts, rounded up.

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
        held = min(most, (steps // size) * full)
        total += held // full * full**2 + (held % full) ** 2
    return math.sqrt(total) * (1.0 + 1e-15)

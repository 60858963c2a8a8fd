"""The sieve of a contour integral: blocks of nodes at which the integrand is negligible are left out without computing it there.

integral.py adds up an integrand at the nodes y = 0, h, 2 h, ... on the line Re z = t. One factor of it is phi(y)^n, where phi is the
characteristic function E_t[e^{i y L}] of a loss L under the tilt (tilted.py), and n the number of its copies. Many copies of a discrete
loss need very many nodes, because phi does not decay, and |phi|^n is negligible at most of them. A bound on how fast |phi| may change
shows this for whole blocks, from phi at their ends alone. Often 90 to 99 % of the nodes are left out.

`whole_factor` of integral.py calls `nodes_left`. The nodes that are left out enter its error bound.
"""

from __future__ import annotations

import math
from typing import Any

from dpcli.numerics.arrays import Array, ComplexArray, IndexArray, np
from dpcli.numerics.contour.tilted import Parts, Tilted
from dpcli.numerics.work import TABLE, hold

# Accuracy: nodes are left out whose modulus is below LIGHT times that of the first; the error bound counts them.
LIGHT = 1e-24
# Soundness: it far exceeds the relative rounding of the distance, which is about 1e-14.
SIEVE_SLACK = 1e-6
# Logarithm of the error that phi may have. It hardly matters: the parts here are finite sums, whose only errors are rounding.
LOG_ERROR = -28.0
# Speed.
SIEVED = 160  # fewest copies; with fewer, only nodes at which one copy's characteristic function nearly vanishes could be left out
LONG = 2048  # of so few nodes none is left out here, or at the end by `_evaluated` of integral.py
WIDE_BLOCK = 0.25  # most by which the distance d of `sieved` may change across a block of the first level; d is between 0 and 1
FINER = 8  # number of blocks into which a block that is not left out is divided
LEAST_SIEVE = 1 << 16  # a further division may compute so many terms, however few nodes there are


def may_sieve(part: Tilted, n: int) -> bool:
    """Return whether the sieve may leave out nodes by means of `n` copies of a part, a sum of finitely many terms."""
    return n >= SIEVED and getattr(part, "finite_sum", False) and getattr(part, "pointwise", False)


def nodes_left(tilted: Parts, step: float, count: int) -> IndexArray | None:
    """Return the nodes among `count` multiples of the node distance that the sieve does not leave out.

    None stands for all multiples, which need no array if the first part leaves out most of them.
    """
    index: IndexArray | None = None
    for part, n in sorted(tilted, key=lambda copies: -copies[1] * copies[0].variance):
        if may_sieve(part, n):
            index = sieved(part, n, step, count, index)
    return index


def sieved(part: Any, n: int, step: float, count: int, index: IndexArray | None) -> IndexArray | None:
    """Return the nodes of `index` without those in blocks where the characteristic function of `n` copies of a part is negligible.

    The distance d(y) = sqrt(1 - |phi(y)|^2) of one copy changes by at most s |y' - y| between two frequencies, where s is the standard
    deviation of the loss. Proof: |phi|^2 = E cos(y D), where D is the difference of two independent copies, with E D^2 = 2 s^2. The
    derivative E D sin(y D) is at most sqrt(2 s^2 E sin^2(y D)) by the Cauchy-Schwarz inequality. As sin^2 <= 2 (1 - cos), it is at
    most 2 s d. So the derivative of d = sqrt(1 - |phi|^2) is at most s.

    Within a block of length w, d is therefore at least the mean of its values at the two ends minus s w / 2. If this is at least
    sqrt(1 - LIGHT^{2/n}), then |phi|^n <= LIGHT in the whole block. All other factors of the integrand are at most those at y = 0. So
    each node that is left out has a modulus of at most LIGHT times that of the first node.
    """
    last = count if index is None else int(index[-1]) + 1
    change = math.sqrt(part.variance) * step * (1.0 + SIEVE_SLACK)  # most by which the distance changes from one node to the next
    least = math.sqrt(-math.expm1(2.0 * math.log(LIGHT) / n)) * (1.0 + SIEVE_SLACK)  # the distance at which |phi|^n is LIGHT
    # There is nothing to leave out if the distance, which begins with 0, cannot reach `least`, or changes too fast even across FINER nodes.
    if (last if index is None else len(index)) <= LONG or change * last <= least or FINER * change > WIDE_BLOCK:
        return index
    # size: the number of nodes in a block of the first level.
    size = FINER ** math.floor(math.log(min(WIDE_BLOCK / max(change, 1e-300), last), FINER))
    ends = _distances(part.centred(step * size, -(-last // size) + 1, LOG_ERROR))
    # starts: the first nodes of the blocks that are not left out.
    starts = size * np.flatnonzero(_least_distance(ends[:-1], ends[1:], change * size) < least)
    while size > 1:
        if index is not None:  # blocks without a node of `index` need no closer look
            starts = starts[np.searchsorted(index, starts + size) > np.searchsorted(index, starts)]
        if len(starts) * FINER * part.terms > max(2 * last, LEAST_SIEVE):  # this division would take too long
            break
        size //= FINER
        edges = starts[:, None] // size + np.arange(FINER + 1)
        points, inverse = np.unique(edges.ravel(), return_inverse=True)  # neighbouring blocks share an edge
        ends = _distances(part.centred_at(step * size, points, LOG_ERROR))[inverse].reshape(edges.shape)
        starts = size * edges[:, :-1][_least_distance(ends[:, :-1], ends[:, 1:], change * size) < least]
    if len(starts) * size > min(TABLE, last // 2):  # the array of the nodes would not be worth its memory
        return index
    hold(float(len(starts) * size))
    nodes = (starts[:, None] + np.arange(size)).ravel()
    return nodes[nodes < last] if index is None else index[np.isin(index, nodes, assume_unique=True)]


def _distances(log_phi: ComplexArray) -> Array:
    """Return sqrt(1 - |phi|^2), rounded down, from log phi. NaN becomes 0, the distance at which nothing is left out."""
    squares = -np.expm1(2.0 * np.minimum(log_phi.real, 0.0))
    return np.asarray(np.sqrt(np.nan_to_num(squares, nan=0.0)) * (1.0 - SIEVE_SLACK))


def _least_distance(left: Array, right: Array, change: float) -> Array:
    """Return a lower bound on a function within blocks, from its values at their ends. change: most by which it changes over a block."""
    return 0.5 * (left + right - change)

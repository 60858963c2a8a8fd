"""The hockey-stick curve of several choices of bounded range, each made from the answers of those before it: exact, up to a grid.

Let F be the curve h(s) = sup(P(S) - s Q(S)) of what comes after one choice, the worst case over all that may come. Whatever the choice,
its likelihood ratio r lies within [a, a e^eps] for some a in [e^-eps, 1], and the curve of both is E_Q[r F(s/r)]. As r F(s/r) is
convex in r (F is a supremum of functions (P - s Q)+, each of which is jointly homogeneous), the worst choice has two outcomes, at both
ends. Written with w = s/r,

    (B F)(s) = sup { chord of F between w and w e^eps, at s : s e^-eps <= w <= s }

so that B^n (1 - s)+ is the worst curve of n choices (backward induction; Dong, Durfee, Rogers 2020, arXiv:1909.13830, have the two-point
family and that no member is worst). Each member is a choice between two candidates, so the supremum is approached.

On a grid of which eps is m steps: let F be linear between the points. On a cell of w, where F is linear at w and at w e^eps, the chord at s
is c1 - c2 w - c0 s / w with c0, c2 >= 0, since F is convex: its largest value has w^2 = s c0 / c2, in closed form. At a point of
the grid the slope jumps up in w, so no largest value is hidden there but at the end w = s, where it is F(s). A cell has its largest value
inside for s between its ends' own, a stretch of two steps: four candidates for each cell find all, and one of them is to spare.
F between the points of the grid is taken from chords, which lie above: an upper bound, of second order in the step. The same with w on the
grid only is what some choices have: a lower bound.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from dpcli.numerics.arrays import Array, IndexArray, np
from dpcli.numerics.work import spend

LEAST = 1e-300  # of a height that may be more than 0
ROUNDING = 1e-15  # of one step of the recursion, where it is not magnified
CANDIDATES = 4
FURTHEST = 300.0  # total of the ranges: squares of e^x are numbers


class ChoiceCurve(NamedTuple):
    """Bounds on h at x = 0, spacing, 2 spacing, ...: of what some choices have, and of what any have."""

    spacing: float
    lower: Array
    upper: Array


class _Cells(NamedTuple):
    """Cells of w, each with s over the square of its best w, and the first s that it may be best at, as an index of x = 0, spacing, ..."""

    cell: IndexArray
    ratio: Array
    first: IndexArray


def choice_curve(epsilon: float, count: int, steps: int) -> ChoiceCurve:
    """Bounds on the curve of `count` choices of range `epsilon`, count * epsilon at most FURTHEST; `steps` of the grid to epsilon.

    Rounding is added to both: where slopes are nearly equal, their difference is lost by a share of 1e-16 / spacing^2.
    """
    spend(3.0 * CANDIDATES * count * count * steps)
    spacing = epsilon / steps
    upper = lower = np.zeros(1)
    for _ in range(count):
        upper, lower = _one_more(upper, lower, epsilon, steps)
    error = count * ROUNDING * (1.0 + 1.0 / (spacing * spacing))
    return ChoiceCurve(spacing, np.maximum(lower * (1.0 - error), 0.0), np.minimum(upper * (1.0 + error), 1.0))


def _one_more(upper: Array, lower: Array, epsilon: float, m: int) -> tuple[Array, Array]:
    """B of both curves, on a grid that is m points longer."""
    length = len(upper) + m
    spacing = epsilon / m
    x: Array = spacing * np.arange(-m, length + m, dtype=float)
    s: Array = np.exp(x)
    high, low = _extended(upper, x, s, m), _extended(lower, x, s, m)
    cells = _cells(high, x, s, epsilon, m, length)
    best, some = high[m : m + length].copy(), low[m : m + length].copy()
    for ahead in range(CANDIDATES):
        target = cells.first + ahead
        inside = (target >= 0) & (target < length) & (target >= cells.cell - m) & (target <= cells.cell + 1)
        cell, at = cells.cell[inside], target[inside]
        w = np.clip(np.sqrt(s[at + m] / cells.ratio[inside]), s[cell], s[cell + 1])
        share = (w - s[cell]) / (s[cell + 1] - s[cell])
        near, far = _between(high, cell, share), _between(high, cell + m, share)
        np.maximum.at(best, at, _chord(near, far, s[at + m] / w, epsilon))
        for end in (cell, cell + 1):
            apart = (at + m > end) & (at < end)
            k, p = end[apart], at[apart]
            np.maximum.at(some, p, _chord(low[k], low[k + m], s[p + m] / s[k], epsilon))
    best[: length - 1] = np.maximum(best[: length - 1], LEAST)
    best[-1] = some[-1] = 0.0  # no loss is larger
    return best, some


def _cells(high: Array, x: Array, s: Array, epsilon: float, m: int, length: int) -> _Cells:
    """Of the cells whose chords reach a point of the longer grid, those in which some chord is the best."""
    slope = np.diff(high) / np.diff(s)
    intercept = high[:-1] - slope * s[:-1]
    number = length - 1
    steeper = slope[m : m + number] - slope[:number]
    lower = intercept[:number] - intercept[m : m + number]
    index = np.flatnonzero((steeper > 0.0) & (lower > 0.0))
    with np.errstate(all="ignore"):
        log_ratio = epsilon + np.log(steeper[index]) - np.log(lower[index])
    first = np.floor((2.0 * x[index] + log_ratio) * m / epsilon).clip(-2.0 * m, length + m).astype(int)
    return _Cells(index, np.exp(log_ratio), first)


def _extended(curve: Array, x: Array, s: Array, m: int) -> Array:
    """The curve from x = -epsilon, by its symmetry, to beyond its last point, where it is 0."""
    mirrored = np.zeros(m)
    known = min(m, len(curve) - 1)
    mirrored[m - known :] = curve[known:0:-1]
    return np.concatenate((s[:m] * mirrored - np.expm1(x[:m]), curve, np.zeros(len(x) - m - len(curve))))


def _between(curve: Array, cell: IndexArray, share: Array) -> Array:
    return np.asarray(curve[cell] + share * (curve[cell + 1] - curve[cell]))


def _chord(near: Array, far: Array, ratio: Array, epsilon: float) -> Array:
    """Between heights at w and w e^eps, at s = w ratio."""
    share = ((ratio - 1.0) / math.expm1(epsilon)).clip(0.0, 1.0)
    return np.asarray((1.0 - share) * near + share * far)

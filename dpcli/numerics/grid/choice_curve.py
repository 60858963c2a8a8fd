"""The worst hockey-stick curve of a sequence of choices of bounded range, each of which may depend on the earlier answers.

A choice has range eps if its losses log dP/dQ lie in an interval of length eps, like those of the exponential mechanism. Composed
exponential mechanisms ask for this curve (choice/exponential.py): delta as a function of epsilon that no n choices exceed.

1. Let F be the worst-case curve h(s) = sup(P(S) - s Q(S)) of all choices after one choice. The likelihood ratio r of the one choice lies
   within [a, a e^eps] for some a in [e^-eps, 1]. The curve of all of them together is E_Q[r F(s/r)].
2. r F(s/r) is convex in r, because F is a supremum of functions (P - s Q)+, each of which is jointly homogeneous. So the worst choice has
   two outcomes, at both ends. With w = s/r, the worst curve is

    (B F)(s) = sup { chord of F between w and w e^eps, at s : s e^-eps <= w <= s }

3. By backward induction, B^n (1 - s)+ is the worst curve of n choices. Dong, Durfee, Rogers 2020, arXiv:1909.13830, give the two-point
   family, and show that no member is worst. Each member is a choice between two candidates, so the supremum is approached.

The computation of B F on a grid in which eps is m steps.

1. Let F be linear between the points of the grid. On a cell of w, F is linear at w and at w e^eps. So the chord at s is
   c1 - c2 w - c0 s / w, with c0, c2 >= 0 because F is convex. It is largest at w^2 = s c0 / c2.
2. At a point of the grid the slope in w increases, so the maximum is not at a point, except at the end w = s, where the value is F(s).
3. A cell has the maximum inside for s in a range of two grid steps. So four candidates s for each cell, one more than needed, find every
   maximum.
4. Chords between the points of the grid lie above F, so the result is an upper bound, with an error of second order in the step. If w is
   restricted to the grid, the result is the curve of some actual choices, and so a lower bound.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from dpcli.numerics.arrays import Array, IndexArray, np
from dpcli.numerics.work import spend  # counts work, and refuses a question that takes too much

ROUNDING = 1e-15  # relative rounding error of one step of the recursion, before it is magnified (soundness)
LEAST_HEIGHT = 1e-300  # least upper bound where a curve may be above 0, so that it does not underflow to 0 (soundness)
CANDIDATES = 4  # number of points s that are tried for each cell (item 3)


class ChoiceCurve(NamedTuple):
    """Bounds on the worst curve h(e^x) at x = 0, spacing, 2 spacing, .... Some choices reach `lower`, and no choices exceed `upper`."""

    spacing: float
    lower: Array
    upper: Array


class _Cells(NamedTuple):
    """Cells of w in which a chord may be largest. The grid of w begins m points before x = 0, where that of s begins.

    cell: indices of the cells in the grid of w. ratio: s over the square of the best w, c2 / c0. first: index of the first s, among x = 0,
    spacing, ..., at which the best w may lie in the cell.
    """

    cell: IndexArray
    ratio: Array
    first: IndexArray


def choice_curve(epsilon: float, count: int, steps: int) -> ChoiceCurve:
    """Return bounds on the worst curve of `count` choices of range `epsilon`. count * epsilon is at most `hockey_stick.FURTHEST`.

    steps: number of grid steps for each epsilon. Both bounds include rounding: the difference of nearly equal slopes has a relative error
    of about 1e-16 / spacing^2.
    """
    spend(CANDIDATES * count * count * steps)  # count^2 steps / 2 points in all, each with CANDIDATES candidates of about 400 ns
    spacing = epsilon / steps
    upper = lower = np.zeros(1)
    for _ in range(count):
        upper, lower = _one_more(upper, lower, epsilon, steps)
    error = count * ROUNDING * (1.0 + 1.0 / (spacing * spacing))  # the difference of slopes magnifies the rounding
    return ChoiceCurve(spacing, np.maximum(lower * (1.0 - error), 0.0), np.minimum(upper * (1.0 + error), 1.0))


def _one_more(upper: Array, lower: Array, epsilon: float, m: int) -> tuple[Array, Array]:
    """Return B applied to both curves, on a grid with m more points. epsilon is m steps of the grid.

    The curves before and after begin at x = 0. x and s are the points from -epsilon on. Index i of a curve is index i + m of s.
    """
    length = len(upper) + m
    spacing = epsilon / m
    x: Array = spacing * np.arange(-m, length + m, dtype=float)
    s: Array = np.exp(x)
    high, low = _extend(upper, x, s, m), _extend(lower, x, s, m)
    cells = _cells(high, x, s, epsilon, m, length)
    new_upper, new_lower = high[m : m + length].copy(), low[m : m + length].copy()
    for ahead in range(CANDIDATES):
        target = cells.first + ahead
        # The candidate s is on the grid, and s e^-eps <= w <= s for some w of the cell.
        inside = (target >= 0) & (target < length) & (target >= cells.cell - m) & (target <= cells.cell + 1)
        cell, at = cells.cell[inside], target[inside]
        w = np.clip(np.sqrt(s[at + m] / cells.ratio[inside]), s[cell], s[cell + 1])
        share = (w - s[cell]) / (s[cell + 1] - s[cell])
        near, far = _between(high, cell, share), _between(high, cell + m, share)
        np.maximum.at(new_upper, at, _chord(near, far, s[at + m] / w, epsilon))
        for end in (cell, cell + 1):  # for the lower bound, w is an end of the cell
            is_between = (at + m > end) & (at < end)
            k, p = end[is_between], at[is_between]
            np.maximum.at(new_lower, p, _chord(low[k], low[k + m], s[p + m] / s[k], epsilon))
    new_upper[: length - 1] = np.maximum(new_upper[: length - 1], LEAST_HEIGHT)
    new_upper[-1] = new_lower[-1] = 0.0  # this is the largest possible loss
    return new_upper, new_lower


def _cells(high: Array, x: Array, s: Array, epsilon: float, m: int, length: int) -> _Cells:
    """Return the cells in which some chord is largest, among those whose chords reach a point of the longer grid."""
    slope = np.diff(high) / np.diff(s)
    intercept = high[:-1] - slope * s[:-1]
    number = length - 1
    # Up to a common factor, c2 is e^eps times the first difference and c0 the second one: of the curve's lines in a cell and m cells on.
    slope_difference = slope[m : m + number] - slope[:number]
    intercept_difference = intercept[:number] - intercept[m : m + number]
    index = np.flatnonzero((slope_difference > 0.0) & (intercept_difference > 0.0))
    with np.errstate(all="ignore"):
        log_ratio = epsilon + np.log(slope_difference[index]) - np.log(intercept_difference[index])
    # The best w is at the lower end of the cell for log s = 2 x + log_ratio.
    first = np.floor((2.0 * x[index] + log_ratio) * m / epsilon).clip(-2.0 * m, length + m).astype(int)
    return _Cells(index, np.exp(log_ratio), first)


def _extend(curve: Array, x: Array, s: Array, m: int) -> Array:
    """Return the curve extended to x = -epsilon by symmetry, F(s) = 1 - s + s F(1/s), and beyond its last point by 0."""
    mirrored = np.zeros(m)  # F(1/s)
    known = min(m, len(curve) - 1)
    mirrored[m - known :] = curve[known:0:-1]
    return np.concatenate((s[:m] * mirrored - np.expm1(x[:m]), curve, np.zeros(len(x) - m - len(curve))))


def _between(curve: Array, cell: IndexArray, share: Array) -> Array:
    """Return the curve by linear interpolation within cells."""
    return np.asarray(curve[cell] + share * (curve[cell + 1] - curve[cell]))


def _chord(near: Array, far: Array, ratio: Array, epsilon: float) -> Array:
    """Return the chord between the heights `near` at w and `far` at w e^eps, at s = w ratio."""
    share = ((ratio - 1.0) / math.expm1(epsilon)).clip(0.0, 1.0)
    return np.asarray((1.0 - share) * near + share * far)

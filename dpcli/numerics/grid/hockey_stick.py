"""Hockey-stick curves on a grid, and pairs of distributions that have these curves.

`symmetric_pair` finds a pair from upper bounds on a curve.

1. Let h(s) = sup(P(S) - s Q(S)) be a curve that is the same in both directions, so that h(s) = 1 - s + s h(1/s).
2. h is convex in s and falls from 1. So it lies below the chords between any upper bounds on it, and below the largest convex function that
   does not exceed these bounds.
3. That function is the curve of a pair with atoms at the points of the grid (Doroshenko et al. 2022, arXiv:2207.04380, connect-the-dots;
   Zhu, Dong, Wang 2022, arXiv:2106.08567, Proposition 7). The pair therefore dominates.
4. The Q-mass of the atom at s is the increase of the slope at s. Its P-mass is s times as much. The value of h at the last point is the
   P-mass of an infinite loss.

`largest_pair` finds a pair that dominates several pairs.

1. With y = e^eps, H(y) = sup_S P(S) - y Q(S) is convex and falls with y. It is linear between the likelihood ratios of its outcomes.
2. The maximum of several such H is convex. Its chords between the ratios of all pairs lie above it and are convex. So they are the H of a
   pair whose outcomes have these ratios (Zhu, Dong, Wang 2022, arXiv:2106.08567, Proposition 8 and Lemma 9).
3. This pair dominates each of the pairs, and therefore any adaptive choice among them (Theorem 10).
4. If every pair is its own mirror image, H(y) = 1 - y + y H(1/y), the maximum is so too. Then the outcomes of positive loss determine it.

`choice_curve` bounds a sequence of choices of bounded range, each of which may depend on the earlier answers.

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
from collections.abc import Sequence
from typing import NamedTuple

from dpcli.base.errors import InternalError, NotRepresentable
from dpcli.base.values import dataclass
from dpcli.numerics.arrays import Array, IndexArray, np
from dpcli.numerics.contour.tilted_closed import TiltedAtoms
from dpcli.numerics.logspace import log_sum
from dpcli.numerics.quadrature import log_bernoulli
from dpcli.numerics.tails import Tails, atom_tails
from dpcli.numerics.work import hold, spend

FURTHEST = 300.0  # largest loss whose exponential can be squared here without overflow
INFLATED = 1e-9  # relative increase of every bound, which far exceeds the rounding of slopes, masses and their sums
SLOPE = 1e-15  # rounding error of a slope, relative to height over width
FAR_OR_NEAR = "its losses are too near each other, or too large, for a grid"
COLUMNS = 1 << 18  # most atoms times orders that are computed at a time
RAISED = 1e-11  # relative increase of the largest curve, which covers rounding
MOST_NODES = 1000  # most ratios above 1 of the largest pair; leaving others out keeps the bound, and costs about 1e-4 of epsilon
LOG_LEAST = -650.0  # where the log tail under P is below this, all larger losses count as the largest loss
LEAST = 1e-300  # least height of a curve that may be above 0
ROUNDING = 1e-15  # relative rounding error of one step of the recursion, before it is magnified
CANDIDATES = 4  # number of points s that are tried for each cell
FURTHEST_TOTAL = 300.0  # largest total of the ranges; the square of e^x does not overflow


@dataclass(frozen=True, slots=True, eq=False)
class ChordPair:
    """A pair with atoms at increasing losses. log_p: logarithms of their P-masses.

    log_infinite: logarithm of the P-mass at loss +inf, which is also the Q-mass at loss -inf.
    """

    losses: Array
    log_p: Array
    log_infinite: float

    @property
    def log_q(self) -> Array:
        """The logarithms of the atoms' Q-masses."""
        return self.log_p - self.losses

    def cgf(self, z: Array) -> Array:
        """Return K(z) at real z > 0, as a sum of non-negative terms. It is inf if P has mass at loss +inf."""
        if self.log_infinite > -math.inf:
            return np.full(len(z), math.inf)
        blocks = []
        rows = max(COLUMNS // len(self.losses), 1)
        hold(float(len(z)) * len(self.losses))
        for begin in range(0, len(z), rows):
            part = z[begin : begin + rows, None]
            blocks.append(np.logaddexp(0.0, log_sum(log_bernoulli(part, self.losses[None, :]) + self.log_q)))
        return np.concatenate(blocks) * (1.0 + 1e-12) if blocks else np.zeros(0)

    def tilted(self, t: float) -> TiltedAtoms:
        """Return the loss under the tilt t."""
        return TiltedAtoms(self.log_p + t * self.losses, self.losses, float(self.cgf(np.array([t]))[0]))

    def tails(self, at: Array) -> Tails:
        """Return the tails of the loss (`numerics.tails`)."""
        atoms = atom_tails(at, self.losses, self.log_p, self.log_q)
        p_above = np.minimum(np.logaddexp(atoms.p_above, self.log_infinite), 0.0)
        return Tails(p_above, atoms.p_below, atoms.q_above, np.minimum(np.logaddexp(atoms.q_below, self.log_infinite), 0.0))


def symmetric_pair(spacing: float, heights: Array) -> ChordPair:
    """Return the pair whose curve is the largest convex function that does not exceed `heights`.

    heights: upper bounds on h(e^x) at x = 0, spacing, 2 spacing, .... The last height also bounds h beyond the last point. Below x = 0 the
    curve follows by symmetry.

    Raises NotRepresentable if the points are too near each other or too far out for floating point, and InternalError if the masses add
    up to more than 1, as they do for heights that are no upper bounds.
    """
    spend(20.0 * len(heights))
    x: Array = spacing * np.arange(len(heights), dtype=float) * (1.0 + 1e-15)  # not below the exact points, because h falls
    beyond = np.expm1(x)  # s - 1, which distinguishes points near 1 that are equal as s
    if not (np.diff(beyond) > 0.0).all() or not math.isfinite(float(beyond[-1])):
        raise NotRepresentable(FAR_OR_NEAR)
    bounds = np.minimum.accumulate(np.minimum(np.asarray(heights, dtype=float) * (1.0 + INFLATED), 1.0))  # h falls
    bounds[0] = _at_one(x, bounds)
    vertices = _hull(beyond, bounds)
    x, beyond, bounds = x[vertices], beyond[vertices], bounds[vertices]
    slopes = np.append(np.diff(bounds) / np.diff(beyond), 0.0)
    mass_q = np.diff(slopes).clip(min=0.0)  # at x[1:]
    mass_p = mass_q * np.exp(x[1:])
    infinite = float(bounds[-1])
    middle = 1.0 - math.fsum(mass_q.tolist()) - math.fsum(mass_p.tolist()) - infinite
    if not middle > -INFLATED:
        if middle > -INFLATED - SLOPE * float(bounds[0]) / float(beyond[1]):  # rounding of the height at 1 exceeds the first step
            raise NotRepresentable(FAR_OR_NEAR)
        raise InternalError(f"the atoms of a pair weigh {1.0 - middle!r}: this is a bug in dpcli, and no number")
    losses = np.concatenate((-x[:0:-1], [0.0], x[1:]))
    with np.errstate(divide="ignore"):
        log_p = np.log(np.concatenate((mass_q[::-1], [max(middle, 0.0)], mass_p)))
        log_infinite = math.log(infinite) if infinite > 0.0 else -math.inf
    positive = log_p > -math.inf
    return ChordPair(losses[positive], log_p[positive], log_infinite)


def _at_one(x: Array, heights: Array) -> float:
    """Return the hull at s = 1: the least of the chords between e^-x and e^x, whose height at 1 is h + (1 - h) tanh(x/2) by symmetry.

    The symmetry maps lines to lines, so the hull is symmetric too. Its edge across s = 1, if there is one, ends at such a pair of points.
    With this height at 1, the hull of the right half is half of the whole hull, and its masses at losses other than 0 add up to at most 1.
    """
    return float((heights + (1.0 - heights) * np.tanh(0.5 * x)).min())


def _hull(places: Array, heights: Array) -> Array:
    """Return the indices of the vertices of the largest convex function that does not exceed `heights`. The first and last are included."""
    vertices: list[int] = []
    at, high = places.tolist(), heights.tolist()
    for k in range(len(at)):
        while len(vertices) > 1:
            i, j = vertices[-2], vertices[-1]
            if (high[j] - high[i]) / (at[j] - at[i]) < (high[k] - high[j]) / (at[k] - at[j]):
                break
            vertices.pop()
        vertices.append(k)
    return np.array(vertices)


def largest_pair(unit: float, pairs: Sequence[tuple[Array, Array]]) -> tuple[Array, Array]:
    """Return log Q and log dP/dQ of the outcomes of a pair that dominates all of `pairs`.

    At the ratios of the pairs its H(y) is at most 1e-11 too large, if there are at most MOST_NODES ratios above 1.

    Args:
        unit: the unit of the losses, in nats.
        pairs: for each pair the losses of its outcomes in units, and their log masses under P. The losses are increasing whole numbers,
            symmetric about 0. If the masses add up to less than 1, the rest is an outcome of loss 0.
    """
    nodes = np.unique(np.concatenate([[0], *(losses[losses > 0] for losses, _ in pairs)]))
    tails = np.max([_log_tail(nodes, losses, log_p) for losses, log_p in pairs], axis=0)
    last = max(int(np.searchsorted(-tails, -LOG_LEAST)) - 1, 0)
    kept, log_beyond = nodes[: last + 1], float(tails[last])
    fades, falls = _fades_and_falls(kept, unit)
    target = np.max([_curve(kept, losses, log_p, fades, falls) for losses, log_p in pairs], axis=0) * (1.0 + RAISED)
    some = np.append(np.arange(0, last, math.ceil(len(kept) / MOST_NODES)), last)
    kept, target = kept[some], target[some]
    fades, falls = _fades_and_falls(kept, unit)
    gap = float(nodes[-1] - kept[-1]) * unit
    beyond = math.exp(log_beyond) / -math.expm1(-gap) * (1.0 + 1e-9) if gap > 0.0 and log_beyond > -math.inf else 0.0
    mass = np.append(_masses(target.tolist(), fades, falls, beyond, gap), beyond)
    losses = np.append(kept[1:], nodes[-1]) * unit
    losses, log_p = losses[mass > 0.0], np.log(mass[mass > 0.0])
    return np.concatenate((log_p[::-1], log_p - losses)), np.concatenate((-losses[::-1], losses))


def _fades_and_falls(nodes: Array, unit: float) -> tuple[list[float], list[float]]:
    """Return e^-d and 1 - e^-d for the distances d of neighbouring nodes, in nats. nodes: in units."""
    distances = np.diff(nodes) * unit
    return np.exp(-distances).tolist(), (-np.expm1(-distances)).tolist()


def _log_tail(nodes: Array, losses: Array, log_p: Array) -> Array:
    """Return log P(L > node) for each node."""
    above = np.append(np.logaddexp.accumulate(log_p[::-1])[::-1], -np.inf)
    return np.asarray(above[np.searchsorted(losses, nodes, side="right")])


def _curve(nodes: Array, losses: Array, log_p: Array, fades: list[float], falls: list[float]) -> list[float]:
    """Return upper bounds on H at each node, as sums of non-negative terms from the last node down.

    fades, falls: results of `_fades_and_falls`.
    """
    beyond = math.exp(float(_log_tail(nodes[-1:], losses, log_p)[0]))
    mass = np.zeros(len(nodes))
    inside = (losses >= nodes[0]) & (losses <= nodes[-1])
    mass[np.searchsorted(nodes, losses[inside])] = np.exp(log_p[inside])
    heights, weight = [beyond], beyond
    for i in range(len(nodes) - 2, -1, -1):
        weight += float(mass[i + 1])  # the ratio of the next node times the Q-mass beyond this node
        heights.append(heights[-1] + weight * falls[i])
        weight *= fades[i]
    return heights[::-1]


def _masses(target: list[float], fades: list[float], falls: list[float], beyond: float, gap: float) -> list[float]:
    """Return the P-mass at every node but the first: the least mass that raises H to `target`, from the last node down.

    beyond, gap: P-mass of the largest loss, and the distance of that loss from the last node.
    """
    masses: list[float] = []
    height, weight = beyond * -math.expm1(-gap), beyond * math.exp(-gap)
    for i in range(len(target) - 2, -1, -1):
        mass = max((target[i] - height) / falls[i] - weight, 0.0)
        masses.append(mass)
        weight += mass
        height += weight * falls[i]
        weight *= fades[i]
    return masses[::-1]


class ChoiceCurve(NamedTuple):
    """Bounds on the worst curve h(e^x) at x = 0, spacing, 2 spacing, .... Some choices reach `lower`, and no choices exceed `upper`."""

    spacing: float
    lower: Array
    upper: Array


class _Cells(NamedTuple):
    """Cells of w in which a chord may be largest.

    cell: indices of the cells. ratio: s over the square of the best w. first: index of the first s, among x = 0, spacing, ..., at which the
    best w may lie in the cell.
    """

    cell: IndexArray
    ratio: Array
    first: IndexArray


def choice_curve(epsilon: float, count: int, steps: int) -> ChoiceCurve:
    """Return bounds on the worst curve of `count` choices of range `epsilon`. count * epsilon is at most FURTHEST_TOTAL.

    steps: number of grid steps for each epsilon. Both bounds include rounding: the difference of nearly equal slopes has a relative error
    of about 1e-16 / spacing^2.
    """
    spend(CANDIDATES * count * count * steps)  # half as many points, at about 400 ns each
    spacing = epsilon / steps
    upper = lower = np.zeros(1)
    for _ in range(count):
        upper, lower = _one_more(upper, lower, epsilon, steps)
    error = count * ROUNDING * (1.0 + 1.0 / (spacing * spacing))
    return ChoiceCurve(spacing, np.maximum(lower * (1.0 - error), 0.0), np.minimum(upper * (1.0 + error), 1.0))


def _one_more(upper: Array, lower: Array, epsilon: float, m: int) -> tuple[Array, Array]:
    """Return B applied to both curves, on a grid with m more points."""
    length = len(upper) + m
    spacing = epsilon / m
    x: Array = spacing * np.arange(-m, length + m, dtype=float)
    s: Array = np.exp(x)
    high, low = _extend(upper, x, s, m), _extend(lower, x, s, m)
    cells = _cells(high, x, s, epsilon, m, length)
    new_upper, new_lower = high[m : m + length].copy(), low[m : m + length].copy()
    for ahead in range(CANDIDATES):
        target = cells.first + ahead
        inside = (target >= 0) & (target < length) & (target >= cells.cell - m) & (target <= cells.cell + 1)
        cell, at = cells.cell[inside], target[inside]
        w = np.clip(np.sqrt(s[at + m] / cells.ratio[inside]), s[cell], s[cell + 1])
        share = (w - s[cell]) / (s[cell + 1] - s[cell])
        near, far = _between(high, cell, share), _between(high, cell + m, share)
        np.maximum.at(new_upper, at, _chord(near, far, s[at + m] / w, epsilon))
        for end in (cell, cell + 1):
            apart = (at + m > end) & (at < end)
            k, p = end[apart], at[apart]
            np.maximum.at(new_lower, p, _chord(low[k], low[k + m], s[p + m] / s[k], epsilon))
    new_upper[: length - 1] = np.maximum(new_upper[: length - 1], LEAST)
    new_upper[-1] = new_lower[-1] = 0.0  # this is the largest possible loss
    return new_upper, new_lower


def _cells(high: Array, x: Array, s: Array, epsilon: float, m: int, length: int) -> _Cells:
    """Return the cells in which some chord is largest, among those whose chords reach a point of the longer grid."""
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


def _extend(curve: Array, x: Array, s: Array, m: int) -> Array:
    """Return the curve extended to x = -epsilon by symmetry, and beyond its last point by 0."""
    mirrored = np.zeros(m)
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

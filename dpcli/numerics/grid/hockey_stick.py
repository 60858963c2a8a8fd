"""Hockey-stick curves on a grid, and the pairs of distributions that have them.

Chords (`symmetric_pair`). Let h(s) = sup(P(S) - s Q(S)) be the curve of whatever is bounded, the same in both directions, so that h(s) = 1
- s + s h(1/s). It is convex in s and falls from 1; so it lies below the chords between any upper bounds on it, and below the largest convex
function that does not exceed these. That function is the curve of a pair with atoms at the points of the grid (Doroshenko et al. 2022,
arXiv:2207.04380, connect-the-dots; Zhu, Dong, Wang 2022, arXiv:2106.08567, Proposition 7), which therefore dominates: Q has at s the growth
of the slope there, P has s times as much, and what is left of h at the last point is P's mass at +inf.

The largest of several curves (`largest_pair`). With y = e^eps, H(y) = sup_S P(S) - y Q(S) is convex and falling in y, linear between the
likelihood ratios of its outcomes. The largest of several is convex; its chords between the ratios of all of them lie above it and are
convex, so they are the H of a pair (Zhu, Dong, Wang 2022, arXiv:2106.08567, Proposition 8 and Lemma 9), whose outcomes have these ratios
and which dominates each and, so, any adaptive choice among them (Theorem 10). Pairs that are their own mirror image, H(y) = 1 - y + y
H(1/y), have a largest one that is: outcomes of positive loss say all.

Choices of bounded range, each made from the answers of those before (`choice_curve`). Let F be the curve h(s) = sup(P(S) - s Q(S)) of what
comes after one choice, the worst case over all that may come. Whatever the choice, its likelihood ratio r lies within [a, a e^eps] for some
a in [e^-eps, 1], and the curve of both is E_Q[r F(s/r)]. As r F(s/r) is convex in r (F is a supremum of functions (P - s Q)+, each of which
is jointly homogeneous), the worst choice has two outcomes, at both ends. Written with w = s/r,

    (B F)(s) = sup { chord of F between w and w e^eps, at s : s e^-eps <= w <= s }

so that B^n (1 - s)+ is the worst curve of n choices (backward induction; Dong, Durfee, Rogers 2020, arXiv:1909.13830, have the two-point
family and that no member is worst). Each member is a choice between two candidates, so the supremum is approached.

On a grid of which eps is m steps: let F be linear between the points. On a cell of w, where F is linear at w and at w e^eps, the chord at s
is c1 - c2 w - c0 s / w with c0, c2 >= 0, since F is convex: its largest value has w^2 = s c0 / c2, in closed form. At a point of the grid
the slope jumps up in w, so no largest value is hidden there but at the end w = s, where it is F(s). A cell has its largest value inside for
s between its ends' own, a stretch of two steps: four candidates for each cell find all, and one of them is to spare. F between the points
of the grid is taken from chords, which lie above: an upper bound, of second order in the step. The same with w on the grid only is what
some choices have: a lower bound.
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

FURTHEST = 300.0  # largest loss whose exponential is squared here
INFLATED = 1e-9  # relative, of every bound: many times the rounding of slopes, masses and their sums
SLOPE = 1e-15  # rounding of a slope, relative to what is high over what is wide
FAR_OR_NEAR = "its losses are too near each other, or too large, for a grid"
COLUMNS = 1 << 18  # of atoms times orders at once
RAISED = 1e-11
MOST_NODES = 1000  # ratios above 1 that the pair has: of more, chords leave some out, which is above them still: 1e-4 of an epsilon
LOG_LEAST = -650.0  # of a tail under P that is told apart; what is beyond counts at the largest loss of all
LEAST = 1e-300  # of a height that may be more than 0
ROUNDING = 1e-15  # of one step of the recursion, where it is not magnified
CANDIDATES = 4
FURTHEST_TOTAL = 300.0  # total of the ranges: squares of e^x are numbers


@dataclass(frozen=True, slots=True, eq=False)
class ChordPair:
    """Atoms of P and Q at increasing losses; P has e^{log_infinite} at +inf, and Q as much at -inf."""

    losses: Array
    log_p: Array
    log_infinite: float

    @property
    def log_q(self) -> Array:
        return self.log_p - self.losses

    def cgf(self, z: Array) -> Array:
        """K(z) at real z > 0, as a sum of terms >= 0; inf where P has mass at +inf."""
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
        return TiltedAtoms(self.log_p + t * self.losses, self.losses, float(self.cgf(np.array([t]))[0]))

    def tails(self, at: Array) -> Tails:
        atoms = atom_tails(at, self.losses, self.log_p, self.log_q)
        p_above = np.minimum(np.logaddexp(atoms.p_above, self.log_infinite), 0.0)
        return Tails(p_above, atoms.p_below, atoms.q_above, np.minimum(np.logaddexp(atoms.q_below, self.log_infinite), 0.0))


def symmetric_pair(spacing: float, heights: Array) -> ChordPair:
    """The pair whose curve is the largest convex function up to `heights`, upper bounds on h(e^x) at x = 0, spacing, 2 spacing, ...

    Beyond the last point the last height serves. Below 0 the curve is what the symmetry makes of it.
    """
    spend(20.0 * len(heights))
    x: Array = spacing * np.arange(len(heights), dtype=float) * (1.0 + 1e-15)  # further out: h falls
    beyond = np.expm1(x)  # s - 1, which tells points near 1 apart where s does not
    if not (np.diff(beyond) > 0.0).all() or not math.isfinite(float(beyond[-1])):
        raise NotRepresentable(FAR_OR_NEAR)
    bounds = np.minimum.accumulate(np.minimum(np.asarray(heights, dtype=float) * (1.0 + INFLATED), 1.0))  # h falls
    bounds[0] = _at_one(x, bounds)
    kept = _hull(beyond, bounds)
    x, beyond, bounds = x[kept], beyond[kept], bounds[kept]
    slopes = np.append(np.diff(bounds) / np.diff(beyond), 0.0)
    mass_q = np.diff(slopes).clip(min=0.0)  # at x[1:]
    mass_p = mass_q * np.exp(x[1:])
    infinite = float(bounds[-1])
    middle = 1.0 - math.fsum(mass_q.tolist()) - math.fsum(mass_p.tolist()) - infinite
    if not middle > -INFLATED:
        if middle > -INFLATED - SLOPE * float(bounds[0]) / float(beyond[1]):  # the height at 1 is rounded more than a step is high
            raise NotRepresentable(FAR_OR_NEAR)
        raise InternalError(f"the atoms of a pair weigh {1.0 - middle!r}: this is a bug in dpcli, and no number")
    losses = np.concatenate((-x[:0:-1], [0.0], x[1:]))
    with np.errstate(divide="ignore"):
        log_p = np.log(np.concatenate((mass_q[::-1], [max(middle, 0.0)], mass_p)))
        log_infinite = math.log(infinite) if infinite > 0.0 else -math.inf
    positive = log_p > -math.inf
    return ChordPair(losses[positive], log_p[positive], log_infinite)


def _at_one(x: Array, heights: Array) -> float:
    """The hull at s = 1: the least of the chords between e^-x and e^x, which the symmetry makes h + (1 - h) tanh(x/2).

    The symmetry turns lines into lines, so the hull has it too, and its edge across s = 1, if there is one, ends at such a pair of points.
    With that height at 1 the hull of the right half is half of the whole: its masses beside 0 add up to at most 1.
    """
    return float((heights + (1.0 - heights) * np.tanh(0.5 * x)).min())


def _hull(places: Array, heights: Array) -> Array:
    """Positions of the vertices of the largest convex function that does not exceed `heights`; first and last are kept."""
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
    """log Q and log dP/dQ of the outcomes of a pair above all of `pairs`, by at most 1e-11 in H(y) at common ratios while these are few.

    Args:
        unit: of the losses, nats.
        pairs: for each the losses of its outcomes in units, whole numbers, increasing and as many above 0 as below, and their log masses
            under P.

    What the masses lack of 1 is an outcome of loss 0.
    """
    nodes = np.unique(np.concatenate([[0], *(losses[losses > 0] for losses, _ in pairs)]))
    tails = np.max([_log_tail(nodes, losses, log_p) for losses, log_p in pairs], axis=0)
    last = max(int(np.searchsorted(-tails, -LOG_LEAST)) - 1, 0)
    kept, log_beyond = nodes[: last + 1], float(tails[last])
    steps = np.diff(kept) * unit
    fades, falls = np.exp(-steps).tolist(), (-np.expm1(-steps)).tolist()
    target = np.max([_curve(kept, losses, log_p, fades, falls) for losses, log_p in pairs], axis=0) * (1.0 + RAISED)
    some = np.append(np.arange(0, last, math.ceil(len(kept) / MOST_NODES)), last)
    kept, target = kept[some], target[some]
    steps = np.diff(kept) * unit
    fades, falls = np.exp(-steps).tolist(), (-np.expm1(-steps)).tolist()
    gap = float(nodes[-1] - kept[-1]) * unit
    beyond = math.exp(log_beyond) / -math.expm1(-gap) * (1.0 + 1e-9) if gap > 0.0 and log_beyond > -math.inf else 0.0
    mass = np.append(_masses(target.tolist(), fades, falls, beyond, gap), beyond)
    losses = np.append(kept[1:], nodes[-1]) * unit
    losses, log_p = losses[mass > 0.0], np.log(mass[mass > 0.0])
    return np.concatenate(((log_p)[::-1], log_p - losses)), np.concatenate((-losses[::-1], losses))


def _log_tail(nodes: Array, losses: Array, log_p: Array) -> Array:
    """log P(L > node)."""
    above = np.append(np.logaddexp.accumulate(log_p[::-1])[::-1], -np.inf)
    return np.asarray(above[np.searchsorted(losses, nodes, side="right")])


def _curve(nodes: Array, losses: Array, log_p: Array, fades: list[float], falls: list[float]) -> list[float]:
    """H at each node, from above: sums of terms that are not negative, from the last node down."""
    beyond = math.exp(float(_log_tail(nodes[-1:], losses, log_p)[0]))
    mass = np.zeros(len(nodes))
    inside = (losses >= nodes[0]) & (losses <= nodes[-1])
    mass[np.searchsorted(nodes, losses[inside])] = np.exp(log_p[inside])
    heights, weight = [beyond], beyond
    for i in range(len(nodes) - 2, -1, -1):
        weight += float(mass[i + 1])  # the next node's ratio times Q beyond this one
        heights.append(heights[-1] + weight * falls[i])
        weight *= fades[i]
    return heights[::-1]


def _masses(target: list[float], fades: list[float], falls: list[float], beyond: float, gap: float) -> list[float]:
    """P at every node but the first: the least that lifts H to `target`, from the last node down."""
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
    """Return the cells, of those whose chords reach a point of the longer grid, in which some chord is the best."""
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

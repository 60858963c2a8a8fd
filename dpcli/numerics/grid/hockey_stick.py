"""Hockey-stick curves on a grid, and pairs of distributions that have these curves.

Some mechanisms are known by bounds on their curve alone, delta as a function of epsilon. Accountants compose pairs of distributions, so a
curve, or the largest of several, is turned into the atoms of one pair that *dominates*: its curve is nowhere below the given ones.

`symmetric_pair` finds a pair from upper bounds on a curve.

1. Let h(s) = sup(P(S) - s Q(S)) be a curve that is the same in both directions, so that h(s) = 1 - s + s h(1/s).
2. h is convex in s and falls from 1. So it lies below the chords between any upper bounds on it, and below the largest convex function that
   does not exceed these bounds.
3. That function is the curve of a pair with atoms at the points of the grid (Doroshenko et al. 2022, arXiv:2207.04380, connect-the-dots;
   Zhu, Dong, Wang 2022, arXiv:2106.08567, Proposition 7). The pair therefore dominates.
4. The Q-mass of the atom at s is the increase of the slope at s. Its P-mass is s times as much. The value of h at the last point is the
   P-mass of an infinite loss.

`largest_pair` finds a pair that dominates several pairs.

1. The curve h of a pair is linear between the likelihood ratios of its outcomes.
2. The maximum of several curves is convex. Its chords between the ratios of all pairs lie above it and are convex. So they are the curve of
   a pair whose outcomes have these ratios (Zhu, Dong, Wang 2022, arXiv:2106.08567, Proposition 8 and Lemma 9).
3. This pair dominates each of the pairs, and therefore any adaptive choice among them (Theorem 10).
4. If every curve is the same in both directions, the maximum is so too. Then the outcomes of positive loss determine the pair.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from dpcli.base.errors import InternalError, NotRepresentable
from dpcli.base.values import dataclass
from dpcli.numerics.arrays import Array, np
from dpcli.numerics.contour.tilted_closed import TiltedAtoms
from dpcli.numerics.logspace import log_sum
from dpcli.numerics.quadrature import log_bernoulli
from dpcli.numerics.tails import Tails, atom_tails
from dpcli.numerics.work import hold, spend  # limits on memory and on work

FAR_OR_NEAR = "its losses are too near each other, or too large, for a grid"
# Soundness.
FURTHEST = 300.0  # largest loss whose exponential can be squared here without overflow
INFLATED = 1e-9  # relative increase of every bound, which far exceeds the rounding of slopes, masses and their sums
RAISED = 1e-11  # relative increase of the largest curve, which covers rounding
CGF_RAISE = 1e-12  # relative increase of a CGF, which covers rounding
ULPS = 1e-15  # relative rounding of a point of the grid
SLOPE = 1e-15  # rounding error of a slope, relative to height over width; it decides which of two exceptions is raised
# Accuracy.
MOST_NODES = 1000  # most ratios above 1 of the largest pair; leaving others out keeps the bound, and costs about 1e-4 of epsilon
LOG_LEAST = -650.0  # where the log tail under P is below this, all larger losses count as the largest loss
# Memory.
COLUMNS = 1 << 18  # most atoms times orders that are computed at a time


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
            # e^{K(z)} - 1 is the sum of Q (r^{z+1} - (z+1) r + z) over the atoms, with r = P/Q.
            part = z[begin : begin + rows, None]
            blocks.append(np.logaddexp(0.0, log_sum(log_bernoulli(part, self.losses[None, :]) + self.log_q)))
        return np.concatenate(blocks) * (1.0 + CGF_RAISE) if blocks else np.zeros(0)

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
    up to more than 1, which happens if the heights are no upper bounds.
    """
    spend(20.0 * len(heights))
    x: Array = spacing * np.arange(len(heights), dtype=float) * (1.0 + ULPS)  # not below the exact points, because h falls
    s_less_one = np.expm1(x)  # which distinguishes points near 1 that are equal as s
    if not (np.diff(s_less_one) > 0.0).all() or not math.isfinite(float(s_less_one[-1])):
        raise NotRepresentable(FAR_OR_NEAR)
    bounds = np.minimum.accumulate(np.minimum(np.asarray(heights, dtype=float) * (1.0 + INFLATED), 1.0))  # h falls
    bounds[0] = _at_one(x, bounds)
    vertices = _hull(s_less_one, bounds)
    x, s_less_one, bounds = x[vertices], s_less_one[vertices], bounds[vertices]
    slopes = np.append(np.diff(bounds) / np.diff(s_less_one), 0.0)  # beyond the last point the curve is constant
    mass_q = np.diff(slopes).clip(min=0.0)  # at x[1:]
    mass_p = mass_q * np.exp(x[1:])
    infinite = float(bounds[-1])
    middle = 1.0 - math.fsum(mass_q.tolist()) - math.fsum(mass_p.tolist()) - infinite  # the mass at loss 0
    if not middle > -INFLATED:
        # Rounding explains so small a negative mass if the first points are very near each other.
        if middle > -INFLATED - SLOPE * float(bounds[0]) / float(s_less_one[1]):
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


def _hull(points: Array, heights: Array) -> Array:
    """Return the indices of the vertices of the largest convex function that does not exceed `heights`. The first and last are included."""
    vertices: list[int] = []
    x, y = points.tolist(), heights.tolist()
    for k in range(len(x)):
        while len(vertices) > 1:
            i, j = vertices[-2], vertices[-1]
            if (y[j] - y[i]) / (x[j] - x[i]) < (y[k] - y[j]) / (x[k] - x[j]):
                break
            vertices.pop()  # the last vertex is not below the line from the one before it to the new point
        vertices.append(k)
    return np.array(vertices)


def largest_pair(unit: float, pairs: Sequence[tuple[Array, Array]]) -> tuple[Array, Array]:
    """Return log Q and log dP/dQ of the outcomes of a pair that dominates all of `pairs`.

    At the ratios of the pairs its curve is at most RAISED too high, relative, if there are at most MOST_NODES ratios above 1.

    Args:
        unit: the unit of the losses, in nats.
        pairs: for each pair the losses of its outcomes in units, and their log masses under P. The losses are increasing whole numbers,
            symmetric about 0. If the masses add up to less than 1, the rest is an outcome of loss 0.
    """
    nodes = np.unique(np.concatenate([[0], *(losses[losses > 0] for losses, _ in pairs)]))
    log_tails = np.max([_log_tail(nodes, losses, log_p) for losses, log_p in pairs], axis=0)
    last = max(int(np.searchsorted(-log_tails, -LOG_LEAST)) - 1, 0)
    kept, log_beyond = nodes[: last + 1], float(log_tails[last])
    fades, falls = _fades_and_falls(kept, unit)
    target = np.max([_curve(kept, losses, log_p, fades, falls) for losses, log_p in pairs], axis=0) * (1.0 + RAISED)
    # Of many nodes, only every second, third, ... one is used, and the last one.
    some = np.append(np.arange(0, last, math.ceil(len(kept) / MOST_NODES)), last)
    kept, target = kept[some], target[some]
    fades, falls = _fades_and_falls(kept, unit)
    # All mass beyond the last node is put at the largest loss. It is enough to give the curve the height e^log_beyond at the last node.
    gap = float(nodes[-1] - kept[-1]) * unit
    beyond = math.exp(log_beyond) / -math.expm1(-gap) * (1.0 + INFLATED) if gap > 0.0 and log_beyond > -math.inf else 0.0
    mass = np.append(_masses(target.tolist(), fades, falls, beyond, gap), beyond)
    losses = np.append(kept[1:], nodes[-1]) * unit
    losses, log_p = losses[mass > 0.0], np.log(mass[mass > 0.0])
    # The outcomes of positive loss determine the others: their mirror images have the P-masses as Q-masses. The mass that is left would
    # have loss 0, and is not among them.
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
    """Return upper bounds on h at each node, as sums of non-negative terms from the last node down.

    nodes, losses: in units. fades, falls: results of `_fades_and_falls` for the nodes. At the last node, h is at most the mass beyond it.
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
    """Return the P-mass at every node but the first: the least mass that raises h to `target`, from the last node down.

    beyond, gap: P-mass of the largest loss, and the distance of that loss from the last node.

    It inverts `_curve`, in whose recursion `weight` is the ratio of a node times the Q-mass beyond it.
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

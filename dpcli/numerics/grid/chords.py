"""A pair of distributions from upper bounds on its hockey-stick curve at points of a grid.

Let h(s) = sup(P(S) - s Q(S)) be the curve of whatever is bounded, the same in both directions, so that h(s) = 1 - s + s h(1/s). It is
convex in s and falls from 1; so it lies below the chords between any upper bounds on it, and below the largest convex function that
does not exceed these. That function is the curve of a pair with atoms at the points of the grid (Doroshenko et al. 2022,
arXiv:2207.04380, connect-the-dots; Zhu, Dong, Wang 2022, arXiv:2106.08567, Proposition 7), which therefore dominates: Q has at s the
growth of the slope there, P has s times as much, and what is left of h at the last point is P's mass at +inf.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpcli.base.errors import InternalError, NotRepresentable
from dpcli.numerics.arrays import Array, np
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


@dataclass(frozen=True, slots=True, eq=False)
class ChordPair:
    """Atoms of P and Q at increasing losses; P has e^{log_infinite} at +inf, and Q as much at -inf."""

    losses: Array
    log_p: Array
    log_infinite: float

    @property
    def log_q(self) -> Array:
        """Q's masses: e^-loss times P's."""
        return self.log_p - self.losses

    def cgf(self, z: Array) -> Array:
        """K(z) at real z > 0, as a sum of terms >= 0; inf where P has mass at +inf."""
        if self.log_infinite > -math.inf:
            return np.full(len(z), math.inf)
        found = []
        rows = max(COLUMNS // len(self.losses), 1)
        hold(float(len(z)) * len(self.losses))
        for begin in range(0, len(z), rows):
            part = z[begin : begin + rows, None]
            found.append(np.logaddexp(0.0, log_sum(log_bernoulli(part, self.losses[None, :]) + self.log_q)))
        return np.concatenate(found) * (1.0 + 1e-12) if found else np.zeros(0)

    def tilted(self, t: float) -> TiltedAtoms:
        """The atoms under e^{t L - K(t)} dP; for pairs without infinite losses."""
        return TiltedAtoms(self.log_p + t * self.losses, self.losses, float(self.cgf(np.array([t]))[0]))

    def tails(self, at: Array) -> Tails:
        """Tails of the atoms, those at either infinity added."""
        found = atom_tails(at, self.losses, self.log_p, self.log_q)
        p_above = np.minimum(np.logaddexp(found.p_above, self.log_infinite), 0.0)
        return Tails(p_above, found.p_below, found.q_above, np.minimum(np.logaddexp(found.q_below, self.log_infinite), 0.0))


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
    here = log_p > -math.inf
    return ChordPair(losses[here], log_p[here], log_infinite)


def _at_one(x: Array, heights: Array) -> float:
    """The hull at s = 1: the least of the chords between e^-x and e^x, which the symmetry makes h + (1 - h) tanh(x/2).

    The symmetry turns lines into lines, so the hull has it too, and its edge across s = 1, if there is one, ends at such a pair of points.
    With that height at 1 the hull of the right half is half of the whole: its masses beside 0 add up to at most 1.
    """
    return float((heights + (1.0 - heights) * np.tanh(0.5 * x)).min())


def _hull(places: Array, heights: Array) -> Array:
    """Positions of the vertices of the largest convex function that does not exceed `heights`; first and last are kept."""
    found: list[int] = []
    at, high = places.tolist(), heights.tolist()
    for k in range(len(at)):
        while len(found) > 1:
            i, j = found[-2], found[-1]
            if (high[j] - high[i]) / (at[j] - at[i]) < (high[k] - high[j]) / (at[k] - at[j]):
                break
            found.pop()
        found.append(k)
    return np.array(found)

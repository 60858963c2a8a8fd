"""A dominating pair by its outcomes: atoms, and pieces on which the density is exponential in the loss; and what sampling makes of it.

On a Poisson sample of rate q a loss g becomes log m(g), m = 1 - q + q e^g, or minus that: atoms stay atoms, and pieces stay pieces. So the
CGF is a sum over the atoms and an integral over each piece of a function that is analytic where |Im g| <= pi / 2.

* Quadrature. Gauss and Legendre's rule with K = POINTS points on a panel of half-length d errs by at most 8 d F s^-2K / (1 - 1/s), where F
  is the supremum of the modulus on the ellipse of half axes d (s +- 1/s) / 2 (Trefethen 2013, Theorem 19.3). With s = 4 and d <= WIDEST it
  stays where |Im g| <= pi / 2. There |m(g)| >= m(Re g) / sqrt 2, so that the derivative of the integrand's logarithm in g is at most
  A = |slope| + sqrt 2 (order + |y| + 1) max m'/m; the panels have d A <= RISE = 36. From the middle of a panel to its ellipse the integrand
  rises by e^{2.2 RISE} at most, and to its ends it falls by e^RISE at most: relative to the integral of the modulus, the error is below
  4 e^{3.2 RISE} 4^-128 < e^-60.
* Decay. Let p be the density of the loss under the tilted measure. For any step function 0 <= rho <= p,
  |phi(y)| <= 1 - INT rho + Var(rho) / |y|, which falls in |y|: integrate rho e^{iyL} by parts, and bound the rest by its mass. On a piece
  log p is monotone on both sides of one place at most, where m'/m = (1 - slope) / (power + 1): its lesser value at the two ends of a cell
  bounds it there. Capping rho at a level gives one bound for each, of which the least counts; atoms only keep the mass that they have.
"""

from __future__ import annotations

import functools
import math

from dpcli.base.values import dataclass
from dpcli.numerics.arrays import Array, ComplexArray, np
from dpcli.numerics.contour.tilted_closed import TiltedAtoms
from dpcli.numerics.logspace import log_sum
from dpcli.numerics.quadrature import log_bernoulli
from dpcli.numerics.work import hold, spend

POINTS = 64
RISE, WIDEST = 36.0, 0.8
MOST = 1 << 14  # nodes of a CGF; beyond, a bound
CELLS, LEVELS = 256, 24  # of the step functions
FAR = 30.0  # loss beyond which e^g is no longer taken less 1


@dataclass(frozen=True, slots=True)
class Piece:
    """The base measure's density e^{log_density + slope g} at low <= g <= high, where the ratio is r = m(g)^sign.

    The base is Q where sign is 1, and P where it is -1: then Q has m times as much.
    """

    low: float
    high: float
    log_density: float
    slope: float
    rate: float = 1.0
    sign: float = 1.0

    def count(self, order: float, y: float) -> float:
        """Number of panels for r^order e^{i y log r}."""
        steepest = float(self._share(np.array([self.high + 2.2 * WIDEST]))[0])
        slope = abs(self.slope) + math.sqrt(2.0) * (order + y + 1.0) * steepest
        return max((self.high - self.low) / (2.0 * WIDEST), (self.high - self.low) * slope / (2.0 * RISE))

    def nodes(self, order: float, y: float) -> tuple[Array, Array]:
        """log Q with the rule's weights, and log r, at its nodes."""
        panels = self.count(order, y)
        hold(POINTS * (panels + 1.0))
        at, weights = _legendre()
        edges = np.linspace(self.low, self.high, math.ceil(panels) + 1)
        half = 0.5 * (edges[1] - edges[0])
        g = (0.5 * (edges[1:] + edges[:-1])[:, None] + half * at).ravel()
        log_m = log_mixed(self.rate, g)
        base = self.log_density + self.slope * g + np.tile(np.log(weights * half), len(edges) - 1)
        return (base if self.sign > 0.0 else base + log_m), self.sign * log_m

    def cells(self, t: float, cumulant: float) -> tuple[Array, Array]:
        """Lower bounds on the tilted density of the loss on cells of it, and on their lengths."""
        power = t + 1.0 if self.sign > 0.0 else -t
        g = np.linspace(self.low, self.high, CELLS + 1)
        turn = (1.0 - self.slope) / (power + 1.0) if power != -1.0 else math.nan
        if self.rate < 1.0 and 0.0 < turn < 1.0:
            place = math.log(turn / (1.0 - turn)) + math.log1p(-self.rate) - math.log(self.rate)
            if self.low < place < self.high:
                g = np.sort(np.append(g, place))
        log_m = log_mixed(self.rate, g)
        log_p = self.log_density + self.slope * g + power * log_m - np.log(self._share(g)) - cumulant
        rounding = 1e-15 * np.abs(log_m[1:] + log_m[:-1])
        return np.exp(np.minimum(log_p[1:], log_p[:-1])), np.maximum(np.diff(log_m) - rounding, 0.0)

    def _share(self, g: Array) -> Array:
        """m'/m = q e^g / m, which rises."""
        return np.exp(math.log(self.rate) + g - log_mixed(self.rate, g))

    def sampled(self, rate: float, sign: float) -> Piece:
        """The piece of the mixture's loss, in the one direction or the other."""
        if sign > 0.0:
            return Piece(self.low, self.high, self.log_density, self.slope, rate)
        return Piece(-self.high, -self.low, self.log_density, -(self.slope + 1.0), rate, -1.0)


def log_mixed(rate: float, g: Array) -> Array:
    """log(1 - q + q e^g), with all its digits near g = 0; g itself where q is 1."""
    if rate == 1.0:
        return g
    near = np.log1p(rate * np.expm1(np.minimum(g, FAR)))
    return np.where(g > FAR, np.logaddexp(math.log1p(-rate), math.log(rate) + g), near)


@functools.lru_cache(1)
def _legendre() -> tuple[Array, Array]:
    at, weights = np.polynomial.legendre.leggauss(POINTS)
    return np.asarray(at), np.asarray(weights)


@dataclass(frozen=True, slots=True, eq=False)
class Outcomes:
    """Atoms of probability e^{log_reference} under Q and ratio e^{log_ratio}, and pieces; together they are all of P and Q.

    What is missing of either, if anything, is below 1e-340: less than any delta's rounding, for as many steps as there are.
    """

    log_reference: Array
    log_ratio: Array
    pieces: tuple[Piece, ...] = ()

    @property
    def largest(self) -> float:
        ends = [
            float(part.sign * log_mixed(part.rate, np.array([end]))[0]) for part in self.pieces for end in (part.low, part.high)
        ]
        return max(float(self.log_ratio.max(initial=-math.inf)), *ends) if ends else float(self.log_ratio.max())

    def nodes(self, order: float, y: float = 0.0) -> tuple[Array, Array]:
        """log Q and log r of outcomes that stand for all: sums over them of r^p e^{i v log r}, p <= order, |v| <= y, are the integrals."""
        if not self.pieces:
            return self.log_reference, self.log_ratio
        references, ratios = zip(*(piece.nodes(order, y) for piece in self.pieces), strict=True)
        return np.concatenate([self.log_reference, *references]), np.concatenate([self.log_ratio, *ratios])

    def cgf(self, z: Array) -> Array:
        """log(1 + E_Q[B_{z+1}(r - 1)]) from above: non-negative terms, so that a small K keeps its digits; where the nodes are too many, z
        times the largest loss."""
        result = np.empty(len(z))
        panels = np.ceil(np.array([sum(piece.count(one + 1.0, 0.0) for piece in self.pieces) for one in z.tolist()]))
        many = POINTS * panels > MOST
        result[many] = z[many] * self.largest
        key = np.where(many, -1.0, np.ceil(np.log2(panels + 1.0)))
        for one in np.unique(key[~many]).tolist():
            rows = np.flatnonzero(key == one)
            reference, ratio = self.nodes(float(z[rows].max()) + 1.0)
            hold(float(len(rows) * len(ratio)))
            log_terms = log_bernoulli(z[rows][:, None], ratio[None, :]) + reference[None, :]
            result[rows] = np.logaddexp(0.0, log_sum(log_terms))
        return np.asarray(result * (1.0 + 1e-13))

    def tilted(self, t: float) -> TiltedOutcomes:
        return TiltedOutcomes(self, t, float(self.cgf(np.array([t]))[0]))

    def removed(self, rate: float) -> Outcomes:
        """((1-q) Q + q P, Q): r' = m(log r)."""
        pieces = tuple(piece.sampled(rate, 1.0) for piece in self.pieces)
        return Outcomes(self.log_reference, log_mixed(rate, self.log_ratio), pieces)

    def added(self, rate: float) -> Outcomes:
        """(P, (1-q) P + q Q): r' = 1 / m(-log r)."""
        log_m = log_mixed(rate, -self.log_ratio)
        pieces = tuple(piece.sampled(rate, -1.0) for piece in self.pieces)
        return Outcomes(self.log_reference + self.log_ratio + log_m, -log_m, pieces)

    def replaced(self, rate: float) -> Outcomes:
        """The losses of `removed` that are above 0, their mirror image, and an atom at 0 with all that is left."""
        above = self.removed(rate)
        kept = above.log_ratio > 0.0
        reference, ratio = above.log_reference[kept], above.log_ratio[kept]
        upper = tuple(Piece(max(p.low, 0.0), p.high, p.log_density, p.slope, rate) for p in above.pieces if p.high > 0.0)
        lower = tuple(Piece(p.low, p.high, p.log_density, p.slope, rate, -1.0) for p in upper)
        both = Outcomes(np.concatenate([reference, reference + ratio]), np.concatenate([ratio, -ratio]), upper + lower)
        rest = max(1.0 - float(np.exp(both.nodes(0.0)[0]).sum()), 1e-300)
        return Outcomes(np.append(both.log_reference, math.log(rest)), np.append(both.log_ratio, 0.0), both.pieces)


class TiltedOutcomes(TiltedAtoms):
    """Outcomes under a tilt; the pieces' nodes are as many as the frequencies ask for."""

    def __init__(self, outcomes: Outcomes, t: float, cumulant: float) -> None:
        reference, ratio = outcomes.nodes(t + 1.0)
        super().__init__(reference + (t + 1.0) * ratio, ratio, cumulant)
        self._outcomes, self._t = outcomes, t
        pieces = outcomes.pieces
        self.sharp = POINTS * sum(math.ceil(piece.count(t + 1.0, 0.0)) for piece in pieces) <= MOST
        self._gains, self._variations = level_sets([piece.cells(t, cumulant) for piece in pieces])

    def centred(self, step: float, count: int, log_error: float) -> ComplexArray:
        if not self._outcomes.pieces:
            return super().centred(step, count, log_error)
        reference, ratio = self._outcomes.nodes(self._t + 1.0, step * count)
        fine = TiltedAtoms(reference + (self._t + 1.0) * ratio, ratio, self.cumulant)
        return fine.about(self.mean, step, count)

    def decay(self, y: Array) -> Array:
        return least_modulus(self._gains, self._variations, y)

    def rise(self, rise: Array) -> Array:
        """K(t + rise) - K(t) from above."""
        return self._outcomes.cgf(self._t + rise) - self.cumulant * (1.0 - 1e-12)


def level_sets(pieces: list[tuple[Array, Array]]) -> tuple[Array, Array]:
    """INT rho from below and Var(rho) from above, of step functions under the density, one for each cap."""
    if not pieces:
        return np.zeros(1), np.zeros(1)
    top, least = max(float(p.max()) for p, _ in pieces), min(float(p.min()) for p, _ in pieces)
    caps = np.geomspace(max(least, 1e-12 * top), top, LEVELS) if 0.0 < top < math.inf else np.zeros(1)
    gains, variations = np.zeros(len(caps)), np.zeros(len(caps))
    for p, lengths in pieces:
        spend(float(len(caps) * len(p)))
        rho = np.minimum(p, caps[:, None])
        gains += (rho @ lengths) * (1.0 - 1e-9)
        variations += (np.abs(np.diff(rho, axis=1)).sum(axis=1) + rho[:, 0] + rho[:, -1]) * (1.0 + 1e-9)
    return gains, variations


def least_modulus(gains: Array, variations: Array, y: Array) -> Array:
    """The least of log(1 - INT rho + Var(rho) / y) over the step functions; at most 0."""
    with np.errstate(divide="ignore"):
        share = (gains[:, None] - variations[:, None] / y).max(axis=0)
        return np.asarray(np.log1p(-np.clip(share, 0.0, 1.0 - 1e-12)))

"""Dominating pairs given by their outcomes: atoms, and pieces on which the density is exponential in the loss; with and without sampling.

A loss with such a pair returns `Outcomes` from its method `outcomes` (as in noise/laplace.py). `SampledLoss` (sampling/poisson.py) samples
these outcomes, and takes from them its CGF K(z) = log E_P[e^{z L}] and its law under a tilt t, e^{t L - K(t)} dP, whose characteristic
function a contour needs (integral.py). z + 1 is the order of a CGF, g an unsampled loss, and r = P/Q. `slope` is d log density / dg.

On a Poisson sample of rate q a loss g becomes log m(g) with m = 1 - q + q e^g, or, in the other direction, minus that of -g. Atoms stay
atoms, and pieces stay pieces. So the CGF is a sum over the atoms plus, for each piece, an integral of a function that is analytic where
|Im g| <= pi / 2.

Quadrature on the real line.

1. The Gauss-Legendre rule with N = POINTS points on a panel of half-length d errs by at most 8 d F s^-2N / (1 - 1/s), where F is the
   supremum of the modulus on the ellipse of half axes d (s +- 1/s) / 2 (Trefethen 2013, Theorem 19.3). With s = 4 and d <= WIDEST the
   ellipse stays where |Im g| <= pi / 2.
2. There |m(g)| >= m(Re g) / sqrt 2. So the derivative of the integrand's logarithm with respect to g is at most
   A = |slope| + sqrt 2 (order + |y| + 1) max m'/m. The panels have d A <= RISE = 36.
3. From the middle of a panel to its ellipse the integrand rises by at most e^{2.2 RISE}, and to its ends it falls by at most e^RISE.
   Relative to the integral of the modulus, the error is below 4 e^{3.2 RISE} 4^-128 < e^-60.
4. Where the power of r is below e^-DROPPED of its largest value, only 1 + order (r - 1) remains of the integrand. There each panel is twice
   as long as the one before, up to LONGEST_PANEL. With s = 2.5, 2.5^-128 < e^-117.

Quadrature for many frequencies.

1. The path of integration of a density times m^{iy} goes up by H at one end of the piece, along Im g = H, and down again at the other end.
   Along Im g = H, |m^{iy}| = e^{-y arg m} decays where it oscillates, so the same nodes serve all y.
2. Panels along Im g = H have d <= H / 2.2. The vertical panels cover [0, h], [h, 4h], ... with y max m'/m h <= 1. Ellipses with s = 2.5
   then stay where 0 <= Im g <= pi / 2, except that the lowest one reaches less than h below, where e^{-y arg m} <= e.
3. A H <= TURNED bounds the rise of the other factors. With FINER points the error is below 2.5^-96 e^{13 + 13 + 5} < e^-56, relative as
   above.

Decay of the characteristic function.

1. Let f be the density of the loss under the tilted measure. For any step function 0 <= rho <= f, |phi(y)| <= 1 - INT rho + Var(rho) / |y|,
   which falls with |y|. To see this, integrate rho e^{iyL} by parts, and bound the integral of the rest by its mass.
2. On a piece, log f is monotone on both sides of at most one place, where m'/m = (1 - slope) / (power + 1), with the
   power of m in the tilted density. So on a cell, f is at least the smaller of its values at the two ends.
3. Capping rho at different levels gives different bounds, and the least one is used. Atoms contribute their mass to the rest.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from dpcli.base.values import dataclass
from dpcli.numerics.arrays import Array, ComplexArray, IndexArray, np
from dpcli.numerics.contour.tilted_closed import LIGHT, TiltedAtoms
from dpcli.numerics.logspace import log1p_complex, log_sum
from dpcli.numerics.mixture import unmix
from dpcli.numerics.products import characteristic_less_one, decaying_characteristic_less_one
from dpcli.numerics.quadrature import log_bernoulli
from dpcli.numerics.work import hold, spend

# Soundness: the errors of quadrature that the docstring derives hold for these values.
POINTS, FINER = 64, 48  # points on a panel of the real line, and on a panel of the path above it
TURNED = 20.0  # largest A H, for the path above the real line
RISE, WIDEST = 36.0, 0.8  # largest A d and largest half-length d of a panel on the real line
DROPPED = 200.0  # a power of r below e^-DROPPED of its largest value is negligible
LONGEST_PANEL = 3.0  # longest panel where the power of r is negligible
HIGHEST = 300.0  # largest loss for which the path above the line is used, because e^g and its powers must not overflow
LARGE_LOSS = 30.0  # larger losses g use a sum of logarithms instead of expm1, which would overflow at much larger ones
HALF_AXIS = 2.2  # at least (s + 1/s) / 2, the larger half axis of an ellipse with s = 4, in half-lengths of its panel
CGF_RAISE = 1e-13  # relative increase of a CGF, which exceeds its errors
CUMULANT_SLACK = 1e-12  # K(t), an upper bound, is at most this too large, relative
SUM_RAISE = 1e-9  # relative change to the safe side of sums over cells, which exceeds their rounding
# Accuracy: number of cells of a step function on a piece, and of levels at which it is capped, and the least level relative to the largest
# one. Every step function gives a bound on decay.
CELLS, LEVELS, LEAST_LEVEL = 256, 24, 1e-12
# Speed; `spend` and `hold` (numerics/work.py) limit the work.
FEW_NODES = 3000  # most nodes on the real line; instead of more, the path above it is used
OCTAVES, NEGATIVE = 8.0, 0.5  # octaves of orders that share nodes; what the keys of negative orders differ by


@dataclass(frozen=True, slots=True)
class LossPiece:
    """A piece on which the base measure has the density e^{log_density + slope g} at low <= g <= high.

    The likelihood ratio is r = (c m(g))^sign with c = e^{log_scale}, and m = 1 - q + q e^g for the sampling rate q, `rate`. If sign is 1,
    the base measure is Q. If sign is -1, it is P, and Q has c m times its density.
    """

    low: float
    high: float
    log_density: float
    slope: float
    rate: float = 1.0
    sign: float = 1.0
    log_scale: float = 0.0

    def log_size(self, g: Array) -> Array:
        """Return log(c m(g)), which is the loss if sign is 1, and minus the loss if it is -1."""
        return log_mixed(self.rate, g) + self.log_scale

    @property
    def largest(self) -> float:
        """The largest loss on the piece."""
        return float((self.sign * self.log_size(np.array([self.low, self.high]))).max())

    def focused(self, order: float) -> LossPiece:
        """Return the part of the piece on which r^order matters.

        Outside of it, the base density times r^order is below e^-DROPPED of its value where r^order is largest.
        """
        low, high = log_mixed(self.rate, np.array([self.low, self.high])).tolist()
        # Over this distance of log m, |order| times it outweighs DROPPED plus all that the base density changes by.
        reach = (DROPPED + abs(self.slope) * (self.high - self.low)) / max(abs(order), 1e-300)
        if not high - low > 1.01 * reach:  # there is too little to leave out
            return self
        largest_at_high = self.sign * order > 0.0
        log_m = high - reach if largest_at_high else low + reach
        g = log_m if self.rate == 1.0 else float(unmix(np.array([log_m]), math.log1p(-self.rate), self.rate)[0])
        g = min(max(g, self.low), self.high)
        return replace(self, low=g) if largest_at_high else replace(self, high=g)

    def panel_count(self, order: float, y: float) -> float:
        """Return the number of panels for r^order e^{i y log r}, as a real number: at least what WIDEST and RISE require."""
        steepest = float(self._slope_of_log_m(np.array([self.high + HALF_AXIS * WIDEST]))[0])  # on all ellipses
        slope = abs(self.slope) + math.sqrt(2.0) * (abs(order) + y + 1.0) * steepest  # A of the module's docstring
        return max((self.high - self.low) / (2.0 * WIDEST), (self.high - self.low) * slope / (2.0 * RISE))

    def edges(self, order: float, y: float, least: float | None = None) -> Array:
        """Return the ends of panels for r^p e^{i v log r} - 1 - p (r - 1), for |v| <= y and p from `least` to `order`.

        The panels are equally long where r^p matters, and get longer on either side.
        """
        zone = self.focused(order if least is None else least)
        panels = zone.panel_count(order, y)
        hold(POINTS * (panels + 1.0))
        length = zone.high - zone.low
        below = _doubling_edges(zone.low, self.low, -length)[::-1]
        above = _doubling_edges(zone.high, self.high, length)
        return np.concatenate((below, np.linspace(zone.low, zone.high, math.ceil(panels) + 1), above))

    def nodes(self, edges: Array) -> tuple[Array, Array]:
        """Return log Q with the weights of the quadrature rule, and log r, at its nodes."""
        hold(float(POINTS * len(edges)))
        at, weights = _legendre(POINTS)
        half = 0.5 * np.diff(edges)[:, None]
        g = (0.5 * (edges[1:] + edges[:-1])[:, None] + half * at).ravel()
        log_m = self.log_size(g)
        base = self.log_density + self.slope * g + np.log((half * weights).ravel())
        return (base if self.sign > 0.0 else base + log_m), self.sign * log_m

    def path(self, t: float, y: float) -> tuple[ComplexArray, ComplexArray]:
        """Return the logarithms of the weights and of c m at the nodes of the path above the real line.

        The weights are those of the tilted density without the factor e^{-K(t)}. y: the largest frequency.
        """
        power, steepest = (t + 1.0 if self.sign > 0.0 else -t), float(self._slope_of_log_m(np.array([self.high]))[0])
        slope = abs(self.slope) + math.sqrt(2.0) * (abs(power) + 1.0) * steepest  # A
        height = min(0.25 * math.pi, TURNED / slope, self.high - self.low)  # H
        # Ends of the vertical panels, up to H: h is below 1 / (y max m'/m), and each other end is four times the one before.
        rungs = height * 4.0 ** -np.arange(math.ceil(math.log(max(y * steepest * height, 1.0), 4.0)) + 1.0)
        up = np.append(0.0, rungs[::-1])
        # Panels along the path have half-lengths of up to H / 2.2.
        along = np.linspace(self.low, self.high, math.ceil(1.1 * (self.high - self.low) / height) + 1)
        hold(FINER * float(2 * len(up) + len(along)))
        at, weights = _legendre(FINER)
        places, logs = [], []
        # The third part of the path goes downwards, so its weights have the sign -1, e^{i pi}.
        for edges, start, direction, log_sign in (
            (up, self.low, 1j, 0.0),
            (along, 1j * height, 1.0, 0.0),
            (up, self.high, 1j, 1j * math.pi),
        ):
            half = 0.5 * np.diff(edges)[:, None]
            places.append(start + direction * (0.5 * (edges[1:] + edges[:-1])[:, None] + half * at).ravel())
            logs.append(np.log((half * weights).ravel()) + np.log(complex(direction)) + log_sign)
        g, log_weights = np.asarray(np.concatenate(places), dtype=np.complex128), np.concatenate(logs)
        log_m = g if self.rate == 1.0 else log1p_complex(np.asarray(self.rate * np.expm1(g), dtype=np.complex128))
        log_m = log_m + self.log_scale
        return np.asarray(self.log_density + self.slope * g + power * log_m + log_weights), log_m

    def cells(self, t: float, cumulant: float) -> tuple[Array, Array]:
        """Return lower bounds on the tilted density of the loss on each cell of the piece, and on the cell's length in the loss."""
        power = t + 1.0 if self.sign > 0.0 else -t
        g = np.linspace(self.low, self.high, CELLS + 1)
        # The place where log f turns, if there is one, becomes an end of a cell, so that log f is monotone on each cell.
        turn = (1.0 - self.slope) / (power + 1.0) if power != -1.0 else math.nan  # m'/m there
        if self.rate < 1.0 and 0.0 < turn < 1.0:
            place = math.log(turn / (1.0 - turn)) + math.log1p(-self.rate) - math.log(self.rate)
            if self.low < place < self.high:
                g = np.sort(np.append(g, place))
        log_m = self.log_size(g)
        log_f = self.log_density + self.slope * g + power * log_m - np.log(self._slope_of_log_m(g)) - cumulant
        rounding = 1e-15 * np.abs(log_m[1:] + log_m[:-1])
        return np.exp(np.minimum(log_f[1:], log_f[:-1])), np.maximum(np.diff(log_m) - rounding, 0.0)

    def _slope_of_log_m(self, g: Array) -> Array:
        """Return m'/m = q e^g / m, which increases with g."""
        return np.exp(math.log(self.rate) + g - log_mixed(self.rate, g))

    def sampled(self, rate: float, sign: float) -> LossPiece:
        """Return the piece for a Poisson sample, in the remove direction (sign 1) or the add direction (sign -1)."""
        if sign > 0.0:
            return LossPiece(self.low, self.high, self.log_density, self.slope, rate)
        return LossPiece(-self.high, -self.low, self.log_density, -(self.slope + 1.0), rate, -1.0)


def _doubling_edges(start: float, end: float, length: float) -> Array:
    """Return the ends of panels from `start` to `end`, each twice as long as the one before, up to LONGEST_PANEL.

    length: the length of the first panel, negative if `end` is below `start`. If `end` is not beyond `start`, there are no panels.
    """
    sign = math.copysign(1.0, length)
    edges: list[float] = []
    while sign * (end - start) > 0.0:
        start += sign * min(abs(length), LONGEST_PANEL)
        length *= 2.0
        edges.append(start if sign * (end - start) > 0.0 else end)
    return np.array(edges)


def log_mixed(rate: float, g: Array) -> Array:
    """Return log(1 - q + q e^g) for the rate q. It is g if the rate is 1.

    Near g = 0 it has all digits. Below log(1/2), 1 + q (e^g - 1) would lose the digits of 1 - q, so the terms 1 - q and q e^g are added.
    """
    if rate == 1.0:
        return g
    change = rate * np.expm1(np.minimum(g, LARGE_LOSS))
    added = np.logaddexp(math.log1p(-rate), math.log(rate) + g)
    return np.where((g > LARGE_LOSS) | (change < -0.5), added, np.log1p(np.maximum(change, -0.5)))


@functools.lru_cache(2)
def _legendre(points: int) -> tuple[Array, Array]:
    """Return nodes and weights of the Gauss-Legendre rule on [-1, 1]."""
    at, weights = np.polynomial.legendre.leggauss(points)
    return np.asarray(at), np.asarray(weights)


@dataclass(frozen=True, slots=True, eq=False)
class Outcomes:
    """A pair (P, Q) as atoms and pieces. log_reference, log_ratio: logarithms of the atoms' probabilities under Q and of their ratios P/Q.

    Mass of P or Q that is missing, if any, is below 1e-340. This is less than the rounding of delta for any number of steps.
    """

    log_reference: Array
    log_ratio: Array
    pieces: tuple[LossPiece, ...] = ()

    @property
    def decays(self) -> bool:
        """Tell whether the characteristic function decays, which it does if the loss is not discrete."""
        return bool(self.pieces)

    @property
    def largest(self) -> float:
        """The largest loss."""
        return max([float(self.log_ratio.max(initial=-math.inf)), *(piece.largest for piece in self.pieces)])

    def nodes(self, order: float, y: float = 0.0, least: float | None = None) -> tuple[Array, Array]:
        """Return log Q and log r of finitely many outcomes that replace the pieces.

        Sums over them of r^p e^{i v log r} with |v| <= y equal the integrals, for p = order, or for p between `least` and order if given.
        """
        if not self.pieces:
            return self.log_reference, self.log_ratio
        references, ratios = zip(*(piece.nodes(piece.edges(order, y, least)) for piece in self.pieces), strict=True)
        return np.concatenate([self.log_reference, *references]), np.concatenate([self.log_ratio, *ratios])

    def cgf(self, z: Array) -> Array:
        """Return upper bounds on K(z) = log(1 + E_Q[B_{z+1}(r - 1)]) for z > 0 or z < -1.

        All terms of the expectation are non-negative, so a small K keeps its digits. B is Bernoulli's remainder (quadrature.py).
        """
        result = np.empty(len(z))
        # Orders of one sign within a factor of 2^OCTAVES, such as those from 1/4 to 64, share the nodes on the pieces.
        key = np.floor((np.log2(np.abs(z)) + 2.0) / OCTAVES) + np.where(z > 0.0, 0.0, NEGATIVE) if self.pieces else np.zeros(len(z))
        for shared_key in np.unique(key).tolist():
            rows = np.flatnonzero(key == shared_key)
            orders = np.sort(np.abs(z[rows] + 1.0)) * (1.0 if z[rows[0]] > 0.0 else -1.0)
            reference, ratio = self.nodes(float(orders[-1]), 0.0, float(orders[0]))
            hold(float(len(rows) * len(ratio)))
            log_terms = log_bernoulli(z[rows][:, None], ratio[None, :]) + reference[None, :]
            result[rows] = np.logaddexp(0.0, log_sum(log_terms))
        return np.asarray(result * (1.0 + CGF_RAISE))

    def decay(self, t: float, cumulant: float) -> Callable[[Array], Array]:
        """Return a function that bounds the log modulus of the characteristic function at the tilt t. cumulant: an upper bound on K(t)."""
        return partial(least_modulus, *level_sets([piece.focused(t + 1.0).cells(t, cumulant) for piece in self.pieces]))

    def tilted(self, t: float) -> TiltedOutcomes:
        return TiltedOutcomes(self, t, float(self.cgf(np.array([t]))[0]))

    def capped(self, log_mass: float) -> Outcomes:
        """Return the outcomes without the atoms of largest ratio, as far as their total mass under P is at most e^log_mass.

        The result of `cgf` is then too large by at most (z+1) times that mass. If there are no such atoms, the result is this object.
        """
        order = np.argsort(-self.log_ratio, kind="stable")
        log_masses_above = np.logaddexp.accumulate((self.log_reference + self.log_ratio)[order])
        removed = int(np.searchsorted(log_masses_above, log_mass))
        if not removed:
            return self
        kept = order[removed:]
        return Outcomes(self.log_reference[kept], self.log_ratio[kept], self.pieces)

    def removed(self, rate: float) -> Outcomes:
        """Return the pair ((1-q) Q + q P, Q) of the remove direction, whose ratio is m(log r). rate: q."""
        pieces = tuple(piece.sampled(rate, 1.0) for piece in self.pieces)
        return Outcomes(self.log_reference, log_mixed(rate, self.log_ratio), pieces)

    def added(self, rate: float) -> Outcomes:
        """Return the pair (P, (1-q) P + q Q) of the add direction, whose ratio is 1 / m(-log r). rate: q."""
        log_m = log_mixed(rate, -self.log_ratio)
        pieces = tuple(piece.sampled(rate, -1.0) for piece in self.pieces)
        return Outcomes(self.log_reference + self.log_ratio + log_m, -log_m, pieces)

    def replaced(self, rate: float) -> Outcomes:
        """Return the pair for replace-one. rate: q.

        It has the losses of `removed` above 0, their mirror image, and an atom at 0 with the remaining mass.

        The atom's mass is 1 minus the others'. It errs by their rounding, in either direction, and is at least 1e-300, to have a logarithm.
        K(z) does not depend on it. An error x moves the delta of n steps by a factor of at most (1 + |x|)^n either way, because fewer steps
        have no larger delta.
        """
        above = self.removed(rate)
        kept = above.log_ratio > 0.0
        reference, ratio = above.log_reference[kept], above.log_ratio[kept]
        upper = tuple(LossPiece(max(p.low, 0.0), p.high, p.log_density, p.slope, rate) for p in above.pieces if p.high > 0.0)
        lower = tuple(LossPiece(p.low, p.high, p.log_density, p.slope, rate, -1.0) for p in upper)
        both = Outcomes(np.concatenate([reference, reference + ratio]), np.concatenate([ratio, -ratio]), upper + lower)
        log_q, _ = both.nodes(order=0.0)
        mass_at_zero = max(1.0 - float(np.exp(log_q).sum()), 1e-300)
        return Outcomes(np.append(both.log_reference, math.log(mass_at_zero)), np.append(both.log_ratio, 0.0), both.pieces)


class TiltedOutcomes(TiltedAtoms):
    """The loss of `Outcomes` under a tilt. The number of nodes on the pieces depends on the frequencies.

    Without pieces it has finitely many values, and `centred` is that of the base class. With pieces, `centred` uses only the parts of them
    that matter under the tilt.
    """

    def __init__(self, outcomes: Outcomes, t: float, cumulant: float) -> None:
        reference, ratio = outcomes.nodes(t + 1.0)
        super().__init__(reference + (t + 1.0) * ratio, ratio, cumulant)
        pieces = tuple(piece.focused(t + 1.0) for piece in outcomes.pieces)
        self._focused, self._t, self._complete = replace(outcomes, pieces=pieces), t, outcomes
        self._decay = outcomes.decay(t, cumulant)

    @property
    def finite_sum(self) -> bool:  # type: ignore[override]
        return not self._focused.pieces

    def centred(self, step: float, count: int, log_error: float) -> ComplexArray:
        if self.finite_sum:
            return super().centred(step, count, log_error)
        return self._on_the_line(step, count) if self._suits_the_line(step * count) else self._above(step, count)

    def centred_at(self, step: float, multiples: IndexArray, log_error: float) -> ComplexArray:
        if self.finite_sum:
            return super().centred_at(step, multiples, log_error)
        farthest = step * (int(multiples[-1]) + 1)
        return self._on_the_line(step, multiples) if self._suits_the_line(farthest) else self._above(step, multiples)

    def _suits_the_line(self, y: float) -> bool:
        """Return whether nodes on the real line are used for frequencies up to y."""
        panels = sum(piece.panel_count(self._t + 1.0, y) for piece in self._focused.pieces)
        return POINTS * panels <= FEW_NODES or self._focused.largest > HIGHEST

    def _on_the_line(self, step: float, multiples: int | IndexArray) -> ComplexArray:
        """Return `centred` from nodes on the real line. multiples: as in `characteristic_less_one`."""
        reference, ratio = self._focused.nodes(self._t + 1.0, step * _number(multiples))
        return TiltedAtoms(reference + (self._t + 1.0) * ratio, ratio, self.cumulant).about(self.mean, step, multiples)

    def _above(self, step: float, multiples: int | IndexArray) -> ComplexArray:
        """Return `centred` from the pieces' paths above the real line, where one set of nodes serves every frequency.

        For a piece with r = 1 / (c m), the complex conjugate of the transform of log(c m) is used.
        """
        focused, t, mean = self._focused, self._t, self.mean
        weights = np.exp(focused.log_reference + (t + 1.0) * focused.log_ratio - self.cumulant)
        change, mass = characteristic_less_one(weights, focused.log_ratio - mean, step, multiples), float(weights.sum())
        for piece in focused.pieces:
            log_terms, log_m = piece.path(t, step * _number(multiples))
            weight = np.exp(log_terms - self.cumulant)
            heavy = np.abs(weight) > LIGHT
            loss = log_m[heavy] - piece.sign * mean
            part = decaying_characteristic_less_one(weight[None, heavy], loss, step, multiples)[0]
            change = change + (part if piece.sign > 0.0 else part.conj())
            mass += float(weight.real.sum())
        with np.errstate(divide="ignore"):
            return log1p_complex(change / mass)

    def decay(self, y: Array) -> Array:
        return self._decay(y)

    def rise(self, rise: Array) -> Array:
        """Return upper bounds on K(t + rise) - K(t)."""
        return self._complete.cgf(self._t + rise) - self.cumulant * (1.0 - CUMULANT_SLACK)


def _number(multiples: int | IndexArray) -> int:
    """Return the number of multiples of a step up to the largest one."""
    return multiples if isinstance(multiples, int) else int(multiples[-1]) + 1


def level_sets(pieces: list[tuple[Array, Array]]) -> tuple[Array, Array]:
    """Return lower bounds on INT rho and upper bounds on Var(rho) of step functions rho below the density, one for each cap.

    pieces: the results of `LossPiece.cells`.
    """
    if not pieces:
        return np.zeros(1), np.zeros(1)
    top, least = max(float(f.max()) for f, _ in pieces), min(float(f.min()) for f, _ in pieces)
    caps = np.geomspace(max(least, LEAST_LEVEL * top), top, LEVELS) if 0.0 < top < math.inf else np.zeros(1)
    integrals, variations = np.zeros(len(caps)), np.zeros(len(caps))
    for f, lengths in pieces:
        spend(float(len(caps) * len(f)))
        rho = np.minimum(f, caps[:, None])
        integrals += (rho @ lengths) * (1.0 - SUM_RAISE)
        variations += (np.abs(np.diff(rho, axis=1)).sum(axis=1) + rho[:, 0] + rho[:, -1]) * (1.0 + SUM_RAISE)
    return integrals, variations


def least_modulus(integrals: Array, variations: Array, y: Array) -> Array:
    """Return at each y the least of log(1 - INT rho + Var(rho) / y) over the step functions, at most 0.

    integrals, variations: the results of `level_sets`, one for each step function.
    """
    with np.errstate(divide="ignore"):
        share = (integrals[:, None] - variations[:, None] / y).max(axis=0)
        return np.asarray(np.log1p(-np.clip(share, 0.0, 1.0 - 1e-12)))

"""Many losses of one family divided by size together: the division of cut.py with one row of arrays for each loss.

A loss is L = log r with r = dP/dQ. The method of one big jump (jump.py) divides each loss into a small part, whose CGF is finite, and a
big part: an outcome is big with the weight b, which rises from 0 to 1 about the *level* of the loss. jump_levels.py asks for `cut_rows`
for many sampled Gaussian losses of the remove direction, which differ only in their noise and rate.

With many losses, calls of array functions for each of them would cost more than the arithmetic. A step of a normal mixture with one shift
mu and weight q has r = (1 - q) (1 + e^w) with w = mu x - mu^2 / 2 + log(q / (1 - q)), which is normal under Q. So in w the loss is log(1 -
q) + s, with s = log(1 + e^w). The rows differ only by a constant and by their normal densities of w. One line of nodes serves all of them,
and so does one weight b(w) = 1 - exp(-e^{k (w - c)}).

* Moments. E_Q[(1 - b) r^p] - 1 = expm1(a) (1 - Q(b) + X) + X - Q(b), where a = p log(1 - q) and X = E_Q[(1 - b) expm1(p s)]. The terms that
  cancel are of the size of p q, and not of 1.
* Big mass. Q(b) = INT b'(w) Q(W > w) dw. P(b) - Q(b) is the same integral of q times the difference of two normal tails. Nodes near the
  edge suffice for both if e^{k (w - c)} falls faster to the left than the tail rises. This is so if k mu is at least
  LEAST_SHARPNESS times the edge in standard deviations.
* Other rows. If k mu is smaller, P(b) <= E_P[e^{k (w - c)}]. The row is accepted if this bound is at most the mass that `cut` may leave out
  too. Its big outcomes are then left out: they do not belong to the event A of jump.py, and their probability widens the interval on both
  sides.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from dpcli.base.values import dataclass
from dpcli.numerics.arrays import Array, ComplexArray, IndexArray, np
from dpcli.numerics.contour.cut import (
    BEND,
    BIG,
    GENEROUS,
    LAST,
    LEAST_MOMENT_RAISE,
    LEAST_SHARPNESS,
    MAX_STEP,
    MOMENT_RAISE,
    MOST_NODES,
    SMALL,
    STEEP,
    STEP_OVER_STRIP,
    STRIP,
    STRIP_SHARPNESS,
)
from dpcli.numerics.contour.stretched import EDGE, RowLine, Stretched, log_cutoff
from dpcli.numerics.contour.tilted_rows import TiltedRows
from dpcli.numerics.logspace import log_ndtr_array
from dpcli.numerics.mixture import Shifted
from dpcli.numerics.products import product
from dpcli.numerics.quadrature import SLACK, TAIL
from dpcli.numerics.work import hold, spend

# Soundness: the sums over nodes err by less than SLACK (quadrature.py) with these.
LOWEST, HIGHEST, APART = -4.85, 4.2, 0.05  # range and distance of the nodes v near the edge, where k (w - c) = v - e^-v
LEFT = -120.0  # k (w - c) is below this at the lowest of these nodes, so that b <= e^LEFT to the left of it
STANDARD = 4.0  # largest height of the strip, in standard deviations
BINS_RAISE = 1e-9  # relative increase of the sums over bins, which exceeds their rounding
LEAST_DENSITY = 1e-300  # smaller densities are rounded up to it for a bound, so that they have logarithms
# Accuracy and speed.
SOFT = 4.0 / math.log(2.0)  # largest sharpness of the weight for the bulk, which falls within about a factor of 2 of its level
LONGEST = 5.0  # largest length in w over which the nodes get denser
SHARPENED = 16  # most attempts to find a k that suits all rows
SHARPER = 1.01  # factor by which the next k exceeds what the last one showed to be needed


@dataclass(frozen=True, slots=True, eq=False)
class CutRows:
    """The sum of the losses log r_i under the small parts of Q_i r_i, with row i added `counts[i]` times.

    It has the methods of `CutLoss` that jump.py uses, for the sum of all rows. z + 1 is the order of a CGF.

    rows: the noise and rate of each row. nodes: the line of nodes. log_rests: log(1 - q_i). centres: means of w under Q_i.
    s, density: s, and the density of Q_i (1 - b) times the node distance, of shapes (nodes,) and (rows, nodes).
    big_masses, mass_differences: Q_i(b) and P_i(b) - Q_i(b).
    log_bins, bins, above: log of upper bounds on b, lower ends s, and Q_i(W > w), of the bins for a bound on E_Q[b r^-power].
    left_out_masses: bounds on P_i(b) of rows whose big part is left out, and 0 for the others.
    """

    rows: Shifted
    counts: Array
    nodes: RowLine
    log_rests: Array
    centres: Array
    s: Array
    density: Array
    big_masses: Array
    mass_differences: Array
    log_bins: Array
    bins: Array
    above: Array
    left_out_masses: Array

    @property
    def steps(self) -> float:
        return float(self.counts.sum())

    def changes(self, z: Array) -> tuple[Array, Array]:
        """Return E_Qi[(1 - b) r_i^{z+1}] - 1 and generous bounds on its absolute error, both of shape (rows, z)."""
        power = z + 1.0
        with np.errstate(over="ignore", invalid="ignore"):
            x = product(self.density, np.expm1(self.s[:, None] * power))
            factor_less_one = np.expm1(self.log_rests[:, None] * power)  # expm1(a) of the module's docstring
            big = self.big_masses[:, None]
            change = factor_less_one * (1.0 - big + x) + (x - big)
            sizes = np.abs(factor_less_one) * (1.0 + np.abs(x)) + np.abs(x) + big
        return change, GENEROUS * SLACK * (sizes + np.abs(change)) + self.left_out_masses[:, None]

    def cgf(self, z: Array) -> Array:
        """Return K of the sum of the small parts. `error_bound` bounds its error."""
        change, _ = self.changes(z)
        return np.asarray(self.counts @ np.log1p(change))

    def error_bound(self, z: float) -> float:
        """Return a bound on the absolute error of `cgf` at one z."""
        change, error = self.changes(np.array([z]))
        return float(self.counts @ (error / (1.0 + change))[:, 0])

    @property
    def cut_losses(self) -> int:
        """The number of rows."""
        return len(self.counts)

    @property
    def big_mass(self) -> float:
        return float(self.counts @ self.big_masses)

    @property
    def log_small_mass(self) -> float:
        return float(self.counts @ np.log1p(-self.big_masses))

    @property
    def log_mass_ratio(self) -> float:
        return float(self.counts @ np.log1p(-self.mass_differences / (1.0 - self.big_masses)))

    @property
    def left_out_mass(self) -> float:
        return float(self.counts @ self.left_out_masses)

    def left_tail_mass(self) -> float:
        return 0.0

    def big_left_tail_mass(self) -> float:
        return 0.0

    def log_inverse_moments(self, power: Array) -> tuple[Array, Array]:
        """Return upper bounds on log prod B and log SUM (B - C) / B, in the notation of jump.py.

        E_Q[b r^-power] is bounded by a sum over bins, with the largest b and the least r of each bin.
        """
        with np.errstate(divide="ignore", under="ignore"):
            masses = product(self.above, np.exp(self.log_bins[:, None] - power * self.bins[:, None])) + math.exp(LEFT)
            log_big = np.log(masses * (1.0 + BINS_RAISE)) - self.log_rests[:, None] * power
        log_big = np.where(self.left_out_masses[:, None] > 0.0, -np.inf, log_big)
        change, _ = self.changes(-power - 1.0)
        log_whole = np.log1p(change + np.exp(log_big))
        log_product = self.counts @ (log_whole + MOMENT_RAISE * np.abs(log_whole) + LEAST_MOMENT_RAISE)
        return np.asarray(log_product), np.logaddexp.reduce(np.log(self.counts)[:, None] + log_big - log_whole, axis=0)

    def log_beyond(self, z: Array, level: float) -> Array:
        """Return about log SUM E_Q[(1 - b) (1 - f) r^{z+1}] / E_Q[(1 - b) r^{z+1}], for the weight f of `ramp_place`."""
        power = z + 1.0
        with np.errstate(all="ignore"):
            share_beyond = -np.expm1(self._log_ramp(level))  # 1 - f at the nodes
            beyond = product(self.density, share_beyond[:, None] * np.exp(self.s[:, None] * power))
            change, _ = self.changes(z)
            shares = beyond * np.exp(self.log_rests[:, None] * power) / (1.0 + change)
            return np.asarray(np.log(self.counts @ shares))

    def bulk_cgf(self, z: Array, level: float) -> Array:
        """Return about log prod E_Q[(1 - b) f r^{z+1}], for the weight f of `ramp_place`."""
        return np.asarray(self.counts @ self.log_bulk(self.density, self._log_ramp(level) + self.s * (z + 1.0)[:, None], z + 1.0))

    def log_bulk(self, density: Array, log_terms: Array, power: Array) -> Array:
        """Return upper bounds on log SUM_j density_ij e^{terms_kj} (1 - q_i)^{power_k}, of shape (rows, powers).

        density: shape (rows, nodes). log_terms: shape (powers, nodes). power: shape (powers,).
        """
        top = log_terms.max(axis=1)
        result = product(np.maximum(density, LEAST_DENSITY), np.exp(log_terms - top[:, None]).T)
        return np.asarray(np.log(result) + top + self.log_rests[:, None] * power)

    def ramp_place(self, level: float) -> tuple[float, float]:
        """Return sharpness and edge, in w, of the weight f that falls from 1 to 0 where the loss passes `level`."""
        return min(SOFT, self.nodes.sharpness), math.log(math.expm1(level))

    def _log_ramp(self, level: float) -> Array:
        """Return the logarithm of the weight f of `ramp_place` at the nodes."""
        k, edge = self.ramp_place(level)
        with np.errstate(divide="ignore"):
            return log_cutoff(k * (np.log(np.expm1(self.s)) - edge)).real

    def tilted(self, t: float) -> TiltedRows:
        return TiltedRows(self, t)

    def densities(self, w: Array | ComplexArray, log_common: Array | ComplexArray) -> ComplexArray:
        """Return the normal densities of w times e^log_common, as an array of shape (rows, nodes)."""
        mu = self.rows.shifts[:, None]
        hold((1.0 if np.iscomplexobj(w) else 0.5) * len(mu) * len(w))
        score = (w - self.centres[:, None]) / mu
        return np.asarray(np.exp(log_common - 0.5 * score * score - np.log(mu * math.sqrt(2.0 * math.pi))))


def cut_rows(rows: Shifted, counts: Array, level: float, log_mass: float) -> CutRows | None:
    """Return the rows cut at `level`, or None if one line of nodes does not suit all of them.

    Args:
        rows: losses of the remove direction.
        log_mass: logarithm of the mass of P that may be left out of each step.
    """
    mu, q = rows.shifts, rows.weights
    log_rests = np.log1p(-q)
    least_rest = float(log_rests.min())
    # As r = (1 - q) (1 + e^w), the loss is l at w = log(e^{l - log(1 - q)} - 1).
    low, high = (math.log(math.expm1(share * level - least_rest)) for share in (SMALL, BIG))
    centres = np.log(q) - log_rests - 0.5 * mu * mu
    placed = _sharpness_and_left_out(mu, q, centres, low, high, log_mass)
    if placed is None:
        return None
    k, left_out_masses = placed
    edge = high - LAST / k
    nodes = _line(float(mu.min()), k, edge, math.log(math.expm1(BEND * level)), float((centres - TAIL * mu).min()))
    if (nodes.high - nodes.low) / nodes.step > MOST_NODES:
        return None
    w, s, log_common = (part.real for part in nodes.at(nodes.step, 0.0))
    big_masses, mass_differences, (log_bins, bins, above) = _big_parts(mu, q, centres, k, edge, left_out_masses)
    density = np.zeros((len(mu), len(w)))  # filled below, because `densities` is a method of the result
    result = CutRows(
        rows=rows,
        counts=counts,
        nodes=nodes,
        log_rests=log_rests,
        centres=centres,
        s=s,
        density=density,
        big_masses=big_masses,
        mass_differences=mass_differences,
        log_bins=log_bins,
        bins=bins,
        above=above,
        left_out_masses=left_out_masses,
    )
    density[:] = result.densities(w, log_common).real
    return result


def _sharpness_and_left_out(
    mu: Array, q: Array, centres: Array, low: float, high: float, log_mass: float
) -> tuple[float, Array] | None:
    """Return k and bounds on P(b) of the rows whose big part is left out, or None if no k suits all rows.

    k suits a row if it is sharp enough for the nodes near the edge, or if Chernoff's bound on P(b) is at most e^log_mass.
    """
    k = STEEP / (high - low)
    for _ in range(SHARPENED):
        edge = (high - LAST / k - centres) / mu  # in standard deviations
        slope = k * mu  # k in units of 1 / standard deviation
        is_sharp = slope >= LEAST_SHARPNESS * edge
        log_most = np.logaddexp(np.log1p(-q), np.log(q) + slope * mu) + 0.5 * slope * slope - slope * edge  # log E_P[e^{k (w - c)}]
        unsuited = ~is_sharp & (log_most > log_mass)
        if not unsuited.any():
            return k, np.exp(np.where(is_sharp, -np.inf, np.clip(log_most, -700.0, 0.0)))
        k = SHARPER * float((LEAST_SHARPNESS * edge / mu)[unsuited].max())
    return None


def _line(mu: float, k: float, edge: float, bend: float, left: float) -> RowLine:
    """Return the line of nodes in w, by the rules of `cut` (cut.py). mu: the least shift, which determines the node distance."""
    top = edge + EDGE / k
    line = Stretched(1.0, max(bend, top - LONGEST))
    strip = min(STRIP, STANDARD * mu, STRIP_SHARPNESS / (k * line.rise(edge)))
    step = min(MAX_STEP * mu, STEP_OVER_STRIP * strip)
    return RowLine(line, line.back(min(left, bend - 1.0)), line.back(top), step, strip, k, edge)


def _big_parts(
    mu: Array, q: Array, centres: Array, k: float, edge: float, left_out_masses: Array
) -> tuple[Array, Array, tuple[Array, Array, Array]]:
    """Return Q(b) and P(b) - Q(b), and (log b, s, Q(W > w)) of the bins of `CutRows`.

    Both are integrated by parts. The nodes are densest where b rises, and get sparser to the left.
    """
    v = np.arange(LOWEST, HIGHEST + 0.5 * APART, APART)
    exponent = v - np.exp(-v)  # k (w - c)
    w = edge + exponent / k
    spend(float(len(mu) * len(w)))
    # Q(W > w), and the same for W moved by mu^2, as it is under the shifted part of P.
    above, above_if_shifted = (np.exp(log_ndtr_array((centres + shift - w[:, None]) / mu)).T for shift in (0.0, mu * mu))
    rise_of_b = np.exp(exponent - np.exp(exponent)) * (1.0 + np.exp(-v)) * APART  # b'(w) dw
    big_masses, mass_differences = above @ rise_of_b, q * ((above_if_shifted - above) @ rise_of_b)
    log_most = np.log(-np.expm1(-np.exp(np.append(exponent[1:], 40.0))))  # log b at the upper end of each bin; the last has none
    bins = log_most, np.log1p(np.exp(w)), above
    is_left_out = left_out_masses > 0.0
    return np.where(is_left_out, 0.0, big_masses), np.where(is_left_out, 0.0, mass_differences), bins


def alike_rows(rows: Shifted, level: float) -> Sequence[IndexArray]:
    """Return groups of indices of rows that one line may suit: shifts within a factor of 2, and rates of at most half the level."""
    is_low = rows.weights <= 0.5 * level
    octaves = np.floor(np.log2(rows.shifts))
    return [np.flatnonzero(is_low & (octaves == octave)) for octave in np.unique(octaves[is_low]).tolist()]

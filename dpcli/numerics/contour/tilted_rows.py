"""Many divided losses (cut_rows.py) under one tilt: the product of their characteristic functions, with one row of arrays for each loss.

A divided loss lacks its far tail, which has the weight b. Row i is a sampled Gaussian, with r_i = dP/dQ = (1 - q_i) (1 + e^w) for a normal
w. With s = log(1 + e^w) its loss is log(1 - q_i) + s. Under a tilt t the density of w gets the factor r_i^{t+1}. A contour (integral.py)
asks for the product of the characteristic functions E_t[e^{i y L_i}] (`TiltedRows`), or for the same without the *bulk*, the part of each
row with a loss too small to matter (`SplitRows`). `TiltedRows` is a `Tilted` of tilted.py, and `SplitRows` has the methods of `SplitLoss`.

The methods are those of tilted.py for one loss, with two shortcuts:

1. The rows differ only by their densities. So above the real line all integrands oscillate and decay in the same way, and one table of the
   factors that depend on y serves all rows.
2. The densities form a family with two parameters, so each is nearly a linear combination of a few functions. Up to a remainder, the
   weights (rows, nodes) are the product of a matrix (rows, rank) and a matrix (rank, nodes). The error of a transform is at most the sum of
   the moduli of its remainder, each times a bound on |e^{i y s} - 1|, which is at most 2 where Im s >= 0.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Protocol

from dpcli.base.errors import NotRepresentable
from dpcli.numerics.arrays import Array, ComplexArray, np
from dpcli.numerics.contour.cut import FARTHEST, STEP_OVER_STRIP, STRIP_SHARPNESS
from dpcli.numerics.contour.stretched import log_cutoff
from dpcli.numerics.contour.tilted import MODULUS_RAISE
from dpcli.numerics.logspace import log1p_complex
from dpcli.numerics.products import decaying_characteristic_less_one, product
from dpcli.numerics.work import hold, spend

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpcli.numerics.contour.stretched import RowLine
    from dpcli.numerics.mixture import Shifted

# Soundness: e^-DIGITS is the largest relative error of a CGF from the node distance; a tilt that needs closer nodes is refused.
DIGITS = 28.0
# Accuracy: any height gives a bound, and the remainder of a rank is added to the error.
SHARES = (0.05, 0.2, 0.5, 0.9)  # heights of the lines, as shares of the strip
HEIGHT = 1.5  # largest height of the line of integration, in standard deviations of the narrowest row
HIGHEST = 0.45  # largest height of that line, as a share of the strip; the error is bounded on a line twice as high
ROUNDED = 20.0  # the remainder may exceed the allowed error by this factor, because its exact sum is added to the error
GOLDEN = 0.6180339887  # any irrational number serves to mix the columns of a matrix
# Soundness and speed: weights below this share of the allowed error are left out, and no error bound counts them.
LIGHT_SHARE = 1e-6
# Floating point.
LEAST_LOG_MODULUS = -700.0  # replaces -inf, which times 0 is NaN
# Speed and memory; `spend` and `hold` (numerics/work.py) limit both.
RANKS = (40, 64, 100, 160)  # ranks that are tried, up to half of the number of rows
BLOCK = 1 << 17  # entries of a table that are computed at a time


class DividedRows(Protocol):
    """The attributes of `CutRows` in cut_rows.py that this module uses; `CutRows` says what they are."""

    @property
    def rows(self) -> Shifted: ...

    @property
    def counts(self) -> Array: ...

    @property
    def nodes(self) -> RowLine: ...

    @property
    def log_rests(self) -> Array: ...

    @property
    def centres(self) -> Array: ...

    @property
    def s(self) -> Array: ...

    @property
    def density(self) -> Array: ...

    def densities(self, w: Array | ComplexArray, log_common: Array | ComplexArray) -> ComplexArray: ...

    def log_bulk(self, density: Array, log_terms: Array, power: Array) -> Array: ...

    def ramp_place(self, level: float) -> tuple[float, float]: ...


class TiltedRows:
    """The sum of the rows' losses under the measure e^{t L - K(t)} dP.

    error_bound: absolute error of the last result of `centred` from the remainder of the matrix product. It is set by `centred`.
    norms: the integrals of Q_i (1 - b) (1 + e^w)^{t+1}, by which the densities are divided.

    Raises NotRepresentable if the nodes are too far apart for the tilt.
    """

    exact_cgf = True

    def __init__(self, part: DividedRows, t: float) -> None:
        self.part, self.t = part, t
        weights = part.density * np.exp((t + 1.0) * part.s)
        self.norms = weights.sum(axis=1)
        weights = weights / self.norms[:, None]
        means = weights @ part.s
        variances = np.fmax(weights @ part.s**2 - means**2, 0.0)
        self.cumulant = float(part.counts @ ((t + 1.0) * part.log_rests + np.log(self.norms)))
        self._means = means
        self.mean = float(part.counts @ (means + part.log_rests))
        self.variance = float(part.counts @ variances)
        self.error_bound = 0.0
        self._lines: list[tuple[Array, Array]] | None = None
        moduli, _, s = self._moduli(part.nodes.strip)
        for order in (t, FARTHEST * t):  # the CGF is also used at orders up to FARTHEST * t, to bound aliases
            grown = moduli @ np.exp((order - t) * s) / (weights @ np.exp((order - t) * part.s))
            if not float(grown.max()) <= math.exp(2.0 * math.pi * part.nodes.strip / part.nodes.step - DIGITS):
                raise NotRepresentable("the nodes are too far apart for so large a tilt")

    def _moduli(self, height: float) -> tuple[Array, Array, Array]:
        """Return |Q_i (1 - b) r_i^{t+1}| over the norms, of shape (rows, nodes), |arg r|, and log |1 + e^w|, on the line at `height`."""
        nodes = self.part.nodes
        w, s, log_common = nodes.at(nodes.step, height)
        common = log_common.real + (self.t + 1.0) * s.real
        mu = self.part.rows.shifts[:, None]
        hold(0.5 * len(mu) * len(w))
        squares = ((w.real - self.part.centres[:, None]) ** 2 - w.imag**2) / (mu * mu)
        moduli = np.exp(common - 0.5 * squares - np.log(mu * math.sqrt(2.0 * math.pi) * self.norms[:, None]))
        return moduli, np.abs(s.imag), s.real

    def decay(self, y: Array) -> Array:
        if self._lines is None:
            self._lines = [self._moduli(share * self.part.nodes.strip)[:2] for share in SHARES]
        result = np.full((len(self.part.counts), len(y)), np.inf)
        for moduli, turn in self._lines:
            result = np.fmin(result, product(moduli, np.exp(-turn[:, None] * y)))
        return np.asarray(self.part.counts @ np.minimum.accumulate(np.log(np.fmin(result, 1.0)), axis=1))

    def centred(self, step: float, count: int, log_error: float) -> ComplexArray:
        height = min(HIGHEST * self.part.nodes.strip, self._highest)
        _, s, weights = self.line(height, math.inf, log_error, np.ones_like)
        transforms = _transforms(weights, s, step, count, self.part.counts, log_error)
        self.error_bound = transforms.error_bound
        result = np.empty(count, dtype=complex)
        for block in _blocks(len(weights), count):
            result[block] = _powers(transforms.at(block), self.part.counts)
        return self._without_mean(np.log(result), step)

    @property
    def _highest(self) -> float:
        """The largest height of the line of integration."""
        return HEIGHT * float(self.part.rows.shifts.min())

    def _without_mean(self, logarithm: ComplexArray, step: float) -> ComplexArray:
        """Return the logarithm without e^{i y mean}, and with a finite real part, because an infinite one times 0 is NaN.

        The constants log(1 - q_i) of the losses are in neither, because the transforms are those of s.
        """
        angle_of_mean = float(self.part.counts @ self._means) * step * np.arange(len(logarithm))
        return np.asarray(np.maximum(logarithm.real, LEAST_LOG_MODULUS) + 1j * (logarithm.imag - angle_of_mean))

    def line(
        self, height: float, largest_step: float, log_error: float, factor: Callable[[ComplexArray], Array]
    ) -> tuple[ComplexArray, ComplexArray, ComplexArray]:
        """Return (w, s, weights) on the line at `height`, for a transform with an error of at most e^log_error.

        The error is at most e^{-2 pi height / distance} times the integrals of the modulus on the lines at 0 and twice the height.
        largest_step: an upper bound on the node distance. factor: returns the modulus of what the caller multiplies the weights by.
        """
        moduli, _, _ = self._moduli(2.0 * height)
        w_above, _, _ = self.part.nodes.at(self.part.nodes.step, 2.0 * height)
        # The integrals on the lines at 0, at most 1, and at 2 height, each times |e^{i y s} - 1| <= 2.
        growth = math.log(2.0 * (1.0 + float((moduli @ factor(w_above).real).max())))
        step = min(self.part.nodes.step, largest_step, 2.0 * math.pi * height / max(growth - log_error, 1.0))
        w, s, log_common = self.part.nodes.at(step, height)
        return w, s, self.part.densities(w, log_common + (self.t + 1.0) * s) / self.norms[:, None]

    def split(self, level: float) -> SplitRows:
        return SplitRows(self, *self.part.ramp_place(level))


class SplitRows:
    """Tilted rows divided by the weight e^{-e^{k (w - c)}} into their bulks B_i, with this weight, and the rest. It is a `SplitLoss`."""

    def __init__(self, tilted: TiltedRows, sharpness: float, edge: float) -> None:
        self._undivided, self._k, self._edge, self.error_bound = tilted, sharpness, edge, 0.0
        nodes = tilted.part.nodes
        # Heights are those of v, in which the nodes are evenly spaced. `rise` is dw/dv.
        self._height = min(nodes.strip, STRIP_SHARPNESS / (sharpness * nodes.line.rise(edge)))
        self._largest_step = STEP_OVER_STRIP * self._height

    def _log_share(self, w: Array | ComplexArray) -> ComplexArray:
        """Return the logarithm of the weight."""
        return log_cutoff(self._k * (w - self._edge))

    def _sum_of_moduli(self, w: ComplexArray) -> Array:
        """Return the sum of the moduli of the weight and of 1 minus the weight."""
        share = self._log_share(w)
        return np.exp(share.real) + np.abs(np.expm1(share))

    def bulk_cgf(self, rise: Array) -> Array:
        """Return log of the product of E_t[f e^{rise (L - mean)}] over the rows, where f is the weight."""
        tilted, part = self._undivided, self._undivided.part
        w, s, log_common = (result.real for result in part.nodes.at(min(part.nodes.step, self._largest_step), 0.0))
        power = tilted.t + 1.0 + rise
        terms = self._log_share(w).real + power[:, None] * s
        result = part.counts @ part.log_bulk(part.densities(w, log_common).real, terms, power)
        return np.asarray(result - tilted.cumulant - rise * tilted.mean)

    def centred(self, step: float, count: int, log_error: float, log_error_beyond: float) -> tuple[ComplexArray, ComplexArray]:
        """Return (log phi, log B - log phi) at y = 0, step, ..., without e^{i y mean}, where phi and B are products over the rows."""
        tilted = self._undivided
        counts, height = tilted.part.counts, min(HIGHEST * self._height, tilted._highest)
        w, s, weights = tilted.line(height, self._largest_step, min(log_error, log_error_beyond), self._sum_of_moduli)
        log_share = self._log_share(w)
        weights_beyond = weights * -np.expm1(log_share)
        inside = _transforms(weights * np.exp(log_share), s, step, count, counts, log_error)
        beyond = _transforms(weights_beyond, s, step, count, counts, log_error_beyond)
        sizes = float(counts @ np.abs(weights_beyond).sum(axis=1))  # at least SUM n_i |phi_i - B_i|
        self.error_bound = beyond.error_bound + (inside.error_bound + beyond.error_bound) * sizes
        phi, bulk, difference = (np.empty(count, dtype=complex) for _ in range(3))
        for block in _blocks(len(weights), count):
            products = _products_and_difference(inside.at(block), beyond.at(block), beyond.sums, counts)
            phi[block], bulk[block], difference[block] = products
        gap = difference / phi
        near = np.abs(gap) < 0.5  # there log1p of -gap has more digits than the difference of the logarithms
        log_phi, log_bulk = np.log(phi), np.log(bulk)
        log_bulk.real, log_phi.real = np.maximum(log_bulk.real, LEAST_LOG_MODULUS), np.maximum(log_phi.real, LEAST_LOG_MODULUS)
        return tilted._without_mean(log_phi, step), np.where(near, log1p_complex(np.where(near, -gap, 0.0)), log_bulk - log_phi)

    def decay(self, y: Array) -> Array:
        """Return for each of increasing y an upper bound on log |prod phi_i(v) - prod B_i(v)| for every v >= y.

        The difference is at most SUM n_i |phi_i - B_i|, because no modulus exceeds 1.
        """
        tilted = self._undivided
        result = np.full((len(tilted.part.counts), len(y)), np.inf)
        for share in SHARES:
            height = share * self._height
            w, _, _ = tilted.part.nodes.at(tilted.part.nodes.step, height)
            moduli, turn, _ = tilted._moduli(height)
            modulus_beyond = np.abs(np.expm1(self._log_share(w)))
            result = np.fmin(result, product(moduli * modulus_beyond, np.exp(-turn[:, None] * y)))
        return np.minimum.accumulate(np.log(MODULUS_RAISE * (tilted.part.counts @ np.fmin(result, 1.0))))


class Transforms:
    """The transforms SUM_j weights_ij (e^{i y s_j} - 1) of the rows i, as a product of matrices (rows, rank) and (rank, frequencies).

    sums: SUM_j weights_ij. error_bound: the sum over the rows, each times its count, of bounds on the error of a transform.
    """

    def __init__(self, left: ComplexArray | None, right: ComplexArray, sums: ComplexArray, error_bound: float) -> None:
        self._left, self._right, self.sums, self.error_bound = left, right, sums, error_bound

    def at(self, block: slice) -> ComplexArray:
        """Return the transforms at some of the frequencies, as an array of shape (rows, frequencies)."""
        right = self._right[:, block]
        return right if self._left is None else np.asarray(product(self._left, np.ascontiguousarray(right)))


def _transforms(weights: ComplexArray, s: ComplexArray, step: float, count: int, counts: Array, log_error: float) -> Transforms:
    """Return the transforms at y = 0, step, ..., (count-1) step."""
    sums = weights.sum(axis=1)
    turns = np.minimum(2.0, step * count * np.abs(s))  # at least |e^{i y s} - 1|
    heavy = np.abs(weights).sum(axis=0) * turns > LIGHT_SHARE * math.exp(log_error)
    weights, s, turns = weights[:, heavy], s[heavy], turns[heavy]
    left, right, error_bound = _low_rank(weights, turns, counts, ROUNDED * math.exp(log_error) * float(counts.sum()))
    return Transforms(left, decaying_characteristic_less_one(right, s, step, count), sums, error_bound)


def _low_rank(weights: ComplexArray, turns: Array, counts: Array, most: float) -> tuple[ComplexArray | None, ComplexArray, float]:
    """Return matrices left and right whose product is nearly `weights`, and a bound on the error of any transform.

    The bound is the sum of the moduli of weights - left right, times `turns` and the counts. It is at most `most`. If no rank suffices,
    left is None, right is `weights` and the bound is 0.

    The columns of left are an orthonormal basis of a few combinations of the columns of weights * turns, with coefficients that are like
    random numbers but the same in every run. Such a basis nearly contains all columns if the rank suffices.
    """
    scaled = weights * turns
    rows, nodes = weights.shape
    for rank in RANKS:
        if 2 * rank > min(rows, nodes):
            break
        spend(0.02 * rank * rows * nodes)
        coefficients = np.cos(np.outer(1.0 + np.arange(nodes) ** 2, 1.0 + np.arange(rank)) * GOLDEN)
        left, _ = np.linalg.qr(product(scaled, coefficients))
        right = product(left.conj().T, scaled)
        error_bound = float(counts @ np.abs(scaled - product(left, right)).sum(axis=1))
        if error_bound <= most:
            return left, right / turns, error_bound
    return None, weights, 0.0


def _blocks(rows: int, count: int) -> list[slice]:
    """Return slices of the frequencies with at most about BLOCK entries for all rows. Spends the work of the products over all of them."""
    size = max(16, BLOCK // rows)
    spend(0.3 * rows * count)
    return [slice(first, min(first + size, count)) for first in range(0, count, size)]


def _powers(change: ComplexArray, counts: Array) -> ComplexArray:
    """Return prod (1 + change_i)^count_i over the rows i."""
    result = np.ones(change.shape[1], dtype=complex)
    for row, count in zip(change, counts.tolist(), strict=True):
        result *= 1.0 + row if count == 1.0 else np.exp(count * log1p_complex(row))
    return result


def _products_and_difference(
    inside: ComplexArray, beyond: ComplexArray, beyond_sums: ComplexArray, counts: Array
) -> tuple[ComplexArray, ComplexArray, ComplexArray]:
    """Return (prod phi, prod B, prod phi - prod B) over the rows, from the transforms inside and beyond the weight.

    inside, beyond: shape (rows, frequencies). beyond_sums: those at y = 0 that a transform lacks, SUM_j weights_ij.

    For one row phi = 1 + inside + beyond, and M = phi - B = beyond + its sum. The difference is computed from phi_1 phi_2 - B_1 B_2 =
    (phi_1 - B_1) phi_2 + B_1 M_2, in which nothing cancels.
    """
    all_phi, all_bulk = (np.ones(inside.shape[1], dtype=complex) for _ in range(2))
    difference = np.zeros(inside.shape[1], dtype=complex)
    for inside_of_one, beyond_of_one, beyond_sum, count in zip(inside, beyond, beyond_sums.tolist(), counts.tolist(), strict=True):
        change = inside_of_one + beyond_of_one
        phi, m = 1.0 + change, beyond_of_one + beyond_sum
        if count == 1.0:
            bulk = phi - m
        else:  # the same for phi^count and B^count; log_ratio is log(B / phi)
            log_phi, log_ratio = log1p_complex(change), log1p_complex(-m / phi)
            phi, bulk = np.exp(count * log_phi), np.exp(count * log1p_complex(inside_of_one - beyond_sum))
            m = np.where(np.abs(count * log_ratio) < 1.0, -phi * np.expm1(count * log_ratio), phi - bulk)
        difference = difference * phi + all_bulk * m
        all_phi, all_bulk = all_phi * phi, all_bulk * bulk
    return all_phi, all_bulk, difference

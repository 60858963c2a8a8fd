"""Tilted losses with closed forms: normal losses, finitely many atoms, losses with a known complex CGF, and losses of bounded range.

integral.py computes delta from the characteristic function of a privacy loss L under a tilt t > 0. The tilt weighs each outcome by
e^{t L - K(t)} and so moves the mean of L to where delta is decided. K(t) = log E[e^{t L}] is the CGF of L under P, and E_t the mean under
the tilt. The classes implement the protocol `Tilted` (tilted.py), on whose accuracy the bounds of integral.py rely. `centred` returns
log E_t[e^{i y (L - mean)}] at y = 0, step, 2 step, ..., and `centred_at`, which only a `pointwise` loss has, at some multiples of `step`.
Here both err by rounding alone, so they do not use `log_error`, the error that is allowed. For all v >= y, `decay` is an upper bound on
log |E_t[e^{i v L}]|. `rise(x)` is one on K(t + x) - K(t). A true `exact_cgf` says that the CGF is no mere bound, and a true `finite_sum`
that the characteristic function is a sum of `terms` terms.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import ClassVar, TypeVar

from dpcli.base.errors import NotRepresentable
from dpcli.base.values import dataclass
from dpcli.numerics.arrays import Array, ComplexArray, IndexArray, np
from dpcli.numerics.logspace import log1p_complex, log_sum
from dpcli.numerics.products import characteristic_less_one
from dpcli.numerics.work import hold

# Soundness and speed: smaller weights are left out. No error bound counts them: they are far below the rounding of the sum, which is 1.
LIGHT = 1e-45
LEAST_WEIGHT = 1e-300  # replaces smaller weights, because zero has no logarithm
# Accuracy of the values, for which integral.py allows.
LOG_COTH_ERROR = 1e-12  # exceeds the error of the logarithm in `TiltedRange.decay`
MEAN_STEP = 1e-30  # h of K'(t) = Im K(t + i h) / h: nothing is subtracted, and the error of order h^2 is below the rounding
# h of K''(t) = 2 (K(t) - Re K(t + i h)) / h^2, per unit of min(t, 1). The subtraction leaves an error of about 2e-6 |K(t)| / min(t, 1)^2.
# Only the size of this variance counts: the search for the last node starts from it, and it scales allowances for rounding.
VARIANCE_STEP = 1e-5
# For `TiltedRange`, with its c and e.
SERIES_UP_TO = 2.0  # largest modulus of (c + i y) e for which the power series is used, because it loses no digits there
SMALL_RANGE = 0.05  # largest c e at which mean and variance are power series; what they leave out is below 1e-10 of them
LARGE_RANGE = 300.0  # from this c e on, e^{-2 c e} is nothing next to 1, and sinh(c e)^2 would overflow soon
SERIES_TERMS = 39  # terms of `sinhc_slope`; for |a| and b up to 8 the first omitted one is far below the rounding of the sum

ArrayOrComplex = TypeVar("ArrayOrComplex", Array, ComplexArray)


@dataclass(frozen=True, slots=True)
class TiltedNormal:
    """A loss that is normal under the tilt, as a Gaussian mechanism's is: L ~ N(mean, variance). cumulant: K(t)."""

    cumulant: float
    mean: float
    variance: float
    exact_cgf: ClassVar[bool] = True
    pointwise: ClassVar[bool] = True
    terms: ClassVar[int] = 1

    def centred(self, step: float, count: int, log_error: float) -> ComplexArray:
        return self.centred_at(step, np.arange(count), log_error)

    def centred_at(self, step: float, multiples: IndexArray, log_error: float) -> ComplexArray:
        y = step * multiples
        return np.asarray(-0.5 * self.variance * y * y, dtype=complex)

    def decay(self, y: Array) -> Array:
        return -0.5 * self.variance * y * y

    def rise(self, rise: Array) -> Array:
        return np.asarray(rise * self.mean + 0.5 * self.variance * rise * rise)


class TiltedAtoms:
    """A loss with finitely many values. Its characteristic function does not decay, so `decay` returns the trivial bound 0.

    Args:
        log_weights: logarithms of the tilted probabilities, up to a common constant.
        losses: the values.
        cumulant: K(t).
    """

    exact_cgf = pointwise = finite_sum = True

    def __init__(self, log_weights: Array, losses: Array, cumulant: float) -> None:
        self.cumulant = cumulant
        self._weights = np.exp(log_weights - np.logaddexp.reduce(log_weights))
        self.mean = float((self._weights * losses).sum())
        self._losses = losses - self.mean
        self.variance = float((self._weights * self._losses**2).sum())

    @property
    def terms(self) -> int:
        """The number of terms of the characteristic function."""
        return len(self._weights)

    def centred(self, step: float, count: int, log_error: float) -> ComplexArray:
        return self.about(self.mean, step, count)

    def centred_at(self, step: float, multiples: IndexArray, log_error: float) -> ComplexArray:
        return self.about(self.mean, step, multiples)

    def about(self, mean: float, step: float, multiples: int | IndexArray) -> ComplexArray:
        """Return `centred` or `centred_at` with the loss measured from `mean` instead of its own mean.

        multiples: as in `characteristic_less_one`.
        """
        heavy = self._weights > LIGHT
        losses = self._losses[heavy] + (self.mean - mean)
        with np.errstate(divide="ignore"):
            return log1p_complex(characteristic_less_one(self._weights[heavy], losses, step, multiples))

    def decay(self, y: Array) -> Array:
        return np.zeros(len(y))

    def rise(self, rise: Array) -> Array:
        """Return an upper bound on K(t + rise) - K(t). Weights below LEAST_WEIGHT are rounded up to it."""
        hold(float(len(rise) * len(self._losses)))
        return log_sum(np.log(np.maximum(self._weights, LEAST_WEIGHT)) + rise[:, None] * self._losses) + rise * self.mean


class TiltedCgf:
    """A loss whose CGF is known at complex arguments."""

    exact_cgf = pointwise = True
    terms = 10  # a closed form takes about as long as so many terms

    def __init__(self, cgf: Callable[[ComplexArray], ComplexArray], t: float, decay: Callable[[Array], Array]) -> None:
        self._cgf, self._t, self.decay = cgf, t, decay
        step = VARIANCE_STEP * min(t, 1.0)
        if step * step == 0.0:
            raise NotRepresentable("its tilt is too small for floating point")
        at_tilt, above_tilt = (complex(cgf(np.array([t + 1j * height]))[0]) for height in (MEAN_STEP, step))
        self.cumulant, self.mean = at_tilt.real, at_tilt.imag / MEAN_STEP
        self.variance = max(2.0 * (at_tilt - above_tilt).real / step**2, 0.0)

    def centred(self, step: float, count: int, log_error: float) -> ComplexArray:
        return self.centred_at(step, np.arange(count), log_error)

    def centred_at(self, step: float, multiples: IndexArray, log_error: float) -> ComplexArray:
        y = step * multiples
        values, at_tilt = self._cgf(np.asarray(self._t + 1j * y, dtype=np.complex128)), self._cgf(np.array([self._t + 0j]))[0]
        return np.asarray(values - at_tilt - 1j * y * self.mean)

    def rise(self, rise: Array) -> Array:
        return np.asarray(self._cgf(np.asarray(self._t + rise, dtype=np.complex128)).real - self.cumulant)


class TiltedRange:
    """A loss with tilted density c e^{c x} / (2 sinh(c e)) on [-e, e]. slope: c > 0. epsilon: e. cumulant: K(t)."""

    exact_cgf = True

    def __init__(self, slope: float, epsilon: float, cumulant: float) -> None:
        self.cumulant, self._slope, self._epsilon = cumulant, slope, epsilon
        a = slope * epsilon  # c e
        if a < SMALL_RANGE:  # because the differences below would cancel
            self.mean = epsilon * a / 3.0 * (1.0 - a * a / 15.0 * (1.0 - 2.0 * a * a / 21.0))
            self.variance = epsilon * epsilon / 3.0 * (1.0 - a * a / 5.0 * (1.0 - 10.0 * a * a / 63.0))
        else:
            self.mean = epsilon / math.tanh(a) - 1.0 / slope
            self.variance = 1.0 / (slope * slope) - (epsilon / math.sinh(a)) ** 2 if a < LARGE_RANGE else 1.0 / (slope * slope)

    def centred(self, step: float, count: int, log_error: float) -> ComplexArray:
        """Return log(sinhc((c + i y) e) / sinhc(c e)) - i y mean, where sinhc(w) = sinh(w) / w.

        n steps multiply the error by n, so no digits may be lost by cancellation.
        """
        y = step * np.arange(count)
        z = np.asarray(self._slope + 1j * y, dtype=np.complex128)
        e, a = self._epsilon, self._slope * self._epsilon
        near = np.abs(z) * e <= SERIES_UP_TO
        result = np.empty(count, dtype=complex)
        if near.any():
            # sinhc(z e) / sinhc(a) is 1 plus the difference of both over sinhc(a), which is small with y.
            difference = e * e * y[near] * (2j * self._slope - y[near])  # (z e)^2 - a^2
            result[near] = log1p_complex(difference * sinhc_slope(z[near] * e, a) * (a / math.sinh(a)))
        if not near.all():
            # sinh(z e) / sinh(a) is e^{i y e} (1 - e^{-2 z e}) / (1 - e^{-2 a}), and a / (z e) is 1 / (1 + i y / c).
            z, y = z[~near], y[~near]
            # This is 1 - e^{-2 i y e}, without a rounding error that does not vanish with y and that n steps would multiply.
            turn = 2.0 * np.sin(e * y) ** 2 + 1j * np.sin(2.0 * e * y)
            turned = log1p_complex(np.asarray(turn * math.exp(-2.0 * a) / -math.expm1(-2.0 * a), dtype=np.complex128))
            result[~near] = turned + 1j * y * e - log1p_complex(np.asarray(1j * y / self._slope, dtype=np.complex128))
        return np.asarray(result - 1j * step * np.arange(count) * self.mean)

    def decay(self, y: Array) -> Array:
        """Return the logarithm of coth(c e) / |1 + i y / c|, at most 0. It is a bound because |sinh((c + i y) e)| <= cosh(c e)."""
        log_coth = -math.log(math.tanh(min(self._slope * self._epsilon, LARGE_RANGE)))
        return np.asarray(np.minimum(log_coth + LOG_COTH_ERROR - 0.5 * np.log1p((y / self._slope) ** 2), 0.0))


def sinhc_slope(a: ArrayOrComplex, b: float) -> ArrayOrComplex:
    """Return (sinhc(a) - sinhc(b)) / (a^2 - b^2) by its power series, for |a| and b up to 8. All terms are positive if a is real."""
    # sinhc(a) is SUM a^2n / (2n+1)!, and (a^2n - b^2n) / (a^2 - b^2) is the sum of a^2j b^{2(n-1-j)} for j < n, here `between`.
    between, total, power, factorial = np.ones_like(a), np.zeros_like(a), 1.0, 1.0
    for n in range(1, SERIES_TERMS + 1):
        factorial *= 2.0 * n * (2.0 * n + 1.0)
        total = total + between / factorial
        power *= b * b
        between = between * a * a + power
    return total

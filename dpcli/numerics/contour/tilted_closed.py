"""Tilted losses in closed form: normal, finitely many atoms, a CGF known at complex arguments, a bounded range."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import ClassVar, TypeVar

from dpcli.base.values import dataclass
from dpcli.numerics.arrays import Array, ComplexArray, np
from dpcli.numerics.logspace import log1p_complex, log_sum
from dpcli.numerics.products import turned_less_one
from dpcli.numerics.work import hold

LIGHT = 1e-45  # weights below this are left out
NEAR = 2.0  # (c + i y) e up to which the power series loses no digits


@dataclass(frozen=True, slots=True)
class TiltedNormal:
    """L ~ N(mean, variance) under the tilt. cumulant: K(t)."""

    cumulant: float
    mean: float
    variance: float
    sharp: ClassVar[bool] = True

    def centred(self, step: float, count: int, log_error: float) -> ComplexArray:
        y = step * np.arange(count)
        return np.asarray(-0.5 * self.variance * y * y, dtype=complex)

    def decay(self, y: Array) -> Array:
        return -0.5 * self.variance * y * y

    def rise(self, rise: Array) -> Array:
        return np.asarray(rise * self.mean + 0.5 * self.variance * rise * rise)


class TiltedAtoms:
    """Finitely many outcomes; the characteristic function does not decay, so `decay` claims nothing.

    log_weights: of the tilted outcomes, up to a factor. cumulant: K(t).
    """

    sharp = True

    def __init__(self, log_weights: Array, losses: Array, cumulant: float) -> None:
        self.cumulant = cumulant
        self._weights = np.exp(log_weights - np.logaddexp.reduce(log_weights))
        self.mean = float((self._weights * losses).sum())
        self._losses = losses - self.mean
        self.variance = float((self._weights * self._losses**2).sum())

    def centred(self, step: float, count: int, log_error: float) -> ComplexArray:
        return self.about(self.mean, step, count)

    def about(self, mean: float, step: float, count: int) -> ComplexArray:
        """`centred`, about another mean."""
        heavy = self._weights > LIGHT
        with np.errstate(divide="ignore"):
            return log1p_complex(turned_less_one(self._weights[heavy], self._losses[heavy] + (self.mean - mean), step, count))

    def decay(self, y: Array) -> Array:
        return np.zeros(len(y))

    def rise(self, rise: Array) -> Array:
        """K(t + rise) - K(t), from above: no weight is taken as less than 1e-300."""
        hold(float(len(rise) * len(self._losses)))
        return log_sum(np.log(np.maximum(self._weights, 1e-300)) + rise[:, None] * self._losses) + rise * self.mean


class TiltedCgf:
    """A loss whose K is known at complex z. decay: bounds of its characteristic function, as of `Tilted`."""

    sharp = True

    def __init__(self, cgf: Callable[[ComplexArray], ComplexArray], t: float, decay: Callable[[Array], Array]) -> None:
        self._cgf, self._t, self.decay = cgf, t, decay
        small = 1e-5 * min(t, 1.0)
        ahead = complex(cgf(np.array([t + 1e-30j]))[0])
        self.cumulant, self.mean = ahead.real, ahead.imag / 1e-30
        self.variance = max(-2.0 * (complex(cgf(np.array([t + 1j * small]))[0]) - ahead).real / small**2, 0.0)

    def centred(self, step: float, count: int, log_error: float) -> ComplexArray:
        y = step * np.arange(count)
        z = np.asarray(self._t + 1j * y, dtype=np.complex128)
        at = self._cgf(z)
        return np.asarray(at - self._cgf(np.array([self._t + 0j]))[0] - 1j * y * self.mean)

    def rise(self, rise: Array) -> Array:
        return np.asarray(self._cgf(np.asarray(self._t + rise, dtype=np.complex128)).real - self.cumulant)


ArrayOrComplex = TypeVar("ArrayOrComplex", Array, ComplexArray)


class TiltedRange:
    """Density c e^{c x} / (2 sinh(c e)) on [-e, e], c > 0. cumulant: K(t)."""

    sharp = True

    def __init__(self, slope: float, epsilon: float, cumulant: float) -> None:
        self.cumulant, self._slope, self._epsilon = cumulant, slope, epsilon
        a = slope * epsilon
        if a < 0.05:  # the differences below would cancel
            self.mean = epsilon * a / 3.0 * (1.0 - a * a / 15.0 * (1.0 - 2.0 * a * a / 21.0))
            self.variance = epsilon * epsilon / 3.0 * (1.0 - a * a / 5.0 * (1.0 - 10.0 * a * a / 63.0))
        else:
            self.mean = epsilon / math.tanh(a) - 1.0 / slope
            self.variance = 1.0 / (slope * slope) - (epsilon / math.sinh(a)) ** 2 if a < 300.0 else 1.0 / (slope * slope)

    def centred(self, step: float, count: int, log_error: float) -> ComplexArray:
        """log of sinhc((c + i y) e) / sinhc(c e), less i y mean, where sinhc(w) = sinh(w) / w; n steps have n times the error of one, so
        that none may be lost to cancellation."""
        y = step * np.arange(count)
        z = np.asarray(self._slope + 1j * y, dtype=np.complex128)
        e, a = self._epsilon, self._slope * self._epsilon
        near = np.abs(z) * e <= NEAR
        result = np.empty(count, dtype=complex)
        if near.any():
            apart = e * e * y[near] * (2j * self._slope - y[near])  # of the squares
            result[near] = log1p_complex(apart * sinhc_slope(z[near] * e, a) * (a / math.sinh(a)))
        if not near.all():
            z, y = z[~near], y[~near]
            # 1 - e^{-2 i y e}: no constant, which n steps would multiply
            turn = 2.0 * np.sin(e * y) ** 2 + 1j * np.sin(2.0 * e * y)
            turned = log1p_complex(np.asarray(turn * math.exp(-2.0 * a) / -math.expm1(-2.0 * a), dtype=np.complex128))
            result[~near] = turned + 1j * y * e - log1p_complex(np.asarray(1j * y / self._slope, dtype=np.complex128))
        return np.asarray(result - 1j * step * np.arange(count) * self.mean)

    def decay(self, y: Array) -> Array:
        """|sinh((c + i y) e)| <= cosh(c e): at most coth(c e) / |1 + i y / c|, which falls."""
        log_coth = -math.log(math.tanh(min(self._slope * self._epsilon, 300.0)))
        return np.asarray(np.minimum(log_coth + 1e-12 - 0.5 * np.log1p((y / self._slope) ** 2), 0.0))


def sinhc_slope(a: ArrayOrComplex, b: float) -> ArrayOrComplex:
    """(sinhc(a) - sinhc(b)) / (a^2 - b^2) by its power series, for a and b up to 8; of positive terms where a is real."""
    between, total, power, factorial = np.ones_like(a), np.zeros_like(a), 1.0, 1.0
    for n in range(1, 40):
        factorial *= 2.0 * n * (2.0 * n + 1.0)
        total = total + between / factorial
        power *= b * b
        between = between * a * a + power
    return total

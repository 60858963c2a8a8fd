"""A loss of density proportional to e^{c x} on an interval around 0, under a tilt."""

from __future__ import annotations

import math
from typing import TypeVar

from dpcli.numerics.arrays import Array, ComplexArray, np
from dpcli.numerics.contour.rotations import log1p_complex

ArrayOrComplex = TypeVar("ArrayOrComplex", Array, ComplexArray)
NEAR = 2.0  # (c + i y) e up to which the power series loses no digits


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
        found = np.empty(count, dtype=complex)
        if near.any():
            apart = e * e * y[near] * (2j * self._slope - y[near])  # of the squares
            found[near] = log1p_complex(apart * sinhc_slope(z[near] * e, a) * (a / math.sinh(a)))
        if not near.all():
            z, y = z[~near], y[~near]
            # 1 - e^{-2 i y e}: no constant, which n steps would multiply
            turn = 2.0 * np.sin(e * y) ** 2 + 1j * np.sin(2.0 * e * y)
            turned = log1p_complex(np.asarray(turn * math.exp(-2.0 * a) / -math.expm1(-2.0 * a), dtype=np.complex128))
            found[~near] = turned + 1j * y * e - log1p_complex(np.asarray(1j * y / self._slope, dtype=np.complex128))
        return np.asarray(found - 1j * step * np.arange(count) * self.mean)

    def decay(self, y: Array) -> Array:
        """|sinh((c + i y) e)| <= cosh(c e): at most coth(c e) / |1 + i y / c|, which falls."""
        log_coth = -math.log(math.tanh(min(self._slope * self._epsilon, 300.0)))
        return np.asarray(np.minimum(log_coth + 1e-12 - 0.5 * np.log1p((y / self._slope) ** 2), 0.0))

    def split(self, level: float) -> None:
        """Taken whole."""


def sinhc_slope(a: ArrayOrComplex, b: float) -> ArrayOrComplex:
    """(sinhc(a) - sinhc(b)) / (a^2 - b^2) by its power series, for a and b up to 8; of positive terms where a is real."""
    between, total, power, factorial = np.ones_like(a), np.zeros_like(a), 1.0, 1.0
    for n in range(1, 40):
        factorial *= 2.0 * n * (2.0 * n + 1.0)
        total = total + between / factorial
        power *= b * b
        between = between * a * a + power
    return total

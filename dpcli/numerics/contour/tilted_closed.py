"""Tilted losses with a closed form: normal, finitely many atoms, or any CGF that is known at complex arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from dpcli.base.values import dataclass
from dpcli.numerics.arrays import Array, ComplexArray, np
from dpcli.numerics.contour.rotations import log1p_complex, turned_less_one
from dpcli.numerics.logspace import log_sum
from dpcli.numerics.work import hold


@dataclass(frozen=True, slots=True)
class TiltedNormal:
    """L ~ N(mean, variance) under the tilt. cumulant: K(t)."""

    cumulant: float
    mean: float
    variance: float
    sharp: ClassVar[bool] = True

    def centred(self, step: float, count: int, log_error: float) -> ComplexArray:
        """Exactly -variance y^2 / 2."""
        y = step * np.arange(count)
        return np.asarray(-0.5 * self.variance * y * y, dtype=complex)

    def decay(self, y: Array) -> Array:
        """Exact."""
        return -0.5 * self.variance * y * y

    def rise(self, rise: Array) -> Array:
        """K(t + rise) - K(t)."""
        return np.asarray(rise * self.mean + 0.5 * self.variance * rise * rise)

    def split(self, level: float) -> None:
        """Taken whole."""


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
        """log1p(E expm1), exact up to rounding."""
        with np.errstate(divide="ignore"):
            return log1p_complex(turned_less_one(self._weights, self._losses, step, count))

    def decay(self, y: Array) -> Array:
        """0: the atoms may line up again at any y."""
        return np.zeros(len(y))

    def rise(self, rise: Array) -> Array:
        """K(t + rise) - K(t), from above: no weight is taken as less than 1e-300."""
        hold(float(len(rise) * len(self._losses)))
        return log_sum(np.log(np.maximum(self._weights, 1e-300)) + rise[:, None] * self._losses) + rise * self.mean

    def split(self, level: float) -> None:
        """Taken whole."""


class TiltedCgf:
    """A loss whose K is known at complex z; the decay is that of its absolutely continuous part at best, so nothing is claimed."""

    sharp = True

    def __init__(self, cgf: Callable[[ComplexArray], ComplexArray], t: float) -> None:
        self._cgf, self._t = cgf, t
        small = 1e-5 * min(t, 1.0)
        ahead = complex(cgf(np.array([t + 1e-30j]))[0])
        self.cumulant, self.mean = ahead.real, ahead.imag / 1e-30
        self.variance = max(-2.0 * (complex(cgf(np.array([t + 1j * small]))[0]) - ahead).real / small**2, 0.0)

    def centred(self, step: float, count: int, log_error: float) -> ComplexArray:
        """K(t+iy) - K(t) - i y mean."""
        y = step * np.arange(count)
        z = np.asarray(self._t + 1j * y, dtype=np.complex128)
        at = self._cgf(z)
        return np.asarray(at - self._cgf(np.array([self._t + 0j]))[0] - 1j * y * self.mean)

    def decay(self, y: Array) -> Array:
        """0."""
        return np.zeros(len(y))

    def rise(self, rise: Array) -> Array:
        """K(t + rise) - K(t)."""
        return np.asarray(self._cgf(np.asarray(self._t + rise, dtype=np.complex128)).real - self.cumulant)

    def split(self, level: float) -> None:
        """Taken whole."""

"""Discrete Gaussian noise on integers."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import ClassVar

from dpcli.base.errors import NotRepresentable
from dpcli.base.stated import quotient, squared
from dpcli.base.values import dataclass
from dpcli.mechanisms.mechanism import Mechanism
from dpcli.numerics.arrays import Array, np
from dpcli.numerics.closed.conversion import zcdp_epsilon
from dpcli.numerics.contour.tilted_closed import TiltedAtoms
from dpcli.numerics.roots import bracket_root
from dpcli.numerics.tails import Tails, atom_tails
from dpcli.numerics.work import spend

SMOOTH = 3.0  # from here on the lattice sums equal their integrals to e^-170
MAX_SUM = 2000.0  # largest sigma whose (epsilon, delta) curve is summed


@dataclass(frozen=True, slots=True)
class DiscreteGaussianLoss:
    """K(z) = z(z+1) s^2/(2 sigma^2) + log(theta(z s) / theta(0)), theta(c) = sum_y e^{-(y-c)^2/(2 sigma^2)} <= theta(0)."""

    decays: ClassVar[bool] = False

    sigma: float
    sensitivity: int

    def cgf(self, z: Array) -> Array:
        """Exact up to rounding; the second term is at most 0 and is dropped where it is below e^-170."""
        ratio = self.sensitivity / self.sigma
        bound = 0.5 * ratio * ratio * z * (z + 1.0)
        if self.sigma >= SMOOTH:
            return bound
        shift = z * self.sensitivity
        shift = shift - np.round(shift)
        y = np.arange(-math.ceil(40.0 * self.sigma) - 2, math.ceil(40.0 * self.sigma) + 3)
        scale = 2.0 * self.sigma * self.sigma
        log_theta = np.logaddexp.reduce(-((y[None, :] - shift[:, None]) ** 2) / scale, axis=1)
        log_top = float(np.logaddexp.reduce(-(y**2) / scale))
        return np.asarray(np.maximum(bound + np.minimum(log_theta - log_top, 0.0) + 1e-15 * (1.0 + bound), 0.0))

    def tilted(self, t: float) -> TiltedAtoms:
        """The lattice within forty sigma; the rest weighs less than e^-800."""
        s, scale = self.sensitivity, 2.0 * self.sigma * self.sigma
        if self.sigma > MAX_SUM:
            raise NotRepresentable("a discrete Gaussian of sigma above 2000 has too many outcomes")
        x = np.arange(-math.ceil(40.0 * self.sigma) - 2.0, math.ceil(40.0 * self.sigma) + 3.0) + s + round(t * s)
        spend(3.0 * len(x))
        loss = (2.0 * x * s - s * s) / scale
        return TiltedAtoms(-((x - s) ** 2) / scale + t * loss, loss, float(self.cgf(np.array([t]))[0]))

    def tails(self, at: Array) -> Tails:
        """The lattice within forty sigma of both centres; what is left out weighs less than e^-800 and counts as infinite loss."""
        if self.sigma > MAX_SUM or self.sensitivity > 100.0 * max(self.sigma, 1.0):
            raise NotRepresentable("a discrete Gaussian of sigma above 2000 has too many outcomes")
        s, scale, reach = self.sensitivity, 2.0 * self.sigma * self.sigma, math.ceil(40.0 * self.sigma) + 2
        x = np.arange(-reach, s + reach + 1, dtype=float)
        log_total = float(np.logaddexp.reduce(-((x - round(0.5 * s)) ** 2) / scale))
        log_p, log_q = -((x - s) ** 2) / scale - log_total, -(x**2) / scale - log_total
        return atom_tails(at, (2.0 * x * s - s * s) / scale, log_p, log_q)


@lru_cache(maxsize=64)
def _outcomes(sigma: float, sensitivity: int) -> tuple[Array, Array]:
    """(masses rounded up, losses), increasing in the loss, where the mass under P or Q is above e^-800."""
    scale = 2.0 * sigma * sigma
    x = np.arange(sensitivity - math.ceil(40.0 * sigma) - 2, sensitivity + math.ceil(40.0 * sigma) + 3, dtype=float)
    mass = np.exp(-((x - sensitivity) ** 2) / scale)
    return mass / mass.sum() * (1.0 + 1e-13), (2.0 * x * sensitivity - sensitivity * sensitivity) / scale


@dataclass(frozen=True, slots=True)
class DiscreteGaussian(Mechanism):
    """Noise with probability proportional to e^{-x^2/(2 sigma^2)} on the integers; s = integer sensitivity.

    rho = s^2/(2 sigma^2), as for the continuous one: Canonne, Kamath, Steinke 2020, arXiv:2004.00010, Theorem 4.
    Attained: by an integer that moves by s.
    """

    sigma: float
    sensitivity: int

    def approx_dp(self, delta: float) -> float:
        """Exact sum of P - e^eps Q where the loss exceeds eps; above sigma = 2000 the zCDP conversion, an upper bound."""
        if delta <= 0.0:
            return math.inf
        bound = zcdp_epsilon(self.zcdp(), delta)
        if self.sigma > MAX_SUM or self.sensitivity > 100.0 * max(self.sigma, 1.0):
            return bound
        excess = self._excess(delta)
        return 0.0 if excess(0.0) <= 0.0 else min(bound, bracket_root(excess, 0.0, bound)[1])

    def _excess(self, delta: float) -> Callable[[float], float]:
        """delta(eps) / delta - 1, rounded up, as a function of eps."""
        mass, loss = _outcomes(self.sigma, self.sensitivity)

        def excess(epsilon: float) -> float:
            first = int(np.searchsorted(loss, epsilon, side="right"))
            spend(0.2 * (len(loss) - first))
            return float((mass[first:] * -np.expm1(epsilon - loss[first:])).sum()) / delta - 1.0

        return excess

    def zcdp(self) -> float:
        return squared(quotient(self.sensitivity, self.sigma), 2)

    def attained(self) -> bool:
        return True

    def losses(self) -> tuple[DiscreteGaussianLoss]:
        return (DiscreteGaussianLoss(self.sigma, self.sensitivity),)

"""Discrete Gaussian noise on integers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from dpcli.fields import COUNT, POSITIVE, Key
from dpcli.mechanisms.base import Mechanism, Neighbours, Spec
from dpcli.numerics.conversion import zcdp_epsilon
from dpcli.numerics.roots import bracket_root
from dpcli.registry import lazy

if TYPE_CHECKING:
    import numpy as np

    from dpcli.numerics.roots import Array
else:
    np = lazy("numpy")

SMOOTH = 3.0  # from here on the lattice sums equal their integrals to e^-170
MAX_SUM = 2000.0  # largest sigma whose (epsilon, delta) curve is summed


@dataclass(frozen=True, slots=True)
class DiscreteGaussianLoss:
    """K(z) = z(z+1) s^2/(2 sigma^2) + log(theta(z s) / theta(0)), theta(c) = sum_y e^{-(y-c)^2/(2 sigma^2)} <= theta(0)."""

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
        theta = np.exp(-((y[None, :] - shift[:, None]) ** 2) / scale).sum(axis=1)
        return np.asarray(np.maximum(bound + np.minimum(np.log(theta / np.exp(-(y**2) / scale).sum()), 0.0) + 1e-15, 0.0))


@dataclass(frozen=True, slots=True)
class DiscreteGaussian(Mechanism):
    """Noise with probability proportional to e^{-x^2/(2 sigma^2)} on the integers; s = integer sensitivity.

    rho = s^2/(2 sigma^2), as for the continuous one: Canonne, Kamath, Steinke 2020, arXiv:2004.00010, Theorem 4.
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
        s, scale = self.sensitivity, 2.0 * self.sigma * self.sigma
        x = np.arange(s - math.ceil(40.0 * self.sigma) - 2, s + math.ceil(40.0 * self.sigma) + 3, dtype=float)
        mass = np.exp(-((x - s) ** 2) / scale)
        mass = mass / mass.sum() * (1.0 + 1e-13)
        loss = (2.0 * x * s - s * s) / scale

        def excess(epsilon: float) -> float:
            above = loss > epsilon
            return float((mass[above] * -np.expm1(epsilon - loss[above])).sum()) / delta - 1.0

        return excess

    def zcdp(self) -> float:
        return 0.5 * (self.sensitivity / self.sigma) ** 2

    def losses(self) -> tuple[DiscreteGaussianLoss]:
        return (DiscreteGaussianLoss(self.sigma, self.sensitivity),)


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscreteGaussianSpec(Spec):
    """Adds discrete Gaussian noise to an integer query."""

    sigma: Annotated[float, Key("sigma of the noise e^{-x^2/(2 sigma^2)}", POSITIVE)]
    sensitivity: Annotated[int, Key("sensitivity of the integer query under the file's adjacency, taken as stated", COUNT)] = 1

    def problems(self) -> Iterator[tuple[str, str, str]]:
        if self.sigma < 0.05 * self.sensitivity:
            yield "sigma", f"at least sensitivity / 20 = {self.sensitivity / 20.0:g} (less is no privacy)", repr(self.sigma)

    def resolve(self, neighbours: Neighbours) -> Mechanism:
        return DiscreteGaussian(self.sigma, self.sensitivity * neighbours.group)

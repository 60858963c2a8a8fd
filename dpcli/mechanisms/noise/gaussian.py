"""Gaussian noise, unsampled: exact in every representation."""

from __future__ import annotations

from typing import ClassVar

from dpcli.base.stated import squared
from dpcli.base.values import dataclass
from dpcli.mechanisms.mechanism import Mechanism
from dpcli.numerics.arrays import Array
from dpcli.numerics.contour.tilted_closed import TiltedNormal
from dpcli.numerics.tails import Tails, normal_tails


@dataclass(frozen=True, slots=True)
class GaussianLoss:
    """L ~ N(mu^2/2, mu^2): K(z) = mu^2 z (z+1) / 2. The reverse direction is its mirror image."""

    mirrored: ClassVar[bool] = True

    mu: float

    def cgf(self, z: Array) -> Array:
        return 0.5 * self.mu * self.mu * z * (z + 1.0)

    def tilted(self, t: float) -> TiltedNormal:
        mu2 = self.mu * self.mu
        return TiltedNormal(0.5 * mu2 * t * (t + 1.0), mu2 * (t + 0.5), mu2)

    def tails(self, at: Array) -> Tails:
        """L = mu x - mu^2/2 for x ~ N(mu, 1) under P and N(0, 1) under Q."""
        return normal_tails(at / self.mu + 0.5 * self.mu, self.mu, 0.0)


@dataclass(frozen=True, slots=True)
class Gaussian(Mechanism):
    """Gaussian noise with mu = L2 sensitivity / standard deviation.

    Source: analytic form Balle & Wang 2018, arXiv:1805.06530, Theorem 8; Renyi divergence Mironov 2017, arXiv:1702.07476,
    Proposition 7; zCDP Bun & Steinke 2016, arXiv:1605.02065, Proposition 6.
    Attained: by a sum to which every record that comes or goes adds its whole bound in one direction (and to which a replaced one adds
    it in that direction before, and in the opposite one after): it moves by the sensitivity.
    """

    mu: float

    def approx_dp(self, delta: float) -> float:
        from dpcli.numerics.closed.normal import gaussian_epsilon_upper

        return gaussian_epsilon_upper(self.mu, delta)

    def zcdp(self) -> float:
        return squared(self.mu, 2)

    def gdp(self) -> float:
        return self.mu

    def attained(self) -> bool:
        return True

    def losses(self) -> tuple[GaussianLoss]:
        return (GaussianLoss(self.mu),)

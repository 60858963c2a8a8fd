"""Gaussian noise without sampling, for which every bound is exact.

mu is the L2 sensitivity over the standard deviation of the noise. (P, Q) is then the pair (N(mu, 1), N(0, 1)). Other mechanisms use this
one as the cost of a Gaussian pair, such as a whole training run with correlated noise.

A mechanism has upper bounds on its cost (mechanism.py): `approx_dp` returns epsilon at a delta and `zcdp` rho. `losses` returns the privacy
losses log dP/dQ of dominating pairs (P, Q). `attained` says whether some data are claimed to attain these pairs. Of a loss L, `cgf` bounds
K(z) = log E_P[e^{z L}] from above, and `tails` returns log tail probabilities under P and Q. `tilted` returns the loss under P times
e^{t L}, normalised.
"""

from __future__ import annotations

from typing import ClassVar

from dpcli.base.stated import squared  # exact for stated decimals, rounded up once
from dpcli.base.values import dataclass
from dpcli.mechanisms.mechanism import Mechanism
from dpcli.numerics.arrays import Array
from dpcli.numerics.contour.tilted_closed import TiltedNormal
from dpcli.numerics.tails import Tails, normal_tails


@dataclass(frozen=True, slots=True)
class GaussianLoss:
    """The loss L ~ N(mu^2/2, mu^2), with the CGF K(z) = mu^2 z (z+1) / 2. The loss of the other direction has the same law."""

    mirrored: ClassVar[bool] = True  # the loss of (Q, P) has the same law

    mu: float

    def cgf(self, z: Array) -> Array:
        return 0.5 * self.mu * self.mu * z * (z + 1.0)

    def tilted(self, t: float) -> TiltedNormal:
        mu_squared = self.mu * self.mu
        return TiltedNormal(cumulant=0.5 * mu_squared * t * (t + 1.0), mean=mu_squared * (t + 0.5), variance=mu_squared)

    def tails(self, at: Array) -> Tails:
        """Return the tails of L = mu x - mu^2/2, where x ~ N(mu, 1) under P and x ~ N(0, 1) under Q."""
        return normal_tails(at / self.mu + 0.5 * self.mu, self.mu, 0.0)


@dataclass(frozen=True, slots=True)
class Gaussian(Mechanism):
    """Gaussian noise with mu = L2 sensitivity / standard deviation.

    A sum attains the pair if every added or removed record contributes its whole bound in one direction. A replaced record contributes it
    in this direction before, and in the opposite direction after. The sum then moves by the sensitivity.

    Source: analytic form Balle & Wang 2018, arXiv:1805.06530, Theorem 8; Renyi divergence Mironov 2017, arXiv:1702.07476,
    Proposition 7; zCDP Bun & Steinke 2016, arXiv:1605.02065, Proposition 6.
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

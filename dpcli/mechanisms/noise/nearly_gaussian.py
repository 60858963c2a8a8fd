"""Discrete Gaussian noise as a random rounding of Gaussian noise, for an integer or a vector with too many outcomes or shifts to sum over.

`NearlyGaussian` is the cost of integers that move by a vector v of which only the norm is known, or used. Its pair is that of a Gaussian
with a slightly smaller variance, which its docstring proves to dominate. discrete_gaussian.py chooses it, and has the exact costs.

A mechanism has upper bounds on its cost (mechanism.py): `approx_dp` returns epsilon at a delta, `zcdp` rho, `gdp` mu, a Gaussian's
sensitivity over noise, and `rdp` Renyi divergences. `losses` returns the privacy losses log dP/dQ of dominating pairs (P, Q). `witness`
returns a mechanism that the keys allow, whose cost is a lower bound.
"""

from __future__ import annotations

import math
from fractions import Fraction

from dpcli.base.stated import stated, upward  # exact for stated decimals, rounded up once
from dpcli.base.values import dataclass
from dpcli.mechanisms.mechanism import Mechanism, PrivacyLoss
from dpcli.mechanisms.noise.additive import SMALLEST_RATIO  # the smallest sensitivity over noise
from dpcli.mechanisms.noise.gaussian import Gaussian
from dpcli.numerics.arrays import Array

# Soundness.
ROUNDING_VARIANCE = 5  # t^2 of `NearlyGaussian`, the variance by which its Gaussians differ from the discrete one
LEAST_NEARLY_SIGMA = 10.0  # least sigma of `NearlyGaussian`, for which r^2 >= 4.76 in its proof


@dataclass(frozen=True, slots=True)
class NearlyGaussian(Mechanism):
    """Noise with probability proportional to e^{-x^2/(2 sigma^2)} on integers that move by a shift v, for sigma >= LEAST_NEARLY_SIGMA.

    With t^2 = 5, its pair lies between those of Gaussians of variance sigma^2 + t^2 and sigma^2 - t^2 that move by |v|.

    1. For any c, theta(c), the sum of e^{-(x-c)^2 / (2 r^2)} over the integers x, is r sqrt(2 pi) (1 + 2 SUM_{m>0} cos(2 pi m c)
       e^{-2 pi^2 r^2 m^2}) by Poisson summation. For r^2 >= 4.76 it is the same for all c, up to a factor of 1 + e^-92.
    2. Draw y from N(0, sigma^2 - t^2), and the integer x with probability e^{-(x-y)^2 / (2 t^2)} / theta(y), for r = t. If theta were
       constant, P(x) would be the convolution of two Gaussian densities, which is proportional to e^{-x^2 / (2 sigma^2)}. So the discrete
       noise is this random rounding of y, up to a factor of 1 + e^-92. A whole number that is added to y is added to x. By
       post-processing, the Gaussian pair dominates.
    3. Add a normal variable of variance t^2 to the discrete noise x. The density at y is proportional to the sum over x of
       e^{-x^2 / (2 sigma^2) - (y-x)^2 / (2 t^2)}. Completing the square gives e^{-y^2 / (2 (sigma^2 + t^2))} theta(c) for some c, with
       r^2 = sigma^2 t^2 / (sigma^2 + t^2) >= 4.76. By post-processing, the pair of the discrete noise dominates this Gaussian pair.
    4. The coordinates of a vector have independent noise, and only |v| matters for Gaussian noise on all of them.

    The factors 1 + e^-92 are far below rounding, even in 10^18 steps. rho and the Renyi curve are those of Canonne, Kamath, Steinke 2020,
    arXiv:2004.00010, Theorem 14.

    norm_squared: |v|^2. is_possible: whether the keys allow a shift of this norm.
    """

    sigma: float
    norm_squared: Fraction
    is_possible: bool

    def _ratio(self, variance: int) -> float:
        """Return |v| over the noise's standard deviation if `variance` is added to that of the discrete noise; at least SMALLEST_RATIO."""
        return max(math.sqrt(upward(self.norm_squared / (stated(self.sigma) ** 2 + variance))), SMALLEST_RATIO)

    def _dominating(self) -> Gaussian:
        return Gaussian(self._ratio(-ROUNDING_VARIANCE) * (1.0 + 4e-16))  # rounded up

    def approx_dp(self, delta: float) -> float:
        return self._dominating().approx_dp(delta)

    def zcdp(self) -> float:
        return rho_of_squares(self.norm_squared, self.sigma)

    def gdp(self) -> float:
        return self._dominating().mu

    def losses(self) -> tuple[PrivacyLoss]:
        return self._dominating().losses()

    def rdp(self, orders: Array) -> Array:
        return self.zcdp() * orders

    def witness(self, order: float) -> Mechanism | None:
        """Return the Gaussian whose cost is a lower bound, which is a post-processing of the release; None if it is too weak to compute."""
        ratio = self._ratio(ROUNDING_VARIANCE) * (1.0 - 1e-15)  # rounded down
        return Gaussian(ratio) if self.is_possible and ratio > SMALLEST_RATIO else None


def mechanism_of_norm(sigma: float, norm_squared: Fraction, *, is_possible: bool = False) -> NearlyGaussian | None:
    """Return the mechanism for shifts of which only the largest norm is used; None if sigma is too small for it.

    is_possible: whether the keys allow a shift of this norm.
    """
    return NearlyGaussian(sigma, norm_squared, is_possible) if sigma >= LEAST_NEARLY_SIGMA else None


def rho_of_squares(squares: int | Fraction, sigma: float) -> float:
    """Return squares / (2 sigma^2), rounded upwards, so that it is positive however large sigma is."""
    return upward(Fraction(squares) / (2 * stated(sigma) ** 2))

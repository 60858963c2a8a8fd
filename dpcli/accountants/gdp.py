"""Gaussian differential privacy by the central limit theorem: a number to compare with papers, never a guarantee.

Consumes mu of each mechanism, or the chi-squared divergence of anything else, and treats the whole as one Gaussian. Bounds: none. The
number can be too small, so it decides nothing. Exact for unsampled Gaussian noise alone. Needs delta > 0.
"""

from __future__ import annotations

import math

from dpcli.accountants.base import Accountant, Bound, PrivacyProfile, Steps, merged, normalised, require_positive, weighed
from dpcli.errors import NotRepresentable
from dpcli.mechanisms.mechanism import Mechanism
from dpcli.numerics.arrays import np
from dpcli.numerics.closed.normal import gaussian_delta, gaussian_epsilon
from dpcli.values import dataclass


def squared_mu(mechanism: Mechanism) -> float:
    """mu^2 of a Gaussian, exactly; of anything else chi^2 = e^{K(1)} - 1, its limit as the steps grow many and weak."""
    try:
        return mechanism.gdp() ** 2
    except NotRepresentable:
        order_two = float(mechanism.rdp(np.array([2.0]))[0])
        return math.expm1(order_two) if order_two < 700.0 else math.inf


@dataclass(frozen=True, slots=True)
class GdpProfile(PrivacyProfile):
    """mu = sqrt(sum of count mu_i^2); exact for Gaussians alone, else an approximation that can be TOO SMALL."""

    steps: Steps

    def mu(self) -> float:
        """Of the limit."""
        mu = math.sqrt(math.fsum(weighed(merged(self.steps), squared_mu)))
        if not math.isfinite(mu):
            raise NotRepresentable("its central limit has no finite variance")
        return mu

    def epsilon(self, delta: float) -> Bound:
        mu = self.mu()
        if mu == 0.0:
            return Bound(0.0, detail={"mu": 0.0})
        require_positive(delta, "Gaussian DP")
        return Bound(gaussian_epsilon(mu, delta)[1], detail={"mu": mu})

    def delta(self, epsilon: float) -> Bound:
        mu = self.mu()
        return Bound(gaussian_delta(mu, epsilon)[1] if mu > 0.0 else 0.0, detail={"mu": mu})

    def shares(self, delta: float) -> tuple[float, ...]:
        return normalised(weighed(self.steps, squared_mu))


ACCOUNTANT = Accountant(
    name="gdp",
    title="Gaussian DP, CLT: approximate",
    source="Dong, Roth, Su 2022, arXiv:1905.02383; Bu, Dong, Long, Su 2020, arXiv:1911.11607 (sampled Gaussians)",
    compose=GdpProfile,
    sound=False,
    cells=lambda parts: 2e3 * parts,
)

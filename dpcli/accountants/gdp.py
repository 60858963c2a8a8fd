"""Gaussian differential privacy by the central limit theorem. Its number is for comparison with papers and is not a guarantee.

Consumes mu of each Gaussian mechanism, its sensitivity divided by the noise, and the chi-squared divergence of any other one. A
composition of many steps that each lose little is nearly one Gaussian, and every composition is treated as one. Bounds: none. The number
can be too small, so no check uses it. It is exact only if all steps are unsampled Gaussian noise. It needs delta > 0.
"""

from __future__ import annotations

import math

from dpcli.accountants.analytic import composed_mu, mu_shares
from dpcli.accountants.base import Accountant, Bound, PrivacyProfile, Steps, join_equal_steps, require_positive
from dpcli.base.errors import NotRepresentable
from dpcli.base.values import dataclass
from dpcli.mechanisms.mechanism import Mechanism
from dpcli.mechanisms.stated.pure_and_approx import Free
from dpcli.numerics.arrays import np
from dpcli.numerics.closed.normal import gaussian_delta, gaussian_epsilon


def mu_of(mechanism: Mechanism) -> float:
    """Return mu of a mechanism: exact for a Gaussian, and sqrt(chi^2) with chi^2 = e^{K(1)} - 1 for any other.

    The latter is the limit for many steps that each lose little. K(1) is the Renyi divergence of order 2. If it is 700 or more, the result
    is inf, because e^K(1) is then near overflow. A chi^2 that underflows is replaced by the smallest positive number.

    Raises NotRepresentable if the mechanism has neither mu nor a Renyi curve.
    """
    if mechanism == Free():  # a release that does not depend on the data
        return 0.0
    try:
        return mechanism.gdp()
    except NotRepresentable:
        order_two = float(mechanism.rdp(np.array([2.0]))[0])
        return math.sqrt(max(math.expm1(order_two), math.ulp(0.0))) if order_two < 700.0 else math.inf


@dataclass(frozen=True, slots=True)
class GdpProfile(PrivacyProfile):
    """The privacy profile of one Gaussian with mu = sqrt(sum of count mu_i^2).

    It is exact if all mechanisms are unsampled Gaussians. Otherwise it is an approximation, whose epsilon can be TOO SMALL. Of the bounds
    on the Gaussian's own numbers, which differ by rounding only, the upper ones are used.
    """

    steps: Steps

    def mu(self) -> float:
        """Return mu of the composition. Raises NotRepresentable if it is infinite."""
        mu = composed_mu(join_equal_steps(self.steps), mu_of)
        if not math.isfinite(mu):
            raise NotRepresentable("its central limit has no finite variance")
        return mu

    def epsilon(self, delta: float) -> Bound:
        mu = self.mu()
        if mu == 0.0:
            return Bound(0.0, detail={"mu": 0.0})
        require_positive(delta, "Gaussian DP")
        _, upper = gaussian_epsilon(mu, delta)
        return Bound(upper, detail={"mu": mu})

    def delta(self, epsilon: float) -> Bound:
        mu = self.mu()
        _, upper = gaussian_delta(mu, epsilon) if mu > 0.0 else (0.0, 0.0)
        return Bound(upper, detail={"mu": mu})

    def shares(self, delta: float) -> tuple[float, ...]:
        return mu_shares(self.steps, mu_of)


ACCOUNTANT = Accountant(
    name="gdp",
    title="Gaussian DP, CLT: approximate",
    source="Dong, Roth, Su 2022, arXiv:1905.02383; Bu, Dong, Long, Su 2020, arXiv:1911.11607 (sampled Gaussians)",
    compose=GdpProfile,
    sound=False,
    finite=True,  # chi^2 needs a loss that is never infinite; the base class sets stated deltas aside
    cells=lambda parts: 2e3 * parts,  # estimated work for this many different mechanisms
)

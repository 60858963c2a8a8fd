"""The analytic Gaussian accountant: a composition of Gaussians is one Gaussian, whose epsilon is exact.

Consumes mu of each mechanism, its sensitivity divided by the noise, which only unsampled Gaussian noise has. The squares of mu add up.
Bounds: lower and upper. They differ by a rounding error. It needs delta > 0, unless no step loses any privacy.
"""

from __future__ import annotations

from collections.abc import Callable

from dpcli.accountants.base import Accountant, Bound, PrivacyProfile, Steps, join_equal_steps, require_positive, shares_of, views
from dpcli.base.values import dataclass
from dpcli.mechanisms.mechanism import Mechanism
from dpcli.numerics.closed.normal import gaussian_delta, gaussian_epsilon, gaussian_sum

MU_ROUNDING = 8e-16  # more than the relative rounding error of `gaussian_sum`, which is about 5e-16


def composed_mu(steps: Steps, view: Callable[[Mechanism], float]) -> float:
    """Return mu of the composition, from the mu that `view` returns for each mechanism: `gdp` here, or an approximation (gdp.py).

    Raises NotRepresentable if a mechanism has no mu.
    """
    return gaussian_sum([(count, mu) for (_, count), mu in zip(steps, views(steps, view), strict=True)])


def mu_shares(steps: Steps, view: Callable[[Mechanism], float]) -> tuple[float, ...]:
    """Return each step's share of the sum of squares of the mu that `view` returns. Raises NotRepresentable if a mechanism has none."""
    mus = views(steps, view)
    largest = max(mus, default=0.0) or 1.0  # relative to the largest, not all squares underflow
    return shares_of([count * (mu / largest) ** 2 for (_, count), mu in zip(steps, mus, strict=True)])


@dataclass(frozen=True, slots=True)
class AnalyticProfile(PrivacyProfile):
    """The privacy profile of a composition of unsampled Gaussians, which is that of one Gaussian with mu = sqrt(sum of count mu^2)."""

    steps: Steps

    def mu(self) -> float:
        """Return mu of the composition, with rounding errors below MU_ROUNDING. Raises NotRepresentable if a mechanism has no mu."""
        return composed_mu(join_equal_steps(self.steps), lambda mechanism: mechanism.gdp())

    def epsilon(self, delta: float) -> Bound:
        mu = self.mu()
        if mu == 0.0:
            return Bound(0.0, 0.0, {"mu": 0.0})
        require_positive(delta, "a Gaussian mechanism")
        _, upper = gaussian_epsilon(mu * (1.0 + MU_ROUNDING), delta)
        lower, _ = gaussian_epsilon(mu * (1.0 - MU_ROUNDING), delta)
        return Bound(upper, lower, {"mu": mu})

    def delta(self, epsilon: float) -> Bound:
        mu = self.mu()
        if mu == 0.0:
            return Bound(0.0, 0.0, {"mu": 0.0})
        _, upper = gaussian_delta(mu * (1.0 + MU_ROUNDING), epsilon)
        lower, _ = gaussian_delta(mu * (1.0 - MU_ROUNDING), epsilon)
        return Bound(upper, lower, {"mu": mu})

    def shares(self, delta: float) -> tuple[float, ...]:
        return mu_shares(self.steps, lambda mechanism: mechanism.gdp())


ACCOUNTANT = Accountant(
    name="analytic",
    title="analytic Gaussian",
    source="Balle & Wang 2018, arXiv:1805.06530, Theorem 8; composition Dong, Roth, Su 2022, arXiv:1905.02383, Corollary 2",
    compose=AnalyticProfile,
    finite=True,  # it needs finite losses, so stated deltas are set aside before
    cells=lambda parts: 2e2 * parts,  # estimated work for this many different mechanisms
)

"""Zero-concentrated differential privacy: rhos add up.

Consumes each mechanism's rho, which sampling does not lower. The total is converted to epsilon at the best real order. Bounds: upper. It
needs delta > 0. Steps may be chosen one after the other, unless they state a delta.
"""

from __future__ import annotations

from dpcli.accountants.base import Accountant, Bound, PrivacyProfile, Steps, normalised, require_positive, rho_of, step_totals
from dpcli.base.values import dataclass
from dpcli.numerics.closed.conversion import zcdp_epsilon

ROUNDING = 1e-13  # relative increase of epsilon, which exceeds the rounding error of the conversion


@dataclass(frozen=True, slots=True)
class ZcdpProfile(PrivacyProfile):
    """The privacy profile from the total rho, converted at the best real order."""

    steps: Steps

    def rho(self) -> float:
        """Return the total rho. Raises as `views` does."""
        return rho_of(self.steps)

    def epsilon(self, delta: float) -> Bound:
        rho = self.rho()
        require_positive(delta, "zCDP")
        return Bound(zcdp_epsilon(rho, delta) * (1.0 + ROUNDING), detail={"rho": rho})

    def shares(self, delta: float) -> tuple[float, ...]:
        return normalised(step_totals(self.steps, lambda mechanism: mechanism.zcdp()))


ACCOUNTANT = Accountant(
    name="zcdp",
    title="zero-concentrated DP",
    source="Bun & Steinke 2016, arXiv:1605.02065; conversion Canonne, Kamath, Steinke 2020, arXiv:2004.00010, Corollary 13",
    compose=ZcdpProfile,
    adaptive=True,
    finite=True,
    cells=lambda parts: 2e2 * parts,
)

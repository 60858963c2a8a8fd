"""Zero-concentrated differential privacy: rhos add up.

Consumes each mechanism's rho, which sampling does not lower. The Renyi divergence of order a is at most rho a, or xi + rho a for a
mechanism that is (xi, rho)-zCDP. The total rho is converted to epsilon at the best real order, and the total xi is added. Bounds: upper. It
needs delta > 0. Steps may be chosen one after the other, unless they state a delta.
"""

from __future__ import annotations

from dpcli.accountants.base import (
    Accountant,
    Bound,
    PrivacyProfile,
    Steps,
    join_equal_steps,
    require_positive,
    rho_of,
    shares_of,
    step_totals,
    views,
)
from dpcli.base.stated import total  # exact for stated decimals, rounded up once
from dpcli.base.values import dataclass
from dpcli.numerics.closed.conversion import zcdp_epsilon

ROUNDING = 1e-13  # relative increase of epsilon, which exceeds the rounding error of the conversion


@dataclass(frozen=True, slots=True)
class ZcdpProfile(PrivacyProfile):
    """The privacy profile from the total rho, converted at the best real order."""

    steps: Steps

    def rho(self) -> float:
        """Return the total of `Mechanism.zcdp`, which contains xi. Raises NotRepresentable if a mechanism has no rho."""
        return rho_of(self.steps)

    def epsilon(self, delta: float) -> Bound:
        steps = join_equal_steps(self.steps)
        parts = [
            (count, *pair) for (_, count), pair in zip(steps, views(steps, lambda mechanism: mechanism.zcdp_parts()), strict=True)
        ]
        xi, rho = total((count, xi) for count, xi, _ in parts), total((count, rho) for count, _, rho in parts)
        require_positive(delta, "zCDP")
        epsilon = zcdp_epsilon(rho, delta) * (1.0 + ROUNDING)
        return Bound(total(((1, xi), (1, epsilon))), detail={"xi": xi, "rho": rho}) if xi else Bound(epsilon, detail={"rho": rho})

    def shares(self, delta: float) -> tuple[float, ...]:
        return shares_of(step_totals(self.steps, lambda mechanism: mechanism.zcdp()))


ACCOUNTANT = Accountant(
    name="zcdp",
    title="zero-concentrated DP",
    source="Bun & Steinke 2016, arXiv:1605.02065; conversion Canonne, Kamath, Steinke 2020, arXiv:2004.00010, Corollary 13",
    compose=ZcdpProfile,
    adaptive=True,  # steps may be chosen from earlier outputs
    finite=True,  # it needs finite losses, so stated deltas are set aside before
    cells=lambda parts: 2e2 * parts,  # estimated work for this many different mechanisms
)

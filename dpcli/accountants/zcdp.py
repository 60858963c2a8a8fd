"""Zero-concentrated differential privacy: rhos add up.

Consumes each mechanism's rho, which sampling does not lower. The total is converted to epsilon at the best real order. The part xi of a
(xi, rho)-zCDP mechanism that does not grow with the order adds up too, and is added to epsilon. Bounds: upper. It needs delta > 0. Steps
may be chosen one after the other, unless they state a delta.
"""

from __future__ import annotations

from dpcli.accountants.base import (
    Accountant,
    Bound,
    PrivacyProfile,
    Steps,
    merged,
    normalised,
    require_positive,
    rho_of,
    step_totals,
    views,
)
from dpcli.base.stated import total
from dpcli.base.values import dataclass
from dpcli.numerics.closed.conversion import zcdp_epsilon

ROUNDING = 1e-13  # relative increase of epsilon, which exceeds the rounding error of the conversion


@dataclass(frozen=True, slots=True)
class ZcdpProfile(PrivacyProfile):
    """The privacy profile from the total rho, converted at the best real order."""

    steps: Steps

    def rho(self) -> float:
        """Return the total rho. Raises NotRepresentable if a mechanism has none."""
        return rho_of(self.steps)

    def epsilon(self, delta: float) -> Bound:
        steps = merged(self.steps)
        each = views(steps, lambda mechanism: mechanism.zcdp_parts())
        xi, rho = (total((count, pair[place]) for (_, count), pair in zip(steps, each, strict=True)) for place in (0, 1))
        require_positive(delta, "zCDP")
        epsilon = zcdp_epsilon(rho, delta) * (1.0 + ROUNDING)
        return Bound(total(((1, xi), (1, epsilon))), detail={"xi": xi, "rho": rho}) if xi else Bound(epsilon, detail={"rho": rho})

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

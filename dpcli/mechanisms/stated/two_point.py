"""Pure epsilon-DP in its worst case: binary randomised response, which dominates every epsilon-DP mechanism."""

from __future__ import annotations

import math

from dpcli.base.values import dataclass
from dpcli.mechanisms.mechanism import Mechanism
from dpcli.mechanisms.stated.two_point_loss import TwoPointLoss


@dataclass(frozen=True, slots=True)
class Pure(Mechanism):
    """epsilon-DP and nothing more is known.

    Source: randomised response dominates (Kairouz, Oh, Viswanath 2015, arXiv:1311.0776). rho = eps tanh(eps/2) is tight: K as a function
    of s = (z+1/2)^2 is log cosh(eps sqrt s), which is concave, so K(z) <= K'(s=1/4) z (z+1) (sharper than the eps^2/2 of Bun &
    Steinke 2016, arXiv:1605.02065).
    """

    epsilon: float

    def approx_dp(self, delta: float) -> float:
        """Exact for the two-point pair: delta(eps) = (e^e0 - e^eps) / (1 + e^e0)."""
        lost = delta * (1.0 + math.exp(-self.epsilon)) * (1.0 - 1e-15)
        return max(0.0, self.epsilon + math.log1p(-lost)) if lost < 1.0 else 0.0

    def zcdp(self) -> float:
        return self.epsilon * math.tanh(0.5 * self.epsilon) * (1.0 + 1e-15) + math.ulp(0.0) if self.epsilon > 0.0 else 0.0

    def losses(self) -> tuple[TwoPointLoss]:
        return (TwoPointLoss(self.epsilon),)

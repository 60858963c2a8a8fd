"""Pure epsilon-DP in its worst case: binary randomised response, which dominates every epsilon-DP mechanism."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpcli.mechanisms.base import Mechanism
from dpcli.numerics.arrays import Array, np
from dpcli.numerics.tails import Tails, atom_tails
from dpcli.numerics.tilted_closed import TiltedAtoms


@dataclass(frozen=True, slots=True)
class TwoPointLoss:
    """L = +e0 with probability e^e0 / (1 + e^e0), else -e0: K(z) = log cosh((z+1/2) e0) - log cosh(e0/2)."""

    epsilon: float

    def cgf(self, z: Array) -> Array:
        """Product form of the difference of two cosh, so that small z and small e0 keep their digits."""
        e0 = self.epsilon
        # cosh(a) - cosh(b) = 2 sinh((a+b)/2) sinh((a-b)/2), a = (z+1/2) e0, b = e0/2
        up, down = 0.5 * (z + 1.0) * e0, 0.5 * z * e0
        with np.errstate(over="ignore", invalid="ignore"):
            small = np.log1p(2.0 * np.sinh(up) * np.sinh(down) / np.cosh(0.5 * e0)) if e0 < 1000.0 else np.full_like(z, np.inf)
            large = z * e0 + (np.log1p(np.exp(-(2.0 * z + 1.0) * e0)) - math.log1p(math.exp(-e0)))
        return np.where(up < 20.0, small, large) * (1.0 + 1e-14)

    def tilted(self, t: float) -> TiltedAtoms:
        """Two atoms, at +e0 and -e0 with odds e^{(2t+1) e0}."""
        e0 = self.epsilon
        return TiltedAtoms(np.array([(t + 0.5) * e0, -(t + 0.5) * e0]), np.array([e0, -e0]))

    def tails(self, at: Array) -> Tails:
        """Two atoms."""
        kept = -math.log1p(math.exp(-self.epsilon))
        log_p = np.array([kept - self.epsilon, kept])
        return atom_tails(at, np.array([-self.epsilon, self.epsilon]), log_p, log_p[::-1])


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
        return self.epsilon * math.tanh(0.5 * self.epsilon) * (1.0 + 1e-15)

    def losses(self) -> tuple[TwoPointLoss]:
        return (TwoPointLoss(self.epsilon),)

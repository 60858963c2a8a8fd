"""Renyi differential privacy with the best conversion from each single order.

Consumes each step's Renyi curve, as `rdp`. The smaller of its conversion and of the joint range of two divergences, at the orders that
its search visited and near the best one. Bounds: upper. Needs delta > 0.
"""

from __future__ import annotations

import math

from dpcli.accountants.base import Accountant, Bound, PrivacyProfile, Steps, merged, require_positive
from dpcli.accountants.rdp import RdpProfile
from dpcli.accountants.renyi_curve import renyi_curve, renyi_shares
from dpcli.base.values import dataclass
from dpcli.numerics.arrays import np
from dpcli.numerics.closed.conversion import balle, balle_delta
from dpcli.numerics.roots import bracket_root

DEEPER = 4.0  # how far below the logarithm of the delta of `balle` the search begins, and each of its further steps
LOG_LEAST = -744.0
RTOL = 1e-5  # of that logarithm, as one look at a delta is dear


@dataclass(frozen=True, slots=True)
class OptimalRdpProfile(PrivacyProfile):
    """The smaller of `balle` and the joint-range conversion, at the orders that the search for `balle` visited and near its best."""

    steps: Steps

    def _best(self, delta: float) -> tuple[float, float]:
        require_positive(delta, "RDP")
        from dpcli.numerics.closed.conversion import optimal  # read only where it is asked

        order, value = RdpProfile(self.steps, balle, balle_delta).best(delta)
        curve = renyi_curve(merged(self.steps))
        orders = 1.0 + (order - 1.0) * np.geomspace(0.1, 1.5, 13)
        epsilons = optimal(orders, curve.at(orders), math.log(delta))
        at = int(np.argmin(epsilons))
        return (float(orders[at]), float(epsilons[at])) if epsilons[at] < value else (order, value)

    def epsilon(self, delta: float) -> Bound:
        order, value = self._best(delta)
        return Bound(value, detail={"order": order})

    def delta(self, epsilon: float) -> Bound:
        """Return the smallest delta, below that of `balle`, at which this conversion's epsilon is at most `epsilon`."""
        most = RdpProfile(self.steps, balle, balle_delta).delta(epsilon).upper
        if most >= 1.0:
            return Bound(1.0)
        log_most = math.log(most)

        def excess(log_delta: float) -> float:
            return self.epsilon(math.exp(log_delta)).upper - epsilon

        low, high = max(log_most - DEEPER, LOG_LEAST), log_most
        while low > LOG_LEAST and excess(low) <= 0.0:
            low, high = max(low - DEEPER, LOG_LEAST), low
        return Bound(math.exp(bracket_root(excess, low, high, rtol=RTOL)[1]))

    def shares(self, delta: float) -> tuple[float, ...]:
        return renyi_shares(self.steps, self._best(delta)[0])


ACCOUNTANT = Accountant(
    name="rdp-optimal",
    title="Renyi DP (best)",
    source="Mironov 2017, arXiv:1702.07476; conversion Asoodeh et al. 2020, arXiv:2001.05990, 2008.06529",
    compose=OptimalRdpProfile,
    cells=lambda parts: 6e5 + 3e4 * parts,
)

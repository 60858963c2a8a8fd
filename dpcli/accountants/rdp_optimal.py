"""Renyi differential privacy with the best conversion from each single order.

Consumes each step's Renyi curve, as the accountant rdp does. The result is the smaller epsilon of two conversions: that of rdp, and the
one of Asoodeh et al. 2020 at 13 orders near the best order of rdp. The latter is the best from one order alone: it is the largest epsilon
that two distributions with this Renyi divergence can have. Bounds: upper. It needs delta > 0.
"""

from __future__ import annotations

import math

from dpcli.accountants.base import Accountant, Bound, PrivacyProfile, Steps, join_equal_steps
from dpcli.accountants.rdp import RdpProfile
from dpcli.accountants.renyi_curve import renyi_curve, renyi_shares
from dpcli.base.values import dataclass
from dpcli.numerics.arrays import np
from dpcli.numerics.closed.conversion import balle, balle_delta, optimal
from dpcli.numerics.roots import bracket_root

# `optimal` is evaluated at 13 orders a, for which a - 1 is 0.1 to 1.5 times that of the best order of `balle`.
ORDER_FACTORS = (0.1, 1.5, 13)
DEEPER = 4.0  # step on the scale of log delta by which the search moves down from the delta of `balle`
LOG_LEAST = -744.0  # logarithm of about the smallest positive floating-point number, where the search ends
RTOL = 1e-5  # relative accuracy of log delta; it is coarse because each evaluation of epsilon at a delta costs much work


@dataclass(frozen=True, slots=True)
class OptimalRdpProfile(PrivacyProfile):
    """The privacy profile with the smaller epsilon of the two conversions `balle` and `optimal` (numerics/closed/conversion.py)."""

    steps: Steps

    def _best(self, delta: float) -> tuple[float, float]:
        """Return (order, epsilon) with the smaller epsilon of the two conversions."""
        order, value = RdpProfile(self.steps, balle, balle_delta).best(delta)
        curve = renyi_curve(join_equal_steps(self.steps))
        orders = 1.0 + (order - 1.0) * np.geomspace(*ORDER_FACTORS)
        epsilons = optimal(orders, curve.at(orders), math.log(delta))
        at = int(np.argmin(epsilons))
        return (float(orders[at]), float(epsilons[at])) if epsilons[at] < value else (order, value)

    def epsilon(self, delta: float) -> Bound:
        order, value = self._best(delta)
        return Bound(value, detail={"order": order})

    def delta(self, epsilon: float) -> Bound:
        """Return a small delta, at most that of `balle`, at which this profile's epsilon is at most `epsilon`."""
        largest = RdpProfile(self.steps, conversion=balle, inverse=balle_delta).delta(epsilon).upper
        if largest >= 1.0:
            return Bound(1.0)
        log_largest = math.log(largest)

        def excess(log_delta: float) -> float:
            return self.epsilon(math.exp(log_delta)).upper - epsilon

        low, high = max(log_largest - DEEPER, LOG_LEAST), log_largest
        while low > LOG_LEAST and excess(low) <= 0.0:
            low, high = max(low - DEEPER, LOG_LEAST), low
        _, log_delta = bracket_root(excess, low, high, rtol=RTOL)
        return Bound(math.exp(log_delta))

    def shares(self, delta: float) -> tuple[float, ...]:
        return renyi_shares(self.steps, self._best(delta)[0])


ACCOUNTANT = Accountant(
    name="rdp-optimal",
    title="Renyi DP (best)",
    source="Mironov 2017, arXiv:1702.07476; conversion Asoodeh et al. 2020, arXiv:2001.05990, 2008.06529",
    compose=OptimalRdpProfile,
    finite=True,  # a Renyi curve needs finite losses; the base class sets stated deltas aside first and adds them afterwards
    cells=lambda parts: 6e5 + 3e4 * parts,  # measured work (numerics/work.py) for this many different mechanisms
)

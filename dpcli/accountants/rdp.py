"""Renyi differential privacy over real orders, with two conversions to epsilon.

Consumes each step's Renyi curve. The curves add up, and a search finds the best real order. The accountant rdp uses the conversion of Balle
et al. 2020, and rdp-classic that of Mironov 2017. Bounds: upper. They hold at every order, so the search cannot make them wrong. It needs
delta > 0.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from dpcli.accountants.base import Accountant, Bound, PrivacyProfile, Steps, join_equal_steps, require_positive
from dpcli.accountants.renyi_curve import renyi_curve, renyi_shares
from dpcli.base.errors import NotRepresentable
from dpcli.base.values import dataclass
from dpcli.numerics.arrays import Array
from dpcli.numerics.closed.conversion import balle, balle_delta, classic, classic_delta
from dpcli.numerics.orders import DEFAULT_PLACES, FEW_PLACES, FINE_PLACES, SHORT, least_over_orders

if TYPE_CHECKING:
    from dpcli.numerics.closed.conversion import Conversion

# Soundness: relative rounding of a CGF, z times the divergence of order 1 + z, at an order near 1.
ROUNDED = 1e-15
# With more different steps, each order costs more work. So fewer places are tried first; a place stands for an order (numerics/orders.py).
SEVERAL = 8  # most different steps for which the search starts at FINE_PLACES
MANY = 500  # most different steps for which it starts at DEFAULT_PLACES; for more it starts at FEW_PLACES


@dataclass(frozen=True, slots=True)
class RdpProfile(PrivacyProfile):
    """The privacy profile from the Renyi curve at the best real order.

    conversion: returns epsilon for given orders, divergences and log delta.
    inverse: returns log delta for given orders, divergences and epsilon.
    Both are of numerics/closed/conversion.py.
    """

    steps: Steps
    conversion: Conversion
    inverse: Conversion

    def epsilon(self, delta: float) -> Bound:
        order, value = self.best(delta)
        return Bound(value, detail={"order": order})

    def delta(self, epsilon: float) -> Bound:
        curve = renyi_curve(join_equal_steps(self.steps))

        def log_delta_at(z: Array) -> Array:
            divergence = curve.at(1.0 + z)
            # Divergences are rounded up by more than their error, except at orders near 1: there the CGF, z times the divergence, is tiny.
            return self.inverse(1.0 + z, divergence, epsilon) + ROUNDED * (abs(epsilon) + divergence)

        z, log_delta = least_over_orders(log_delta_at, first=FINE_PLACES)
        delta = max(math.exp(min(log_delta, 0.0)), math.ulp(0.0)) * (1.0 + 1e-12)
        return Bound(min(delta, 1.0), detail={"order": 1.0 + z})

    def best(self, delta: float) -> tuple[float, float]:
        """Return (order, epsilon) with the smallest epsilon found at `delta`. Every order gives an upper bound.

        Raises NotRepresentable if delta is 0 or if the divergence is infinite at every order.
        """
        require_positive(delta, "RDP")
        steps, log_delta = join_equal_steps(self.steps), math.log(delta)
        curve, grain = renyi_curve(steps), 1  # grain: the distance between places at which the search stops
        if len(steps) <= SEVERAL:
            first = FINE_PLACES
        elif len(steps) <= MANY:
            first = DEFAULT_PLACES
        else:
            grain, first = SHORT, FEW_PLACES
        z, value = least_over_orders(lambda z: self.conversion(1.0 + z, curve.at(1.0 + z), log_delta), grain, first)
        if math.isinf(value):
            raise NotRepresentable("the Renyi divergence is infinite at every order")
        return 1.0 + z, value * (1.0 + 1e-15)

    def shares(self, delta: float) -> tuple[float, ...]:
        return renyi_shares(self.steps, self.best(delta)[0])


ACCOUNTANT = Accountant(
    name="rdp",
    title="Renyi DP (balle)",
    source="Mironov 2017, arXiv:1702.07476; conversion Balle et al. 2020, arXiv:1905.09982, Theorem 21",
    compose=lambda steps: RdpProfile(steps, balle, balle_delta),
    fallback=True,  # it may always spend the work of one question
    finite=True,  # it needs finite losses, so stated deltas are set aside before
    cells=lambda parts: 3e4 * parts,  # estimated work for this many different mechanisms
)
CLASSIC = Accountant(
    name="rdp-classic",
    title="Renyi DP (classic)",
    source="Mironov 2017, arXiv:1702.07476, Propositions 1 and 3",
    compose=lambda steps: RdpProfile(steps, classic, classic_delta),
    finite=True,  # it needs finite losses, so stated deltas are set aside before
    cells=lambda parts: 5e4 * parts,  # estimated work for this many different mechanisms
)

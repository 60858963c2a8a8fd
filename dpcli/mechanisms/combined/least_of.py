"""Several bounds on one mechanism, none of which is the best whatever is asked."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from dpcli.base.errors import NotRepresentable
from dpcli.mechanisms.mechanism import Mechanism, PrivacyLoss
from dpcli.numerics.arrays import Array, np


@dataclass(frozen=True, slots=True)
class LeastOf(Mechanism):
    """Whichever costs less of mechanisms that all dominate what happens. Accountants may ask each; not attained."""

    each: tuple[Mechanism, ...]

    def ways(self) -> tuple[Mechanism, ...]:
        return self.each

    def approx_dp(self, delta: float) -> float:
        found = []
        for way in self.each:
            with suppress(NotRepresentable):
                found.append(way.approx_dp(delta))
        return min(found) if found else self.each[0].approx_dp(delta)

    def delta_floor(self) -> float:
        return min(way.delta_floor() for way in self.each)

    def zcdp(self) -> float:
        return self.each[0].zcdp()

    def losses(self) -> tuple[PrivacyLoss, ...]:
        """Those of the first, for whoever asks for one."""
        return self.each[0].losses()

    def rdp(self, orders: Array) -> Array:
        return np.asarray(np.minimum.reduce([way.rdp(orders) for way in self.each]))

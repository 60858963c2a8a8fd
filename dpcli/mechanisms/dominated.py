"""A mechanism of which no more is known than what dominates it: its upper bounds hold, its lower bounds say nothing."""

from __future__ import annotations

from dataclasses import dataclass

from dpcli.mechanisms.base import Mechanism, PrivacyLoss
from dpcli.numerics.arrays import Array


@dataclass(frozen=True, slots=True)
class Dominated(Mechanism):
    """Every view is that of `by`, which need not be attained: a sensitivity that is only bounded, a group in one piece."""

    by: Mechanism

    def approx_dp(self, delta: float) -> float:
        return self.by.approx_dp(delta)

    def delta_floor(self) -> float:
        return self.by.delta_floor()

    def zcdp(self) -> float:
        return self.by.zcdp()

    def gdp(self) -> float:
        return self.by.gdp()

    def losses(self) -> tuple[PrivacyLoss, ...]:
        return self.by.losses()

    def rdp(self, orders: Array) -> Array:
        return self.by.rdp(orders)

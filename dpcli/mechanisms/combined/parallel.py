"""Mechanisms on disjoint parts of the data: one record is in one part, so the dearest part is the price."""

from __future__ import annotations

from dataclasses import dataclass

from dpcli.mechanisms.combined.composed import Composed
from dpcli.mechanisms.mechanism import Mechanism
from dpcli.numerics.arrays import Array


@dataclass(frozen=True, slots=True)
class Parallel(Mechanism):
    """Parallel composition of `branches`, one per disjoint part (McSherry 2009, Theorem 4): each view is the largest branch's.

    For add-remove, and for zero-out where a blank adds nothing: a replaced record may move from one part to another and touch two.
    """

    branches: tuple[Composed, ...]

    def approx_dp(self, delta: float) -> float:
        return max(branch.approx_dp(delta) for branch in self.branches)

    def delta_floor(self) -> float:
        return max(branch.delta_floor() for branch in self.branches)

    def zcdp(self) -> float:
        return max(branch.zcdp() for branch in self.branches)

    def gdp(self) -> float:
        """Gaussians of different mu on different parts are dominated by the largest."""
        return max(branch.gdp() for branch in self.branches)

    def rdp(self, orders: Array) -> Array:
        bound = self.branches[0].rdp(orders)
        for branch in self.branches[1:]:
            bound = bound.clip(min=branch.rdp(orders))
        return bound

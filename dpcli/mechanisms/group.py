"""Several changes at once: the group theorem, where a mechanism knows nothing better."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpcli.errors import NotRepresentable
from dpcli.mechanisms.base import Mechanism
from dpcli.numerics.logspace import log_expm1
from dpcli.registry import lazy

if TYPE_CHECKING:
    import numpy as np

    from dpcli.numerics.roots import Array
else:
    np = lazy("numpy")


def grouped(inner: Mechanism, size: int) -> Mechanism:
    """`inner` for `size` changes at once; also how an add-remove guarantee becomes a replace-one guarantee (size 2)."""
    return inner if size == 1 else Group(inner, size)


@dataclass(frozen=True, slots=True)
class Group(Mechanism):
    """The guarantee of `inner` for k = `size` >= 2 changes, by the group theorems.

    (epsilon, delta): k eps, delta (e^{k eps} - 1)/(e^eps - 1) (Vadhan 2017, Lemma 2.2). zCDP: k^2 rho (Bun & Steinke 2016,
    arXiv:1605.02065). Renyi, k <= 2^c: order a costs 3^c D_{2^c a}, for a >= 2 (Mironov 2017, arXiv:1702.07476, Proposition 2); below
    order 2 the value at 2 serves, since the divergence increases with the order. Where rho is known, k^2 rho a, if smaller; where a
    pure epsilon is, k epsilon.
    """

    inner: Mechanism
    size: int

    def approx_dp(self, delta: float) -> float:
        """The smallest k eps(d) over a grid of record-level d that the theorem brings to at most `delta`."""
        if delta <= 0.0:
            return self.size * self.inner.approx_dp(0.0)
        best = self.size * self.inner.approx_dp(0.0) if self.delta_floor() == 0.0 else math.inf
        log_delta = math.log(delta)
        for step in range(1200):
            log_part = log_delta - math.log(self.size) - 0.25 * step
            if log_part < -745.0:
                break
            epsilon = self.inner.approx_dp(math.exp(log_part))
            growth = log_expm1(self.size * epsilon) - log_expm1(epsilon) if epsilon > 0.0 else math.log(self.size)
            if log_part + growth <= log_delta - 1e-12:
                best = min(best, self.size * epsilon)
                break
        return best

    def delta_floor(self) -> float:
        return self.inner.delta_floor()

    def zcdp(self) -> float:
        return float(self.size) ** 2 * self.inner.zcdp()

    def rdp(self, orders: Array) -> Array:
        c = math.ceil(math.log2(self.size))
        bound = 3.0**c * self.inner.rdp(2.0**c * np.maximum(orders, 2.0))
        with suppress(NotRepresentable):
            bound = np.minimum(bound, self.zcdp() * orders)
        with suppress(NotRepresentable):
            bound = np.minimum(bound, self.size * self.inner.approx_dp(0.0))
        return np.asarray(bound)

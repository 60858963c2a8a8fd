"""Several changes at once: the group theorem, if a mechanism knows nothing better."""

from __future__ import annotations

import math
from contextlib import suppress

from dpcli.base.errors import NotRepresentable
from dpcli.base.stated import multiple
from dpcli.base.values import dataclass
from dpcli.mechanisms.mechanism import Mechanism
from dpcli.numerics.arrays import Array, np
from dpcli.numerics.logspace import log_expm1
from dpcli.numerics.work import spend


def grouped(inner: Mechanism, size: int) -> Mechanism:
    """`inner` for `size` changes at once; also how an add-remove guarantee becomes a replace-one guarantee (size 2)."""
    return inner if size == 1 else Group(inner, size)


@dataclass(frozen=True, slots=True)
class Group(Mechanism):
    """The guarantee of `inner` for k = `size` >= 2 changes, by the group theorems.

    (epsilon, delta): k eps, delta (e^{k eps} - 1)/(e^eps - 1) (Vadhan 2017, Lemma 2.2). zCDP: k^2 rho (Bun & Steinke 2016,
    arXiv:1605.02065). Renyi, k <= 2^c: order a costs 3^c D_{2^c a}, for a >= 2 (Mironov 2017, arXiv:1702.07476, Proposition 2); below
    order 2 the value at 2 serves, since the divergence increases with the order. If rho is known, k^2 rho a, if smaller; if a
    pure epsilon is, k epsilon.
    """

    inner: Mechanism
    size: int

    def approx_dp(self, delta: float) -> float:
        """k eps(d) for the largest record-level d found that the theorem brings to at most `delta`: any such d is sound."""
        floor, k = self.inner.delta_floor(), self.size
        pure = multiple(k, self.inner.approx_dp(0.0)) if floor == 0.0 else math.inf
        if delta <= 0.0 or pure == 0.0:
            return pure
        spend(700.0)
        high, best = math.log(delta) - math.log(k), pure
        low = max(high - 800.0, -744.0, math.log(floor) if floor > 0.0 else -744.0)
        for _ in range(48):
            log_part = 0.5 * (low + high)
            epsilon = self.inner.approx_dp(math.exp(log_part))
            growth = log_expm1(k * epsilon) - log_expm1(epsilon) if epsilon > 0.0 else math.log(k)
            if log_part + growth <= math.log(delta) - 1e-12:
                low, best = log_part, min(best, k * epsilon)
            else:
                high = log_part
        return best

    def delta_floor(self) -> float:
        return self.inner.delta_floor()

    def zcdp(self) -> float:
        return multiple(self.size**2, self.inner.zcdp())

    def rdp(self, orders: Array) -> Array:
        c = math.ceil(math.log2(self.size))
        bound = 3.0**c * self.inner.rdp(2.0**c * np.maximum(orders, 2.0))
        with suppress(NotRepresentable):
            bound = np.minimum(bound, self.zcdp() * orders)
        with suppress(NotRepresentable):
            bound = np.minimum(bound, self.size * self.inner.approx_dp(0.0))
        return np.asarray(bound)

"""Group privacy: the cost of several changes at once by the group theorems, for mechanisms without a better bound.

A guarantee for one change implies a worse one for k changes: neighbours of neighbours. Types that know how k records move their output
(Gaussian, Laplace, ...) resolve the larger change themselves, which is tighter; `for_group` is for the others, such as stated guarantees.
All bounds are upper bounds, and `Group` does not claim to attain them.
"""

from __future__ import annotations

import math
from contextlib import suppress

from dpcli.base.errors import NotRepresentable
from dpcli.base.stated import multiple  # exact for stated decimals, rounded up once
from dpcli.base.values import dataclass
from dpcli.mechanisms.mechanism import Mechanism
from dpcli.numerics.arrays import Array, np
from dpcli.numerics.logspace import log_expm1
from dpcli.numerics.work import spend  # counts work, which is limited

HALVINGS = 48  # steps of the bisection for the delta of one change; the result is an upper bound after any of them (accuracy)
WORK = 700.0  # units of work of this bisection (numerics/work.py)
LOG_LEAST_DELTA = -744.0  # logarithm of the least delta that is tried; e^-744 is one of the least positive floats


def for_group(inner: Mechanism, size: int) -> Mechanism:
    """Return the mechanism of `inner` for `size` changes at once. With size 2, an add-remove guarantee becomes one for replace-one."""
    return inner if size == 1 else Group(inner, size)


@dataclass(frozen=True, slots=True)
class Group(Mechanism):
    """The guarantee of `inner` for k = `size` >= 2 changes, by the group theorems.

    * (epsilon, delta): k eps and delta (e^{k eps} - 1)/(e^eps - 1) (Vadhan 2017, Lemma 2.2).
    * zCDP: k^2 rho (Bun & Steinke 2016, arXiv:1605.02065).
    * Renyi: for k <= 2^c and a >= 2, the divergence of order a is at most 3^c D_{2^c a} (Mironov 2017, arXiv:1702.07476, Proposition 2).
      Below order 2 the bound at order 2 holds, because the divergence increases with the order. If rho or a pure epsilon is known,
      k^2 rho a and k epsilon are bounds too, and the smallest one is used.
    """

    inner: Mechanism
    size: int

    def approx_dp(self, delta: float) -> float:
        """Return k eps(d) for a delta d of `inner` for which the theorem gives at most `delta`.

        Every such d gives an upper bound. The search looks for the largest one.
        """
        floor, k = self.inner.delta_floor(), self.size  # at its floor and below, epsilon of `inner` may be infinite
        pure = multiple(k, self.inner.approx_dp(0.0)) if floor == 0.0 else math.inf
        if delta <= 0.0 or pure == 0.0:
            return pure
        spend(WORK)
        # log_part is the logarithm of d. The largest candidate is delta / k, because the factor of the theorem is at least k.
        high, best = math.log(delta) - math.log(k), pure
        low = max(math.log(floor), LOG_LEAST_DELTA) if floor > 0.0 else LOG_LEAST_DELTA
        for _ in range(HALVINGS):
            log_part = 0.5 * (low + high)
            epsilon = self.inner.approx_dp(math.exp(log_part))
            growth = log_expm1(k * epsilon) - log_expm1(epsilon) if epsilon > 0.0 else math.log(k)
            if log_part + growth <= math.log(delta) - 1e-12:  # 1e-12 is for the rounding of the logarithms
                low, best = log_part, min(best, multiple(k, epsilon))
            else:
                high = log_part
        return best

    def delta_floor(self) -> float:
        return self.inner.delta_floor()

    def zcdp(self) -> float:
        return multiple(self.size**2, self.inner.zcdp())

    def rdp(self, orders: Array) -> Array:
        doublings = math.ceil(math.log2(self.size))  # c
        bound = 3.0**doublings * self.inner.rdp(2.0**doublings * np.maximum(orders, 2.0))
        with suppress(NotRepresentable):
            bound = np.minimum(bound, self.zcdp() * orders)
        with suppress(NotRepresentable):
            bound = np.minimum(bound, multiple(self.size, self.inner.approx_dp(0.0)))
        return np.asarray(bound)

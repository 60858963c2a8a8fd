"""From a Renyi curve to (epsilon, delta): one formula per published conversion, all upper bounds."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from dpcli.numerics.arrays import Array, np
from dpcli.numerics.work import spend

if TYPE_CHECKING:
    Conversion = Callable[[Array, Array, float], Array]

SEARCH = 1000.0  # cells that a search over the orders costs
ROUNDS = 100


def balle(orders: Array, rdp: Array, log_delta: float) -> Array:
    """epsilon = D_a + log(1 - 1/a) - (log delta + log a)/(a - 1).

    Source: Balle, Barthe, Gaboardi, Hsu, Sato 2020, arXiv:1905.09982, Theorem 21; Canonne, Kamath, Steinke 2020, arXiv:2004.00010,
    Proposition 12.
    """
    return np.maximum(rdp + np.log1p(-1.0 / orders) - (log_delta + np.log(orders)) / (orders - 1.0), 0.0)


def classic(orders: Array, rdp: Array, log_delta: float) -> Array:
    """epsilon = D_a + log(1/delta)/(a - 1). Source: Mironov 2017, arXiv:1702.07476, Proposition 3."""
    return rdp - log_delta / (orders - 1.0)


def balle_delta(orders: Array, rdp: Array, epsilon: float) -> Array:
    """log delta at `epsilon`: `balle` solved for it."""
    return (orders - 1.0) * (rdp - epsilon + np.log1p(-1.0 / orders)) - np.log(orders)


def classic_delta(orders: Array, rdp: Array, epsilon: float) -> Array:
    """log delta at `epsilon`: `classic` solved for it."""
    return (orders - 1.0) * (rdp - epsilon)


def renyi_epsilon(above_one: float, rdp: float, log_delta: float) -> float:
    """`balle` at the single order 1 + `above_one`, without arrays; may be a few units in the last place off."""
    return max(rdp - math.log1p(1.0 / above_one) - (log_delta + math.log1p(above_one)) / above_one, 0.0)


def zcdp_epsilon(rho: float, delta: float) -> float:
    """epsilon of rho-zCDP at `delta` in (0, 1): `balle` at the best real order of the line D_a = rho a; an upper bound.

    Source: Canonne, Kamath, Steinke 2020, arXiv:2004.00010, Corollary 13.
    """
    if math.isinf(rho):
        return math.inf
    spend(SEARCH)
    rho, log_delta = max(rho, 1e-320), math.log(delta)  # a square that underflowed is still not nothing
    z = _best_above_one(rho, -log_delta)
    return renyi_epsilon(z, rho * (1.0 + z), log_delta)


def _best_above_one(rho: float, depth: float) -> float:
    """z > 0 with rho z^2 + log(1 + z) = depth, where `balle` of the line rho (1 + z) has slope 0: Newton's method within a bracket.

    Any z is sound; near the best the value is flat, so that half of the digits of z are enough.
    """
    low, high = 1e-12, min(max(math.sqrt(depth / rho), 1e-12), 1e12)
    z = high
    for _ in range(ROUNDS):
        value = rho * z * z + math.log1p(z) - depth
        low, high = (low, z) if value > 0.0 else (z, high)
        step = z - value / (2.0 * rho * z + 1.0 / (1.0 + z))
        new = step if low < step < high else math.sqrt(low * high)
        if abs(new - z) <= 1e-10 * z:
            break
        z = new
    return z

"""Conversions from a Renyi curve to (epsilon, delta): one function for each published conversion.

Each conversion takes the Renyi divergences D_a of a mechanism in nats (`rdp`) at several orders a > 1, and returns one upper bound for each
order, in an array of the same shape. The caller takes the least. Only `optimal` adds its rounding error; for the others the caller does.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from dpcli.numerics.arrays import Array, np
from dpcli.numerics.work import spend  # counts work, and refuses a question that takes too much

if TYPE_CHECKING:
    Conversion = Callable[[Array, Array, float], Array]

# Soundness of `optimal`: rounding errors.
ROUNDING = 4e-15  # absolute error of an epsilon that is computed from logarithms near 1
RELATIVE_ROUNDING = 1e-12  # relative error of a larger epsilon
TARGET_RAISE = 1e-14  # absolute raise of the logarithm of a moment, which covers its rounding error
# Accuracy and speed: every order gives an upper bound.
SEARCH = 1000.0  # work of a search over the orders, in cells
ROUNDS = 100  # most steps of Newton's method
CLOSE = 1e-10  # relative length of a step at which Newton's method ends
LEAST_Z, MOST_Z = 1e-12, 1e12  # range of z, the order - 1, in Newton's method
LEAST_RHO = 1e-320  # replaces a smaller rho, because the search divides by it
HALVINGS = 44  # steps of each bisection, which leave 1e-10 in the logarithm of a logarithm; the end on the safe side is taken
LOG_S = (-700.0, 3.6)  # range of log(-log s) in the outer bisection: from s = 1 - e^-700 to s = e^-36
LOG_R = (-80.0, math.log(1e15))  # range of log(log r) in the inner bisection


def balle(orders: Array, rdp: Array, log_delta: float) -> Array:
    """Return epsilon = D_a + log(1 - 1/a) - (log delta + log a)/(a - 1), but at least 0, at each order a.

    Source: Balle, Barthe, Gaboardi, Hsu, Sato 2020, arXiv:1905.09982, Theorem 21; Canonne, Kamath, Steinke 2020, arXiv:2004.00010,
    Proposition 12.
    """
    return np.maximum(rdp + np.log1p(-1.0 / orders) - (log_delta + np.log(orders)) / (orders - 1.0), 0.0)


def classic(orders: Array, rdp: Array, log_delta: float) -> Array:
    """Return epsilon = D_a + log(1/delta)/(a - 1) at each order a. Source: Mironov 2017, arXiv:1702.07476, Proposition 3."""
    return rdp - log_delta / (orders - 1.0)


def balle_delta(orders: Array, rdp: Array, epsilon: float) -> Array:
    """Return log delta at `epsilon` for each order: the formula of `balle`, solved for log delta. It may be above 0."""
    return (orders - 1.0) * (rdp - epsilon + np.log1p(-1.0 / orders)) - np.log(orders)


def classic_delta(orders: Array, rdp: Array, epsilon: float) -> Array:
    """Return log delta at `epsilon` for each order: the formula of `classic`, solved for log delta. It may be above 0."""
    return (orders - 1.0) * (rdp - epsilon)


def renyi_epsilon(above_one: float, rdp: float, log_delta: float) -> float:
    """Return `balle` at the single order 1 + `above_one`, computed without arrays. It may differ in the last digits."""
    return max(rdp - math.log1p(1.0 / above_one) - (log_delta + math.log1p(above_one)) / above_one, 0.0)


def zcdp_epsilon(rho: float, delta: float) -> float:
    """Return an upper bound on epsilon of rho-zCDP at `delta` in (0, 1), up to rounding; inf if rho is.

    It is `balle` at the best real order, for the divergences D_a = rho a. Source: Canonne, Kamath, Steinke 2020, arXiv:2004.00010,
    Corollary 13.
    """
    if math.isinf(rho):
        return math.inf
    spend(SEARCH)
    rho, log_delta = max(rho, LEAST_RHO), math.log(delta)  # rho may be 0 because a square underflowed
    z = _best_above_one(rho, -log_delta)
    return renyi_epsilon(z, rho * (1.0 + z), log_delta)


def _best_above_one(rho: float, depth: float) -> float:
    """Return z > 0 with rho z^2 + log(1 + z) = depth, by Newton's method within a bracket.

    There `balle` for D_a = rho (1 + z) has slope 0, so 1 + z is its best order. Any z gives an upper bound. Near the best order the bound
    is flat, so half of the digits of z are enough.
    """
    low, high = LEAST_Z, min(max(math.sqrt(depth / rho), LEAST_Z), MOST_Z)  # the root is below sqrt(depth / rho)
    z = high
    for _ in range(ROUNDS):
        value = rho * z * z + math.log1p(z) - depth
        low, high = (low, z) if value > 0.0 else (z, high)
        newton = z - value / (2.0 * rho * z + 1.0 / (1.0 + z))
        new = newton if low < newton < high else math.sqrt(low * high)
        if abs(new - z) <= CLOSE * z:
            break
        z = new
    return z


def _log_moment(orders: Array, x: Array, y: Array, log_one_less_s: Array) -> tuple[Array, Array]:
    """Return (log(q r^a + (1-q) s^a), log q) for log r = x > 0 and log s = y < 0, at each order a.

    q is the mass of the first outcome under Q. It is determined by q r + (1-q) s = 1, because the masses under P sum to 1 too.
    log_one_less_s: log(1 - s), which does not change while r is searched for.
    """
    log_gap = np.log(-np.expm1(y - x))  # log((r - s) / r)
    log_q = log_one_less_s - x - log_gap  # q = (1 - s)/(r - s)
    log_one_less_q = np.log(-np.expm1(-x)) - log_gap  # 1 - q = (r - 1)/(r - s)
    return np.logaddexp(log_q + orders * x, log_one_less_q + orders * y), log_q


def optimal(orders: Array, rdp: Array, log_delta: float) -> Array:
    """Return for each order an upper bound on the epsilon at which every pair with Renyi divergence D_a satisfies (epsilon, delta).

    The bound is the smallest such epsilon up to rounding, or inf where the search fails; other conversions then give a bound.

    1. The joint range of two f-divergences is attained by distributions with two outcomes, (p, 1-p) and (q, 1-q) (Asoodeh, Liao, Calmon,
       Kosut, Sankar 2020, arXiv:2001.05990, 2008.06529).
    2. The moment M(p, q) = p^a q^(1-a) + (1-p)^a (1-q)^(1-a) is convex. So a point where p - e^eps q is stationary on M = c is its
       maximum over M <= c.
    3. With r = p/q and s = (1-p)/(1-q), the point is stationary if e^eps = (a-1)(r^a - s^a) / (a (r^(a-1) - s^(a-1))).
    4. For each s, bisection finds the r with M = c. The end of the bracket with the larger M is taken, so the set M <= c is not made
       smaller.
    5. An outer bisection finds an s at which p - e^eps q is at most delta.
    """
    spend(HALVINGS * HALVINGS * (100.0 + 5.0 * len(orders)))
    with np.errstate(all="ignore"):
        log_target = (orders - 1.0) * rdp + TARGET_RAISE  # log c
        low, high = (np.full_like(orders, end) for end in LOG_S)
        for _ in range(HALVINGS):
            middle = 0.5 * (low + high)
            _, log_least_delta = _stationary_point(orders, log_target, -np.exp(middle))
            fits = log_least_delta <= log_delta
            low, high = np.where(fits, middle, low), np.where(fits, high, middle)
        epsilon, log_least_delta = _stationary_point(orders, log_target, -np.exp(low))
        fits = (log_least_delta <= log_delta) & np.isfinite(epsilon)
        rounded = np.where(rdp > 0.0, ROUNDING, 0.0)  # nothing is added at D_a = 0
        return np.where(fits, np.maximum(epsilon, 0.0) * (1.0 + RELATIVE_ROUNDING) + rounded, np.inf)


def _stationary_point(orders: Array, log_target: Array, y: Array) -> tuple[Array, Array]:
    """Return epsilon and log(p - e^eps q) of the stationary point with log s = y, in the notation of `optimal`.

    Both are inf where r is not found. log_target: log c.
    """
    low, high = (np.full_like(orders, end) for end in LOG_R)
    log_one_less_s = np.log(-np.expm1(y))
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        log_moment, _ = _log_moment(orders, np.exp(middle), y, log_one_less_s)
        is_short = log_moment < log_target
        low, high = np.where(is_short, middle, low), np.where(is_short, high, middle)
    x = np.exp(high)  # log r
    log_moment, log_q = _log_moment(orders, x, y, log_one_less_s)
    reached = log_moment >= log_target  # if not, r is beyond the end of the search interval
    a = orders
    # The difference a x - (a-1) x is written as x, because the two products would lose eight digits at a = 1e9.
    epsilon = x + np.log1p(-1.0 / a) + np.log(-np.expm1(a * (y - x))) - np.log(-np.expm1((a - 1.0) * (y - x)))
    log_gap = np.where(epsilon < x, log_q + x + np.log(-np.expm1(epsilon - x)), -np.inf)  # p - e^eps q = q (r - e^eps)
    return np.where(reached, epsilon, np.inf), np.where(reached, log_gap, np.inf)

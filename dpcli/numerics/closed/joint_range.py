"""The best epsilon that one Renyi divergence allows: the worst pair has two outcomes, and is found by convexity."""

from __future__ import annotations

import math

from dpcli.numerics.arrays import Array, np
from dpcli.numerics.work import spend

ROUNDING = 4e-15  # of an epsilon whose logarithms are near 1
HALVINGS = 44  # to 1e-10 in log log, whose remainder is on the private side


def _log_moment(orders: Array, x: Array, y: Array, log_short: Array) -> tuple[Array, Array]:
    """(log(q r^a + (1-q) s^a), log q) for log r = x > 0, log s = y < 0 and the q that makes both masses sum to one.

    log_short: log(1 - s), which stays as it is while r is searched for.
    """
    log_gap = np.log(-np.expm1(y - x))
    log_q = log_short - x - log_gap
    log_rest = np.log(-np.expm1(-x)) - log_gap  # 1 - q = (r - 1)/(r - s)
    return np.logaddexp(log_q + orders * x, log_rest + orders * y), log_q


def optimal(orders: Array, rdp: Array, log_delta: float) -> Array:
    """The smallest epsilon such that every pair with Renyi divergence D_a satisfies (epsilon, delta), order by order.

    The joint range of two f-divergences is attained on two outcomes, p against q (Asoodeh, Liao, Calmon, Kosut, Sankar 2020,
    arXiv:2001.05990, 2008.06529). The moment M(p, q) = p^a q^(1-a) + (1-p)^a (1-q)^(1-a) is convex, so a point at which p - e^eps q
    is stationary on M = c maximises it over M <= c; with r = p/q, s = (1-p)/(1-q) that is
    e^eps = (a-1)(r^a - s^a) / (a (r^(a-1) - s^(a-1))). For each s, r solves M = c (the larger M is kept, so the set is not cut short);
    s is then moved until p - e^eps q is at most delta. An upper bound at every order; where nothing is found the input is returned as
    `inf` and the caller's other conversions serve.
    """
    spend(HALVINGS * HALVINGS * (100.0 + 5.0 * len(orders)))
    with np.errstate(all="ignore"):
        target = (orders - 1.0) * rdp + 1e-14
        low, high = np.full_like(orders, -700.0), np.full_like(orders, 3.6)  # log(-log s): from s = 1 - e^-700 to s = e^-36
        for _ in range(HALVINGS):
            middle = 0.5 * (low + high)
            _, log_gap = _solve(orders, target, -np.exp(middle))
            fits = log_gap <= log_delta
            low, high = np.where(fits, middle, low), np.where(fits, high, middle)
        epsilon, log_gap = _solve(orders, target, -np.exp(low))
        rounded = np.where(rdp > 0.0, ROUNDING, 0.0)
        return np.where((log_gap <= log_delta) & np.isfinite(epsilon), np.maximum(epsilon, 0.0) * (1.0 + 1e-12) + rounded, np.inf)


def _solve(orders: Array, target: Array, y: Array) -> tuple[Array, Array]:
    """(epsilon, log(p - e^eps q)) of the stationary point with log s = y."""
    low, high = np.full_like(orders, -80.0), np.full_like(orders, math.log(1e15))  # log of log r
    log_short = np.log(-np.expm1(y))
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        short = _log_moment(orders, np.exp(middle), y, log_short)[0] < target
        low, high = np.where(short, middle, low), np.where(short, high, middle)
    x = np.exp(high)
    moment, log_q = _log_moment(orders, x, y, log_short)
    reached = moment >= target  # the end of the search is no answer
    a = orders
    # a x - (a-1) x is x: at a = 1e9 the two products would lose eight digits.
    epsilon = x + np.log1p(-1.0 / a) + np.log(-np.expm1(a * (y - x))) - np.log(-np.expm1((a - 1.0) * (y - x)))
    gap = np.where(epsilon < x, log_q + x + np.log(-np.expm1(epsilon - x)), -np.inf)
    return np.where(reached, epsilon, np.inf), np.where(reached, gap, np.inf)

"""The Renyi divergence of LNMax, given the votes. Source: Papernot et al. 2017, arXiv:1610.05755, Theorem 3."""

from __future__ import annotations

import math

from dpcli.numerics.arrays import Array, np
from dpcli.numerics.logspace import log_expm1_array
from dpcli.predict.voting.moment import ROUNDING, divergence, log1mexp_array


def independent_laplace(epsilon: float, orders: Array) -> Array:
    """D_a of what is epsilon-DP, shape (k,): at most epsilon, and a epsilon^2 / 2 (Bun & Steinke 2016, arXiv:1605.02065)."""
    with np.errstate(over="ignore"):
        return np.maximum(np.minimum(0.5 * epsilon * (epsilon * orders), epsilon), math.ulp(0.0))


def total_rdp_laplace(log_q: Array, weights: Array, epsilon: float, orders: Array) -> Array:
    """Upper bounds on the sum of D_a over n releases, each counted `weights` times, shape (k,).

    Args:
        log_q: (n,) log of the probability of any outcome but the likeliest.
        epsilon: of one release, 2 / scale.
    """
    log_1q = log1mexp_array(log_q)
    independent = independent_laplace(epsilon, orders)
    allowed = log_q <= -np.logaddexp(epsilon, 0.0)
    found = np.full(len(orders), float(weights[~allowed].sum())) * independent
    with np.errstate(all="ignore"):
        # log of (1 - q) / (1 - e^eps q), taken by what it differs from 1.
        log_a = -np.log1p(-np.exp(log_q[allowed] + log_expm1_array(np.array([epsilon])) - log_1q[allowed]))
    log_b = np.full_like(log_a, epsilon)
    for k, order in enumerate(orders.tolist()):
        dependent = divergence(log_q[allowed], log_1q[allowed], log_a, log_b, order - 1.0)
        found[k] += float(np.minimum(dependent, independent[k]) @ weights[allowed])
    return np.asarray(found * (1.0 + ROUNDING))

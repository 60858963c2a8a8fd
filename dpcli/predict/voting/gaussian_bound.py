"""The Renyi divergence of one noisy choice whose outcome is nearly certain: what GNMax and the threshold cost, given the votes.

With q the probability of any outcome but the likeliest, for neighbouring votes D_a is at most

    log[(1 - q) A^(a-1) + q B^(a-1)] / (a - 1),    A = (1 - q) / (1 - (q e^e2)^((mu2-1)/mu2)),    B = e^e1 / q^(1/(mu1-1)),
    mu2 = s sqrt(-log q), mu1 = mu2 + 1, e1 = mu1 / s^2, e2 = mu2 / s^2,

where mu1 >= a, mu2 > 1, -log q > e2 and log q <= (mu2 - 1) e2 - mu2 [log(mu1/(mu1-1)) + log(mu2/(mu2-1))]; it never exceeds a / s^2.
Source: Papernot et al. 2018, arXiv:1802.08908, Theorem 6 with Proposition 10.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from dpcli.base.errors import InternalError
from dpcli.numerics.arrays import Array, np
from dpcli.numerics.logspace import log_expm1_array
from dpcli.predict.voting.moment import ROUNDING, divergence, log1mexp_array


class _Terms(NamedTuple):
    """log A and log B, shape (n,), and the largest order up to which they are a bound: 1 where they are none."""

    log_a: Array
    log_b: Array
    highest: Array


def rdp_gaussian(log_q: Array, sigma: float, orders: Array) -> Array:
    """Upper bounds on D_a of one release each, shape (n, k).

    Args:
        log_q: (n,) at most 0; -inf where the outcome is certain, which costs nothing.
        sigma: standard deviation of the noise, for a release of sensitivity sqrt 2; `sqrt 2 sigma` of one of sensitivity 1.
        orders: (k,) real numbers > 1.
    """
    _require(log_q, sigma, orders)
    place = np.argsort(log_q)
    terms, log_1q = _terms(log_q[place], sigma), log1mexp_array(log_q[place])
    found = np.empty((len(log_q), len(orders)))
    for k, order in enumerate(orders.tolist()):
        dependent = divergence(log_q[place], log_1q, terms.log_a, terms.log_b, order - 1.0)
        allowed = terms.highest >= order
        independent = independent_gaussian(sigma, order)
        found[place, k] = np.where(allowed, np.minimum(dependent, independent), independent)
    least = np.where(log_q > -np.inf, math.ulp(0.0), 0.0)[:, None]  # what underflows is still not nothing
    return np.asarray(np.maximum(found * (1.0 + ROUNDING), least))


def independent_gaussian(sigma: float, order: float) -> float:
    """D_a whatever the votes are: order / sigma^2, and never 0."""
    return max(order / sigma / sigma, math.ulp(0.0))


def total_rdp_gaussian(log_q: Array, weights: Array, sigma: float, orders: Array) -> Array:
    """Upper bounds on the sum of D_a over n releases, each counted `weights` times, shape (k,).

    Releases are put in the order of q: those for which an order is allowed then lie together, at the beginning.
    """
    _require(log_q, sigma, orders)
    place = np.argsort(log_q)
    log_q, weights = log_q[place], weights[place]
    terms = _terms(log_q, sigma)
    log_1q = log1mexp_array(log_q)
    beyond = np.concatenate((np.cumsum(weights[::-1])[::-1], [0.0]))  # the weight from a place on
    found = np.empty(len(orders))
    for k, order in enumerate(orders.tolist()):
        allowed = int(np.searchsorted(-terms.highest, -order, side="right"))
        dependent = divergence(log_q[:allowed], log_1q[:allowed], terms.log_a[:allowed], terms.log_b[:allowed], order - 1.0)
        independent = independent_gaussian(sigma, order)
        rest = independent * float(beyond[allowed]) if beyond[allowed] > 0.0 else 0.0  # infinity times nothing is no number
        found[k] = float(np.minimum(dependent, independent) @ weights[:allowed]) + rest
    least = math.ulp(0.0) if np.any(log_q > -np.inf) else 0.0
    return np.asarray(np.maximum(found * (1.0 + ROUNDING + 1e-16 * math.sqrt(len(log_q))), least))


def _require(log_q: Array, sigma: float, orders: Array) -> None:
    if not (np.all(log_q <= 0.0) and sigma > 0.0 and np.all(orders > 1.0)):
        raise InternalError("a probability above 1, noise of none, or an order of at most 1: this is a bug in dpcli, and no number")


def _terms(log_q: Array, sigma: float) -> _Terms:
    with np.errstate(all="ignore"):  # where a condition fails, whatever comes out is not used
        sigma = np.float64(sigma)
        root = np.sqrt(-log_q)
        mu2 = sigma * root
        mu1 = mu2 + 1.0
        inverse = 1.0 / sigma  # squares of sigma itself may be no number
        e2 = root * inverse
        # q e^e2 to the power 1 - 1/mu2 is q e^d: taken so, nothing cancels where it is close to q.
        d = 2.0 * root * inverse - inverse * inverse
        log_ratio = log_q + log_expm1_array(d) - log1mexp_array(log_q)
        log_a = -np.log1p(-np.exp(log_ratio))
        log_b = 2.0 * root * inverse + inverse * inverse
        rising = log_q <= (mu2 - 1.0) * e2 - mu2 * (np.log1p(1.0 / mu2) + np.log1p(1.0 / (mu2 - 1.0)))
        valid = (mu2 > 1.0) & (-log_q > e2) & (log_ratio < 0.0) & rising
        highest = np.where(valid, mu1, 1.0)
    certain = log_q == -np.inf
    # The conditions hold below some q and fail above it; should rounding make a hole, all above it fail.
    highest = np.where(np.logical_and.accumulate(valid | certain), np.where(certain, np.inf, highest), 1.0)
    return _Terms(np.where(certain, 0.0, log_a), np.where(certain, 0.0, log_b), highest)

"""Bounds on a noisy choice among labels given the votes, for the aggregators (aggregators.py) and their sensitivity (vote_sensitivity.py).

Teachers vote on the label of a query. GNMax adds Gaussian noise to the count of votes of each label, LNMax Laplace noise; both release the
label of the largest noisy count. The *winner* is the label with the most votes, without noise. The first bound is on q, the probability of
all outcomes other than the likeliest. The second is on D_a, the Renyi divergence of order a from the choice with neighbouring votes. For
Gaussian noise of deviation s, D_a is at most

    log[(1 - q) A^(a-1) + q B^(a-1)] / (a - 1),    A = (1 - q) / (1 - (q e^e2)^((mu2-1)/mu2)),    B = e^e1 / q^(1/(mu1-1)),
    mu2 = s sqrt(-log q), mu1 = mu2 + 1, e1 = mu1 / s^2, e2 = mu2 / s^2.

The bound holds if mu1 >= a, mu2 > 1, -log q > e2 and log q <= (mu2 - 1) e2 - mu2 [log(mu1/(mu1-1)) + log(mu2/(mu2-1))]. D_a never exceeds
a / s^2. All bounds are rounded up. Sources: for Gaussian noise, Papernot et al. 2018, arXiv:1802.08908, Proposition 7 and Theorem 6 with
Proposition 10; for Laplace noise, Papernot et al. 2017, arXiv:1610.05755, Lemma 4 and Theorem 3.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from dpcli.base.errors import InternalError
from dpcli.numerics.arrays import Array, np
from dpcli.numerics.logspace import log_expm1_array, log_ndtr_array, log_sum

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Counts = NDArray[np.int64]
else:
    Counts = Any

FARTHEST_GAP = 1e300  # Gaps between two counts are capped at this many noise scales, so that log_tail stays finite.
# Bounds are rounded up by these relative amounts. Smaller ones might make a bound false.
LOG_ROUNDING = 4e-15  # for the log of a probability; the sum of a few hundred tails has a smaller error
ROUNDING = 1e-13  # for a divergence; a sum of divergences has a smaller error
LARGEST_EXPONENT = 600.0  # largest exponent that is used; its exponential is still a finite float


def log_q_gaussian(counts: Counts, sigma: float) -> Array:
    """Return log of an upper bound on the probability that GNMax answers with a label other than the winner, (n,).

    Args:
        counts: (n, m) votes for each of m >= 2 labels.
        sigma: Standard deviation of the noise on each count, in votes.
    """
    # log Phi(-gap / (sqrt 2 sigma)), because the noise of the difference of two noisy counts has deviation sqrt 2 sigma
    return _union(counts, lambda gaps: log_ndtr_array(gaps * (-1.0 / (math.sqrt(2.0) * sigma))))


def log_q_laplace(counts: Counts, scale: float) -> Array:
    """Return log of an upper bound on the probability that LNMax answers with a label other than the winner, (n,).

    A label that lies g noise scales behind the winner overtakes it with probability (2 + g) e^-g / 4.
    """

    def log_tail(gaps: Array) -> Array:
        with np.errstate(over="ignore"):
            distance = np.minimum(gaps / scale, FARTHEST_GAP)
        return np.asarray(np.log(0.5 + 0.25 * distance) - distance)

    return _union(counts, log_tail)


class LogThreshold(NamedTuple):
    """Log of upper bounds on the probabilities that the noisy largest count is at least and below the threshold, (n,) each."""

    answered: Array
    unanswered: Array


def log_answered(largest: Array, threshold: float, sigma: float) -> LogThreshold:
    """Return the bounds for queries with these largest counts, (n,), whole numbers as the analysis of the sensitivity requires."""
    with np.errstate(over="ignore"):
        above = (largest - threshold) / sigma
    return LogThreshold(_rounded_up(log_ndtr_array(above), 0.0), _rounded_up(log_ndtr_array(-above), 0.0))


def _union(counts: Counts, log_tail: Callable[[Array], Array]) -> Array:
    """Return log of the union bound: the sum of the tails at all gaps behind the winner.

    It is capped at log(1 - 1/m): the likeliest of m labels has a probability of at least 1/m.
    """
    ordered = np.sort(counts, axis=1)  # Rows that differ only in the order of labels then give the same bits.
    gaps = ordered[:, -1:] - ordered[:, :-1]
    most = int(gaps.max(initial=0))  # at most the number of teachers
    # If a table of the tails of all gaps up to the largest is shorter than the list of gaps, the table is computed.
    tails = log_tail(np.arange(most + 1.0))[gaps] if most < gaps.size else log_tail(gaps.astype(float))
    log_q = log_sum(tails)  # log of the sum of the tails in each row
    return _rounded_up(log_q, math.log1p(-1.0 / counts.shape[1]))


def _rounded_up(log_p: Array, most: float) -> Array:
    """Return log_p increased by more than its rounding error, and capped at `most`."""
    return np.asarray(np.minimum(log_p * (1.0 - LOG_ROUNDING) + LOG_ROUNDING, most))


def rdp_gaussian(log_q: Array, sigma: float, orders: Array) -> Array:
    """Return upper bounds on D_a of each of n releases, (n, k).

    Args:
        log_q: (n,) values of at most 0; -inf if the outcome is certain, and the release costs nothing.
        sigma: Standard deviation of the noise on a release of L2 sensitivity sqrt 2. For sensitivity 1, pass sqrt 2 times the deviation.
        orders: (k,) real numbers > 1.
    """
    return np.stack([*_by_order(log_q, sigma, orders)], axis=1)


def total_rdp_gaussian(log_q: Array, weights: Array, sigma: float, orders: Array) -> Array:
    """Return upper bounds on the sum of D_a over n releases, (k,). Release i counts weights[i] > 0 times."""
    sums = np.array([float(weights @ bounds) for bounds in _by_order(log_q, sigma, orders)])
    return sums * (1.0 + 1.2e-16 * (len(log_q) + 2))  # each product and each addition rounds by at most 1.11e-16


def independent_gaussian(sigma: float, order: float) -> float:
    """Return the bound on D_a that holds for any votes: order / sigma^2, or the smallest positive float if that underflows."""
    return max(order / sigma / sigma, math.ulp(0.0))


def _by_order(log_q: Array, sigma: float, orders: Array) -> Iterator[Array]:
    """Yield upper bounds on D_a of each release, (n,), at each order."""
    if not (np.all(log_q <= 0.0) and sigma > 0.0 and np.all(orders > 1.0)):
        raise InternalError(
            "a probability above 1, no noise, or an order of at most 1: this is a bug in dpcli, and nothing was computed"
        )
    ascending = np.argsort(log_q)  # `_terms` needs ascending values
    original_order = np.argsort(ascending)
    sorted_log_q = log_q[ascending]
    terms, log_1q = _terms(sorted_log_q, sigma), log1mexp_array(sorted_log_q)
    least = np.where(log_q > -np.inf, math.ulp(0.0), 0.0)  # A positive cost that underflows must not become 0.
    for order in orders.tolist():
        dependent = divergence(sorted_log_q, log_1q, terms.log_a, terms.log_b, order - 1.0)
        independent = independent_gaussian(sigma, order)
        bounds = np.where(terms.highest_order >= order, np.minimum(dependent, independent), independent)
        yield np.asarray(np.maximum(bounds[original_order] * (1.0 + ROUNDING), least))


class _Terms(NamedTuple):
    """Log A and log B of the formula above, and the largest order at which it holds, (n,) each; 1 if it holds at no order."""

    log_a: Array
    log_b: Array
    highest_order: Array


def _terms(log_q: Array, sigma: float) -> _Terms:
    """Return the terms for ascending log_q."""
    with np.errstate(all="ignore"):  # Where a condition fails, the results are not used.
        sigma = np.float64(sigma)
        root = np.sqrt(-log_q)
        mu2 = sigma * root
        mu1 = mu2 + 1.0
        inverse = 1.0 / sigma  # The square of a large sigma might overflow.
        e2 = root * inverse
        # (q e^e2)^(1 - 1/mu2) is q e^d. Computed so, no digits cancel if it is close to q.
        d = 2.0 * root * inverse - inverse * inverse
        log_ratio = log_q + log_expm1_array(d) - log1mexp_array(log_q)  # log(1 - 1/A), where 1/A = (1 - q e^d) / (1 - q)
        log_a = -np.log1p(-np.exp(log_ratio))
        log_b = 2.0 * root * inverse + inverse * inverse  # e1 - log(q) / mu2
        rising = log_q <= (mu2 - 1.0) * e2 - mu2 * (np.log1p(1.0 / mu2) + np.log1p(1.0 / (mu2 - 1.0)))
        valid = (mu2 > 1.0) & (-log_q > e2) & (log_ratio < 0.0) & rising
        highest = np.where(valid, mu1, 1.0)
    certain = log_q == -np.inf
    # The conditions hold below some q and fail above it. If rounding makes one fail earlier, the bound is not used above that q.
    highest = np.where(np.logical_and.accumulate(valid | certain), np.where(certain, np.inf, highest), 1.0)
    return _Terms(np.where(certain, 0.0, log_a), np.where(certain, 0.0, log_b), highest)


def total_rdp_laplace(log_q: Array, weights: Array, epsilon: float, orders: Array) -> Array:
    """Return upper bounds on the sum of D_a over n releases of LNMax, (k,). Release i counts weights[i] times.

    Args:
        epsilon: Epsilon of one release, 2 / scale. For all votes, D_a is at most epsilon, and at most a epsilon^2 / 2 (Bun & Steinke 2016,
            arXiv:1605.02065).
    """
    log_1q = log1mexp_array(log_q)
    with np.errstate(over="ignore"):
        independent = np.maximum(np.minimum(0.5 * epsilon * (epsilon * orders), epsilon), math.ulp(0.0))
    allowed = log_q <= -np.logaddexp(epsilon, 0.0)  # The bound given the votes holds for q <= 1 / (1 + e^epsilon).
    total = np.full(len(orders), float(weights[~allowed].sum())) * independent
    with np.errstate(all="ignore"):
        # log A = log[(1 - q) / (1 - e^eps q)], computed from 1 - 1/A, so that no digits cancel.
        log_a = -np.log1p(-np.exp(log_q[allowed] + log_expm1_array(np.array([epsilon])) - log_1q[allowed]))
    log_b = np.full_like(log_a, epsilon)
    for k, order in enumerate(orders.tolist()):
        dependent = divergence(log_q[allowed], log_1q[allowed], log_a, log_b, order - 1.0)
        total[k] += float(np.minimum(dependent, independent[k]) @ weights[allowed])
    return np.asarray(total * (1.0 + ROUNDING))


def divergence(log_q: Array, log_1q: Array, log_a: Array, log_b: Array, above_one: float) -> Array:
    """Return log[(1 - q) A^z + q B^z] / z for A, B >= 1 at z = order - 1, elementwise; 0 where q = 0.

    It is computed as log1p of (1 - q)(A^z - 1) + q (B^z - 1). Both terms are positive, so that no digits cancel if the order is close to
    1 or q is close to 0.
    """
    with np.errstate(all="ignore"):
        likely, unlikely = above_one * log_a, log_q + log_expm1_array(above_one * log_b)
        likely_excess = np.exp(log_1q) * np.expm1(np.minimum(likely, LARGEST_EXPONENT))
        unlikely_excess = np.exp(np.minimum(unlikely, LARGEST_EXPONENT))
        log_moment = np.log1p(likely_excess + unlikely_excess)
        # Where an exponential would overflow, both terms are added in logs. No digits cancel, because the sum is far above 1.
        far = (likely > LARGEST_EXPONENT) | (unlikely > LARGEST_EXPONENT)
        if far.any():
            log_moment[far] = np.logaddexp(log_1q[far] + likely[far], log_q[far] + above_one * log_b[far])
    bounds = np.where(log_moment >= 0.0, log_moment / above_one, np.inf)  # NaN counts as infinite.
    return np.asarray(np.where(log_q == -np.inf, 0.0, bounds))


def log1mexp_array(x: Array) -> Array:
    """Return log(1 - e^x) for x <= 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(x > -math.log(2.0), np.log(-np.expm1(x)), np.log1p(-np.exp(x))))

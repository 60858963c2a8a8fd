"""Consequences of a privacy profile for an attacker: error rates, advantage, pointwise losses and the nearest Gaussian.

A pair (epsilon, delta) bounds every test that tells neighbouring datasets apart. At the false positive rate a, its false negative rate is
at least f(a) = max(0, 1 - delta - e^epsilon a, e^-epsilon (1 - delta - a)) (Wasserman & Zhou 2010, arXiv:0811.2501, Theorem 2.4; Dong,
Roth, Su 2022, arXiv:1905.02383, Proposition 3). If several pairs hold, the largest of their f is a bound. Any set of pairs, however coarse,
gives a bound on the safe side. A mu-Gaussian is the pair N(0, 1) and N(mu, 1).

For a count with Laplace noise of scale 1 / epsilon, all these quantities have closed forms (`laplace_...`). The test is between the counts
n and n + 1. At the outcome n + x, the logarithm of the likelihood ratio of n + 1 over n is epsilon (|x| - |x - 1|). It rises with x, from
-epsilon at x <= 0 to epsilon at x >= 1. By the lemma of Neyman and Pearson (1933) every best test is therefore a threshold on the noisy
count.
"""

from __future__ import annotations

import math

from dpcli.numerics.arrays import Array, np
from dpcli.numerics.closed.normal import gaussian_delta
from dpcli.numerics.roots import bracket_root, expand_until

ROUNDING = 2.0**-50  # more than the rounding error of a sum of three terms of at most 1 (soundness)
SMALLEST_MU = 1e-9  # smallest mu that is returned for a positive delta; a smaller one is rounded up to it (accuracy)
MU_RATIO = 4.0  # ratio of the values of mu that bracket the result (speed)


def false_negatives(epsilons: Array, deltas: Array, alphas: Array) -> Array:
    """Return lower bounds, at least 0, on the false negative rate of a test with each false positive rate `alphas` in [0, 1].

    Args:
        epsilons, deltas: pairs that hold in both directions of the neighbouring relation. The deltas are upper bounds.
    """
    with np.errstate(divide="ignore", over="ignore"):
        e, one_less_delta, a = epsilons[:, None], 1.0 - deltas[:, None], alphas[None, :]
        steep = one_less_delta - np.exp(e + np.log(a)) * (1.0 + ROUNDING * (1.0 + e))  # 1 - delta - e^epsilon a, rounded down
    flat = np.exp(-e) * (one_less_delta - a) * (1.0 - ROUNDING * (1.0 + e))  # e^-epsilon (1 - delta - a), rounded down
    best: Array = np.maximum(steep, flat).max(axis=0, initial=0.0)
    return (best - ROUNDING).clip(min=0.0)


def total_variation(epsilons: Array, deltas: Array) -> float:
    """Return an upper bound, at most 1, on the true positive rate minus the false positive rate of any test.

    The largest difference is delta(0), the maximum of 1 - a - f(a). One pair bounds it by delta + (1 - delta) tanh(epsilon / 2), which is
    reached where a = f(a).
    """
    advantages = deltas + (1.0 - deltas) * np.tanh(epsilons / 2.0)
    return min(float(advantages.min(initial=1.0)) + ROUNDING, 1.0)


def delta_from_pairs(epsilons: Array, deltas: Array, at: Array) -> Array:
    """Return the smallest delta that the pairs imply at each epsilon `at`: an upper bound, never below the smallest of `deltas`."""
    least: Array = implied_deltas(epsilons, deltas, at).min(axis=0, initial=1.0)
    return least


def implied_deltas(epsilons: Array, deltas: Array, at: Array) -> Array:
    """Return upper bounds on delta at each epsilon `at` that each pair implies by itself, as an array with one row for each pair.

    Any mechanism that satisfies the pair (e, d) is dominated by this one: with probability d it reveals the record, and otherwise it is
    randomised response with epsilon e. Its delta at x < e is d + (1 - d) (e^e - e^x) / (e^e + 1) (Kairouz, Oh, Viswanath 2015,
    arXiv:1311.0776, Theorem 3.3).
    """
    e, d = epsilons[:, None], deltas[:, None]
    of_response = np.maximum(-np.expm1(np.minimum(at[None, :] - e, 0.0)), 0.0) / (1.0 + np.exp(-e))  # (e^e - e^x) / (e^e + 1), or 0
    return np.asarray(d + (1.0 - d) * of_response * (1.0 + 4.0 * ROUNDING))


def pointwise_epsilon(epsilons: Array, deltas: Array, probability: float) -> float:
    """Return an e that the privacy loss L exceeds with probability at most `probability`. It is inf if the pairs imply none.

    For every x < e, delta(x) = E_P[(1 - e^(x - L))+] >= (1 - e^(x - e)) P(L > e). So e = x - log(1 - delta(x) / probability) has the
    property. Kasiviswanathan & Smith 2014, arXiv:0803.3946, Lemma 3.3, takes x = e / 2. At `probability` = 0, e is the least epsilon whose
    delta is 0.
    """
    if probability <= 0.0:
        pure = epsilons[deltas <= 0.0]
        return float(pure.min(initial=math.inf))
    with np.errstate(divide="ignore", invalid="ignore"):
        bounds = epsilons - np.log1p(-deltas / probability)
    usable = bounds[deltas < probability]
    return float(usable.min(initial=math.inf)) * (1.0 + ROUNDING)


def gaussian_above(epsilons: Array, deltas: Array) -> float:
    """Return the smallest mu, rounded up, at which a mu-Gaussian's delta is at least `deltas` at each of `epsilons`.

    It is 0 if no delta is positive. It is inf if one of the deltas is 1, or if it would exceed 1 / SMALLEST_MU.
    """
    largest = 0.0
    for epsilon, delta in zip(epsilons.tolist(), deltas.tolist(), strict=True):
        if delta > 0.0 and (largest == 0.0 or gaussian_delta(largest, epsilon)[0] < delta):
            largest = _gaussian_through(epsilon, delta)
    return largest


def _gaussian_through(epsilon: float, delta: float) -> float:
    """Return the mu, rounded up, at which a mu-Gaussian has this delta at this epsilon."""
    if delta >= 1.0:
        return math.inf

    def missing(mu: float) -> float:
        """Return by how much the delta of a mu-Gaussian, rounded down, is too small."""
        lower, _ = gaussian_delta(mu, epsilon)
        return delta - lower

    high = expand_until(lambda mu: missing(mu) <= 0.0, SMALLEST_MU, MU_RATIO, 1.0 / SMALLEST_MU)
    if math.isinf(high) or high == SMALLEST_MU:
        return high
    _, mu = bracket_root(missing, high / MU_RATIO, high, rtol=1e-10)
    return mu


def laplace_tail(epsilon: float, x: Array) -> Array:
    """Return P(noise > x). This is the false positive rate of the threshold n + x; the value at x - 1 is its true positive rate."""
    half = 0.5 * np.exp(-epsilon * np.abs(x))
    return np.where(x >= 0.0, half, 1.0 - half)


def laplace_threshold(epsilon: float, rate: float) -> float:
    """Return the x at which `laplace_tail` equals `rate`, for a rate in (0, 1)."""
    return -math.log(2.0 * rate) / epsilon if rate <= 0.5 else math.log(2.0 * (1.0 - rate)) / epsilon


def laplace_missed(epsilon: float, alphas: Array) -> Array:
    """Return the trade-off curve: the smallest false negative rate of a test with each false positive rate `alphas` in [0, 1].

    The curve is 1 - e^epsilon a up to a = e^-epsilon / 2, where the threshold is above n + 1. It is e^-epsilon / (4 a) from there to
    a = 1/2, where the threshold is between the two counts. It is e^-epsilon (1 - a) beyond, where the threshold is below n. Dong, Roth and
    Su 2022, arXiv:1905.02383, give the curve for any noise of this kind.
    """
    last = 0.5 * math.exp(-epsilon)  # the largest rate of the first piece
    first_piece = 1.0 - np.minimum(alphas, last) / (2.0 * last)
    second_piece = last / (2.0 * np.maximum(alphas, last))
    third_piece = 2.0 * last * (1.0 - alphas)
    return np.where(alphas <= last, first_piece, np.where(alphas <= 0.5, second_piece, third_piece))


def laplace_advantage(epsilon: float) -> float:
    """Return 1 - e^(-epsilon / 2), the largest true positive rate minus false positive rate. The threshold n + 1/2 reaches it."""
    return -math.expm1(-0.5 * epsilon)

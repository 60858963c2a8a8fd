"""Consequences of a privacy profile for an attacker: error rates, advantage, pointwise losses and the nearest Gaussian.

A pair (epsilon, delta) means that no test tells neighbouring datasets apart with fewer errors than f(a) = max(0, 1 - delta - e^epsilon a,
e^-epsilon (1 - delta - a)), a its false positive rate and f(a) its false negative rate (Wasserman & Zhou 2010, arXiv:0811.2501, Theorem
2.4; Dong, Roth, Su 2022, arXiv:1905.02383, Proposition 3). Where several pairs hold, the largest of their f is a bound, and every set of
pairs, however coarse, gives one on the safe side.

A count with Laplace noise, and a test of one more against one less, have all of it in closed form. The count is n or n + 1 and the noise
has scale 1 / epsilon, so that the logarithm of the likelihood ratio of n + 1 over n at n + x is epsilon (|x| - |x - 1|): it rises with x
from -epsilon, at x <= 0, to epsilon, at x >= 1. By the lemma of Neyman and Pearson (1933) every best test is therefore a threshold on the
noisy count.
"""

from __future__ import annotations

import math

from dpcli.numerics.arrays import Array, np
from dpcli.numerics.closed.normal import gaussian_delta
from dpcli.numerics.roots import bracket_root, expand_until

SMALLEST_MU = 1e-9  # in place of anything smaller
ROUNDING = 2.0**-50  # of sums of three terms of at most 1, with room


def false_negatives(epsilons: Array, deltas: Array, alphas: Array) -> Array:
    """The lowest false negative rate of a test whose false positive rate is `alphas` in [0, 1]: a lower bound, at least 0.

    Args:
        epsilons, deltas: pairs that hold, in both directions of the neighbouring relation; deltas are upper bounds.
    """
    with np.errstate(divide="ignore", over="ignore"):
        e, left, a = epsilons[:, None], 1.0 - deltas[:, None], alphas[None, :]
        steep = left - np.exp(e + np.log(a)) * (1.0 + ROUNDING * (1.0 + e))
    flat = np.exp(-e) * (left - a) * (1.0 - ROUNDING * (1.0 + e))
    best: Array = np.maximum(steep, flat).max(axis=0, initial=0.0)
    return (best - ROUNDING).clip(min=0.0)


def total_variation(epsilons: Array, deltas: Array) -> float:
    """The largest true positive rate minus false positive rate, which is delta(0): an upper bound, at most 1.

    It is max of 1 - a - f(a); for one pair that is delta + (1 - delta) tanh(epsilon / 2), at a = f(a).
    """
    advantages = deltas + (1.0 - deltas) * np.tanh(epsilons / 2.0)
    return min(float(advantages.min(initial=1.0)) + ROUNDING, 1.0)


def delta_from_pairs(epsilons: Array, deltas: Array, at: Array) -> Array:
    """The smallest delta at each of `at` that the pairs imply: an upper bound, never below the smallest of `deltas`."""
    best: Array = implied_deltas(epsilons, deltas, at).min(axis=0, initial=1.0)
    return best


def implied_deltas(epsilons: Array, deltas: Array, at: Array) -> Array:
    """Delta at each of `at` that each pair, a row, implies by itself: an upper bound.

    A pair (e, d) is dominated by the one outcome in d that tells all and randomised response of epsilon e otherwise, whose delta at
    x < e is d + (1 - d) (e^e - e^x) / (e^e + 1) (Kairouz, Oh, Viswanath 2015, arXiv:1311.0776, Theorem 3.3).
    """
    e, d = epsilons[:, None], deltas[:, None]
    missing = np.maximum(-np.expm1(np.minimum(at[None, :] - e, 0.0)), 0.0) / (1.0 + np.exp(-e))
    return np.asarray(d + (1.0 - d) * missing * (1.0 + 4.0 * ROUNDING))


def pointwise_epsilon(epsilons: Array, deltas: Array, probability: float) -> float:
    """e such that the privacy loss exceeds e with probability at most `probability` (> 0): an upper bound, inf where none follows.

    delta(x) = E_P[(1 - e^(x - L))+] >= (1 - e^(x - e)) P(L > e) for every x < e, so e = x - log(1 - delta(x) / probability) will do;
    Kasiviswanathan & Smith 2014, arXiv:0803.3946, Lemma 3.3, takes x = e / 2.
    """
    if probability <= 0.0:
        none_left = epsilons[deltas <= 0.0]
        return float(none_left.min(initial=math.inf))
    with np.errstate(divide="ignore", invalid="ignore"):
        bounds = epsilons - np.log1p(-deltas / probability)
    usable = bounds[deltas < probability]
    return float(usable.min(initial=math.inf)) * (1.0 + ROUNDING)


def gaussian_above(epsilons: Array, deltas: Array) -> float:
    """The smallest mu, from above, such that a mu-Gaussian's delta is at least `deltas` at each of `epsilons`; inf where a delta is 1."""
    largest = 0.0
    for epsilon, delta in zip(epsilons.tolist(), deltas.tolist(), strict=True):
        if delta > 0.0 and (largest == 0.0 or gaussian_delta(largest, epsilon)[0] < delta):
            largest = _gaussian_through(epsilon, delta)
    return largest


def _gaussian_through(epsilon: float, delta: float) -> float:
    """The mu, from above, of the Gaussian through one point of the profile."""
    if delta >= 1.0:
        return math.inf

    def short(mu: float) -> float:
        return delta - gaussian_delta(mu, epsilon)[0]

    high = expand_until(lambda mu: short(mu) <= 0.0, SMALLEST_MU, 4.0, 1.0 / SMALLEST_MU)
    if math.isinf(high) or high == SMALLEST_MU:
        return high
    return bracket_root(short, 0.25 * high, high, rtol=1e-10)[1]


def laplace_tail(epsilon: float, x: Array) -> Array:
    """P(noise > x): the false positive rate of the threshold n + x, and at x - 1 its true positive rate."""
    half = 0.5 * np.exp(-epsilon * np.abs(x))
    return np.where(x >= 0.0, half, 1.0 - half)


def laplace_threshold(epsilon: float, rate: float) -> float:
    """The x at which `laplace_tail` is `rate`, in (0, 1)."""
    return -math.log(2.0 * rate) / epsilon if rate <= 0.5 else math.log(2.0 * (1.0 - rate)) / epsilon


def laplace_missed(epsilon: float, alphas: Array) -> Array:
    """The trade-off curve: the smallest false negative rate of a test whose false positive rate is `alphas` in [0, 1].

    1 - e^epsilon a up to a = e^-epsilon / 2, e^-epsilon / (4 a) from there to 1/2, and e^-epsilon (1 - a) beyond: a threshold above
    n + 1, between the two counts, and below n (Dong, Roth and Su 2022, arXiv:1905.02383, have the curve for any noise of this kind).
    """
    last = 0.5 * math.exp(-epsilon)
    few = 1.0 - np.minimum(alphas, last) / (2.0 * last)
    return np.where(
        alphas <= last, few + 0.0, np.where(alphas <= 0.5, last / (2.0 * np.maximum(alphas, last)), 2.0 * last * (1.0 - alphas))
    )


def laplace_advantage(epsilon: float) -> float:
    """The largest true positive rate less the false positive rate, half way between the two counts: 1 - e^(-epsilon / 2)."""
    return -math.expm1(-0.5 * epsilon)

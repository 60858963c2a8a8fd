"""A count with Laplace noise, and what a test of one more against one less makes of it: exact, to nearest.

The count is n or n + 1 and the noise has scale 1 / epsilon, so that the logarithm of the likelihood ratio of n + 1 over n at n + x is
epsilon (|x| - |x - 1|): it rises with x from -epsilon, at x <= 0, to epsilon, at x >= 1. By the lemma of Neyman and Pearson (1933) every
best test is therefore a threshold on the noisy count.
"""

from __future__ import annotations

import math

from dpcli.numerics.arrays import Array, np


def above(epsilon: float, x: Array) -> Array:
    """P(noise > x): the false positive rate of the threshold n + x, and at x - 1 its true positive rate."""
    half = 0.5 * np.exp(-epsilon * np.abs(x))
    return np.where(x >= 0.0, half, 1.0 - half)


def threshold(epsilon: float, rate: float) -> float:
    """The x at which `above` is `rate`, in (0, 1)."""
    return -math.log(2.0 * rate) / epsilon if rate <= 0.5 else math.log(2.0 * (1.0 - rate)) / epsilon


def missed(epsilon: float, alphas: Array) -> Array:
    """The trade-off curve: the smallest false negative rate of a test whose false positive rate is `alphas` in [0, 1].

    1 - e^epsilon a up to a = e^-epsilon / 2, e^-epsilon / (4 a) from there to 1/2, and e^-epsilon (1 - a) beyond: a threshold above
    n + 1, between the two counts, and below n (Dong, Roth and Su 2022, arXiv:1905.02383, have the curve for any noise of this kind).
    """
    last = 0.5 * math.exp(-epsilon)
    few = 1.0 - np.minimum(alphas, last) / (2.0 * last)
    return np.where(
        alphas <= last, few + 0.0, np.where(alphas <= 0.5, last / (2.0 * np.maximum(alphas, last)), 2.0 * last * (1.0 - alphas))
    )


def advantage(epsilon: float) -> float:
    """The largest true positive rate less the false positive rate, half way between the two counts: 1 - e^(-epsilon / 2)."""
    return -math.expm1(-0.5 * epsilon)

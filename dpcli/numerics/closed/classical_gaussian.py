"""The classical noise of a Gaussian release beside the least there is, as multiples of the L2 sensitivity.

Classical: sqrt(2 ln(1.25 / delta)) / epsilon, proved for epsilon < 1 only (Dwork & Roth 2014, The Algorithmic Foundations of Differential
Privacy, Theorem 3.22, proof in appendix A). Analytic: the noise at which delta is what is asked for, by the exact condition of Balle & Wang
2018, arXiv:1805.06530, Theorem 8, at any epsilon. No accountant uses the classical one.
"""

from __future__ import annotations

import math

from dpcli.numerics.closed.normal import gaussian_delta
from dpcli.numerics.roots import bracket_root, expand_until

PROVED_BELOW = 1.0  # epsilon
LEAST = 1e-6  # noise below which nothing is looked for


def classical_sigma(epsilon: float, delta: float) -> float:
    """The classical formula over the sensitivity, to nearest; epsilon > 0, delta in (0, 1)."""
    return math.sqrt(2.0 * math.log(1.25 / delta)) / epsilon


def analytic_sigma(epsilon: float, delta: float) -> float:
    """The least noise over the sensitivity that is (epsilon, delta)-DP: an upper bound, a rounding error away; delta in (0, 1)."""

    def excess(sigma: float) -> float:
        return gaussian_delta(1.0 / sigma, epsilon)[1] - delta

    high = expand_until(lambda sigma: excess(sigma) <= 0.0, LEAST, 4.0, 1.0 / LEAST**20)
    return high if high == LEAST else bracket_root(excess, 0.25 * high, high)[1]


def classical_delta(epsilon: float, delta: float) -> float:
    """The delta that the classical noise for (epsilon, delta) has in truth at that epsilon: an upper bound, a rounding error away."""
    return gaussian_delta(1.0 / classical_sigma(epsilon, delta), epsilon)[1]


def fails_from(delta: float) -> float:
    """The epsilon from which on the classical noise for `delta` is too little: its delta meets what was asked for there.

    There is one for every delta: as epsilon grows, the noise that is needed falls like 1 / sqrt(2 epsilon), and the classical one like
    1 / epsilon, so that its delta tends to 1. That the two cross once is seen in numbers, not proved.
    """

    def left(epsilon: float) -> float:
        return delta - classical_delta(epsilon, delta)

    high = expand_until(lambda epsilon: left(epsilon) <= 0.0, PROVED_BELOW, 1.5, 1e6)
    return bracket_root(left, high / 1.5, high)[1]

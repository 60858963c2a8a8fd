"""The analytic Gaussian trade-off between epsilon and delta, in logarithms, and the classical noise beside it.

Classical: sqrt(2 ln(1.25 / delta)) / epsilon, proved for epsilon < 1 only (Dwork & Roth 2014, The Algorithmic Foundations of Differential
Privacy, Theorem 3.22, proof in appendix A). Analytic: the noise at which delta is what is asked for, by the exact condition of Balle & Wang
2018, arXiv:1805.06530, Theorem 8, at any epsilon. No accountant uses the classical one.
"""

from __future__ import annotations

import math
from statistics import NormalDist

from dpcli.numerics.logspace import log_ndtr, log_sub
from dpcli.numerics.roots import bracket_root, expand_until
from dpcli.numerics.work import spend

PROVED_BELOW = 1.0  # epsilon
LEAST = 1e-6  # noise below which nothing is looked for


def _log_delta(mu: float, epsilon: float) -> tuple[float, float]:
    """log delta(epsilon) of a mu-Gaussian, and a bound on the rounding error of that logarithm."""
    a = log_ndtr(0.5 * mu - epsilon / mu)
    b = epsilon + log_ndtr(-0.5 * mu - epsilon / mu)
    value = log_sub(a, b)
    if value == -math.inf:
        return value, math.inf
    # a and b carry a few ulp of themselves and of epsilon; the subtraction magnifies them by e^(a - value).
    return value, 4e-16 * (2.0 + abs(a) + abs(b) + 2.0 * epsilon) * math.exp(min(a - value, 700.0))


def gaussian_sum(parts: list[tuple[int, float]]) -> float:
    """mu of Gaussians together, of (count, mu): the root of the sum of count mu^2, in units of the largest, whose square is a number."""
    largest = max((mu for _, mu in parts), default=0.0)
    return (
        largest * math.sqrt(math.fsum(count * (mu / largest) ** 2 for count, mu in parts)) if 0.0 < largest < math.inf else largest
    )


def total_variation(mu: float) -> float:
    """delta of a mu-Gaussian at epsilon = 0, from above; not 0 for mu > 0."""
    return math.erf(mu / math.sqrt(8.0)) * (1.0 + 1e-15) + math.ulp(0.0)


def mu_of_pure(epsilon: float) -> float:
    """Return mu such that epsilon-DP is mu-GDP: Phi(-mu/2) = 1/(1 + e^epsilon), rounded up; inf beyond epsilon = 700.

    The trade-off curve of mu-GDP is convex, meets that of epsilon-DP at both ends and at its kink, and so lies below its straight lines.
    """
    log_kink = -math.log1p(math.exp(-epsilon)) - epsilon
    mu = -2.0 * NormalDist().inv_cdf(math.exp(log_kink)) if log_kink > -700.0 else math.inf
    mu = mu * (1.0 + 1e-12) + 1e-15  # the inverse is rounded
    while log_ndtr(-0.5 * mu) > log_kink * (1.0 + 1e-15):
        mu += 1e-12 * (1.0 + mu)
    return mu


def gaussian_delta(mu: float, epsilon: float) -> tuple[float, float]:
    """delta at which a mu-Gaussian (sensitivity / standard deviation = mu) is (epsilon, delta)-DP.

    Returns:
        (lower, upper) around Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu); they differ by rounding alone.

    Source: Balle & Wang 2018, arXiv:1805.06530, Theorem 8.
    """
    value, error = _log_delta(mu, epsilon)
    if not math.isfinite(error):
        return 0.0, min(_raised(log_ndtr(0.5 * mu - epsilon / mu)), total_variation(mu))
    return math.exp(value - error), min(_raised(value + error), total_variation(mu))


def _raised(log_value: float) -> float:
    """e^log_value, at least the smallest number there is: an upper bound never underflows to 0."""
    return min(1.0, max(math.exp(min(log_value, 0.0)), math.ulp(0.0)))


def gaussian_epsilon(mu: float, delta: float) -> tuple[float, float]:
    """epsilon at which a mu-Gaussian is (epsilon, delta)-DP.

    Args:
        mu: sensitivity / standard deviation, > 0.
        delta: in [0, 1).

    Returns:
        (lower, upper) in nats, around the exact value; they differ by rounding alone. (inf, inf) at delta = 0; (0, 0) where delta
        covers the total variation distance.

    Source: Balle & Wang 2018, arXiv:1805.06530, Theorem 8: delta decreases strictly in epsilon, so a bracket is an answer.
    """
    return _end(mu, delta, -1.0), gaussian_epsilon_upper(mu, delta)


def gaussian_epsilon_upper(mu: float, delta: float) -> float:
    """The upper end of `gaussian_epsilon` alone, for half the work."""
    return _end(mu, delta, 1.0)


def _end(mu: float, delta: float, sign: float) -> float:
    """Return the epsilon at which log delta(eps) + sign * error meets log delta, from the outside."""
    if delta <= 0.0:
        return math.inf
    if total_variation(mu) <= delta:
        return 0.0
    target = math.log(delta)
    spend(500.0)  # the search below

    def excess(epsilon: float) -> float:
        value, error = _log_delta(mu, epsilon)
        if not math.isfinite(error):
            return -math.inf if sign < 0 else log_ndtr(0.5 * mu - epsilon / mu) - target
        return value + sign * error - target

    if sign < 0 and excess(0.0) <= 0.0:
        return 0.0
    high = 0.5 * mu * mu + mu * math.sqrt(-2.0 * target) + 1e-300  # Phi(mu/2 - eps/mu) alone is below delta there
    return bracket_root(excess, 0.0, high)[sign > 0]


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

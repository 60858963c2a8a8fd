"""Closed forms for the Gaussian mechanism: the exact relation of epsilon and delta, and the classical noise formula for comparison.

The exact condition is that of Balle & Wang 2018, arXiv:1805.06530, Theorem 8; it holds at any epsilon and is computed with logarithms. The
classical noise is sqrt(2 ln(1.25 / delta)) / epsilon. It is proved only for epsilon < 1 (Dwork & Roth 2014, The Algorithmic Foundations of
Differential Privacy, Theorem 3.22, proof in appendix A). No accountant uses the classical formula.

mu stands for the sensitivity over the standard deviation of the noise. A "mu-Gaussian" is a Gaussian mechanism with that ratio.
"""

from __future__ import annotations

import math
from statistics import NormalDist

from dpcli.numerics.logspace import log_ndtr, log_sub
from dpcli.numerics.roots import bracket_root, expand_until
from dpcli.numerics.work import spend  # counts work, and refuses a question that takes too much

PROVED_BELOW = 1.0  # the classical noise is proved to suffice for epsilon below this
LEAST_SIGMA = 1e-6  # least noise over the sensitivity that `analytic_sigma` returns; it is far below any that is used
SIGMA_RATIO, EPSILON_RATIO = 4.0, 1.5  # ratios of the values that are tried until a noise, or an epsilon, is bracketed
WORK = 500.0  # work of a search for epsilon, in cells (numerics/work.py)
# Soundness: the rounding error of log delta, in units of this and of the sizes of its terms.
ULPS = 4e-16


def _log_delta(mu: float, epsilon: float) -> tuple[float, float]:
    """Return log delta(epsilon) of a mu-Gaussian, and a bound on the relative rounding error of delta."""
    a = log_ndtr(0.5 * mu - epsilon / mu)
    b = epsilon + log_ndtr(-0.5 * mu - epsilon / mu)
    value = log_sub(a, b)
    if value == -math.inf:
        return value, math.inf
    # The errors of a and b are a few ulp of a, b and epsilon. The subtraction magnifies them by e^(a - value).
    return value, ULPS * (2.0 + abs(a) + abs(b) + 2.0 * epsilon) * math.exp(min(a - value, 700.0))


def _log_least(value: float, error: float) -> float:
    """Return a lower bound on log delta, from its computed value and a bound on the relative error of delta."""
    return value + math.log1p(-error) if error < 1.0 else -math.inf


def gaussian_sum(parts: list[tuple[int, float]]) -> float:
    """Return the mu of a composition of Gaussians, given as pairs (count, mu): the root of the sum of count mu^2.

    The result has a few rounding errors. It is 0 for no parts, and inf if one mu is inf. The sum is computed in units of the largest mu, so
    that no square overflows or vanishes.
    """
    largest = max((mu for _, mu in parts), default=0.0)
    if not 0.0 < largest < math.inf:
        return largest
    return largest * math.sqrt(math.fsum(count * (mu / largest) ** 2 for count, mu in parts))


def total_variation(mu: float) -> float:
    """Return an upper bound on delta of a mu-Gaussian at epsilon = 0. It is above 0 for mu > 0."""
    return math.erf(mu / math.sqrt(8.0)) * (1.0 + 1e-15) + math.ulp(0.0)


def mu_of_pure(epsilon: float) -> float:
    """Return an upper bound on the mu at which epsilon-DP implies mu-GDP. It is inf for epsilon beyond about 700.

    This mu satisfies Phi(-mu/2) = 1/(1 + e^epsilon). The trade-off curve of mu-GDP is convex, and meets the curve of epsilon-DP at both
    ends and at its kink. Between these points the curve of epsilon-DP is straight, so the curve of mu-GDP lies below it.
    """
    log_kink = -math.log1p(math.exp(-epsilon)) - epsilon  # log of 1/(1 + e^epsilon), where both error rates are equal
    mu = -2.0 * NormalDist().inv_cdf(math.exp(log_kink)) if log_kink > -700.0 else math.inf
    mu = mu * (1.0 + 1e-12) + 1e-15  # more than the error of the inverse, which is rounded
    while log_ndtr(-0.5 * mu) > log_kink * (1.0 + 1e-15):  # a check, in case the error is larger than expected
        mu += 1e-12 * (1.0 + mu)
    return mu


def gaussian_delta(mu: float, epsilon: float) -> tuple[float, float]:
    """Return bounds on the delta at which a mu-Gaussian is (epsilon, delta)-DP.

    Returns:
        (lower, upper) bounds on Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu). They differ by rounding only.
    """
    value, error = _log_delta(mu, epsilon)
    if not math.isfinite(error):  # the difference is lost in rounding; its first term is an upper bound
        return 0.0, min(_positive_exp(log_ndtr(0.5 * mu - epsilon / mu)), total_variation(mu))
    return math.exp(_log_least(value, error)), min(_positive_exp(value + error), total_variation(mu))


def _positive_exp(log_value: float) -> float:
    """Return e^log_value, but at least the smallest positive float, because an upper bound must not underflow to 0, and at most 1."""
    return min(1.0, max(math.exp(min(log_value, 0.0)), math.ulp(0.0)))


def gaussian_epsilon(mu: float, delta: float) -> tuple[float, float]:
    """Return bounds on the epsilon at which a mu-Gaussian is (epsilon, delta)-DP.

    Args:
        mu: sensitivity / standard deviation, > 0.
        delta: in [0, 1).

    Returns:
        (lower, upper) bounds in nats, which differ by rounding only. They are (inf, inf) at delta = 0, and (0, 0) if delta is at least
        the total variation distance. Delta decreases strictly with epsilon, so the ends of a bracket are bounds.
    """
    return _end(mu, delta, -1.0), gaussian_epsilon_upper(mu, delta)


def gaussian_epsilon_upper(mu: float, delta: float) -> float:
    """Return the upper bound of `gaussian_epsilon` alone, for half the work."""
    return _end(mu, delta, 1.0)


def _end(mu: float, delta: float, sign: float) -> float:
    """Return a bound on the epsilon at which log delta(eps) equals log delta: an upper bound for sign 1, a lower one for sign -1."""
    if delta <= 0.0:
        return math.inf
    if total_variation(mu) <= delta:
        return 0.0
    target = math.log(delta)
    spend(WORK)

    def excess(epsilon: float) -> float:
        """Return by how much the bound on log delta, on the side of `sign`, exceeds log delta."""
        value, error = _log_delta(mu, epsilon)
        if not math.isfinite(error):
            return -math.inf if sign < 0 else log_ndtr(0.5 * mu - epsilon / mu) - target
        return (value + error if sign > 0 else _log_least(value, error)) - target

    if sign < 0 and excess(0.0) <= 0.0:
        return 0.0
    high = 0.5 * mu * mu + mu * math.sqrt(-2.0 * target) + 1e-300  # Phi(mu/2 - eps/mu) alone is below delta there
    return bracket_root(excess, 0.0, high)[sign > 0]


def classical_sigma(epsilon: float, delta: float) -> float:
    """Return the classical noise over the sensitivity, rounded to nearest, for epsilon > 0 and delta in (0, 1)."""
    return math.sqrt(2.0 * math.log(1.25 / delta)) / epsilon


def analytic_sigma(epsilon: float, delta: float) -> float:
    """Return the least noise over the sensitivity that is (epsilon, delta)-DP, for delta in (0, 1).

    It is an upper bound, and tight up to rounding unless it is LEAST_SIGMA.
    """

    def excess(sigma: float) -> float:
        return gaussian_delta(1.0 / sigma, epsilon)[1] - delta

    high = expand_until(lambda sigma: excess(sigma) <= 0.0, LEAST_SIGMA, SIGMA_RATIO, 1.0 / LEAST_SIGMA**20)
    if high == LEAST_SIGMA:
        return high
    _, sigma = bracket_root(excess, high / SIGMA_RATIO, high)
    return sigma


def classical_delta(epsilon: float, delta: float) -> float:
    """Return the true delta, at `epsilon`, of the classical noise for (epsilon, delta): an upper bound, tight up to rounding."""
    return gaussian_delta(1.0 / classical_sigma(epsilon, delta), epsilon)[1]


def fails_from(delta: float) -> float:
    """Return the epsilon above which the classical noise for `delta` does not suffice, because its true delta exceeds `delta`.

    There is such an epsilon for every delta. As epsilon grows, the noise that is needed falls like 1 / sqrt(2 epsilon), but the classical
    noise falls like 1 / epsilon, so its true delta tends to 1. That there is only one crossing was checked numerically; it is not proved.
    """

    def margin(epsilon: float) -> float:
        return delta - classical_delta(epsilon, delta)

    high = expand_until(lambda epsilon: margin(epsilon) <= 0.0, PROVED_BELOW, EPSILON_RATIO, 1e6)
    _, epsilon = bracket_root(margin, high / EPSILON_RATIO, high)
    return epsilon

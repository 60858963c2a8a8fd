"""Bounds on tails of distributions on the integers: discrete Laplace and Gaussian noise, and binomial numbers.

For example, a histogram shows a key if noise lifts its count above a threshold (mechanisms/choice/stability.py), and a sample is cut if a
binomial number is too large (mechanisms/sampling/truncated.py). Such probabilities are charged, so every tail is rounded up. It is a
logarithm, because it may be far below the smallest float. Only `log_binomial_term` is a lower bound.
"""

from __future__ import annotations

import math
from fractions import Fraction

from dpcli.numerics.arrays import np
from dpcli.numerics.logspace import log_factorials

# Soundness.
ROUNDING = 1e-12  # absolute increase of a logarithm, which exceeds its rounding error
EXPONENT_ROUNDING = 1e-13  # relative rounding error of the exponent of a binomial probability
FACTORIAL_ROUNDING = 4e-9  # absolute error of a logarithm from the log factorials of up to FEW, each of which errs by at most 1e-9
BEYOND = 60.0  # a sum ends at terms below e^-60 times the first one; all later terms together are below the rounding error
LEAST_TAIL = 1e-300  # a smaller normal tail may underflow, so it gets a bound in closed form
# Accuracy and speed: beyond these, upper bounds in closed form replace all terms or the rest of them.
LARGEST_SUMMED = 2000.0  # largest sigma for which the tail of the discrete Gaussian is added up term by term
TERMS = 4096  # most terms of a binomial tail that are added up; a geometric series bounds the rest
FEW = 1024  # largest number of trials for which every term of the tail is added up
# Accuracy: from this |x| on, (1+x) log(1+x) - x loses no digits; below, its power series up to x^SERIES_END has an error below rounding.
SERIES, SERIES_END = 0.03, 13


def log_laplace_beyond(scale: float, least: int) -> float:
    """Return an upper bound on log P(X > least), for P(X = x) proportional to e^{-|x| / scale}.

    With p = e^{-1 / scale}, P(X >= x) is p^x / (1 + p) for x >= 1. For least < 0, the bound is 1 minus the same tail at -least.
    """
    log_p = -1.0 / scale
    log_total = math.log1p(math.exp(log_p))
    if least >= 0:
        return min((least + 1) * log_p - log_total + ROUNDING, 0.0)
    return min(math.log1p(-math.exp(-least * log_p - log_total) * (1.0 - ROUNDING)), 0.0)


def log_gaussian_beyond(sigma: float, least: int) -> float:
    """Return an upper bound on log P(X > least), for P(X = x) proportional to e^{-x^2 / (2 sigma^2)}.

    For sigma above LARGEST_SUMMED the bound is the normal tail at `least`, and 0 if least < 0. The normal tail is larger, because each term
    of the sum is at most its integral, and the sum of all terms is at least the integral of the density (Canonne, Kamath, Steinke 2020,
    arXiv:2004.00010, Fact 18).
    """
    if least < 0:  # 1 minus P(X <= least), which is P(X >= -least)
        return 0.0 if sigma > LARGEST_SUMMED else min(math.log1p(-_tail_mass(sigma, -least) * (1.0 - ROUNDING)), 0.0)
    if sigma > LARGEST_SUMMED:
        return _log_normal_tail(least / sigma)
    first = least + 1
    log_first = -0.5 * (first / sigma) ** 2
    return min(log_first + math.log(_weight_sum(sigma, first)) - math.log(_total_weight(sigma)) + ROUNDING, 0.0)


def _tail_mass(sigma: float, first: int) -> float:
    """Return P(X >= first) for the discrete Gaussian and first > 0."""
    return math.exp(-0.5 * (first / sigma) ** 2) * _weight_sum(sigma, first) / _total_weight(sigma)


def _weight_sum(sigma: float, first: int) -> float:
    """Return the sum of the weights e^{-x^2 / (2 sigma^2)} over x >= first, divided by the weight of `first` >= 1."""
    terms, x, term = [], first, 1.0
    while term > math.exp(-BEYOND):
        terms.append(term)
        x += 1
        term = math.exp(-0.5 * (x - first) / sigma * ((x + first) / sigma))  # x^2 - first^2 without cancellation
    return math.fsum(terms)


def _total_weight(sigma: float) -> float:
    """Return the sum of the weights e^{-x^2 / (2 sigma^2)} over all integers x."""
    return 1.0 + 2.0 * math.exp(-0.5 / sigma / sigma) * _weight_sum(sigma, 1)


def _log_normal_tail(x: float) -> float:
    """Return an upper bound on the log of the standard normal tail above x >= 0. The density over x bounds a tail that would underflow."""
    tail = 0.5 * math.erfc(x / math.sqrt(2.0))
    if tail > LEAST_TAIL:
        return math.log(tail) + ROUNDING * (1.0 + x * x)
    return -0.5 * x * x - math.log(x * math.sqrt(2.0 * math.pi)) + ROUNDING * (1.0 + x * x)


def log_binomial_tail(trials: int, rate: Fraction, least: int) -> float:
    """Return an upper bound on log P(Binomial(trials, rate) >= least).

    Args:
        trials: the number n >= 0 of trials.
        rate: the probability in [0, 1].
        least: the smallest count in the tail.

    Returns:
        At most 0, and -inf if the tail is empty. Up to FEW trials the bound on the probability is at most 1e-8 too large, relative. For
        more trials the result is 0 if `least` is at most the mean. Otherwise the bound is too large by Stirling's factor
        e^{1/(12 least) + 1/(12 (n - least))} and, if the tail has more than TERMS terms, by a factor of about 1 + 1/z^2 at z standard
        deviations.

    Source: C(n, b) <= e^{n h(b/n)} sqrt(n / (2 pi b (n-b))) (Robbins 1955). The terms of the tail fall at least geometrically.
    """
    if least > trials or (rate == 0 and least > 0):
        return -math.inf
    if least <= 0 or rate == 1:
        return 0.0
    if trials <= FEW:
        return _log_tail_sum(trials, float(rate), least)
    if least <= trials * rate:
        return 0.0
    odds = float(rate / (1 - rate))
    log_first = _log_stirling_bound(trials, rate, least, -EXPONENT_ROUNDING)
    # The terms relative to the first one. Their ratios fall, so a geometric series with the last ratio bounds those that are not added up.
    j = np.arange(min(TERMS, trials - least + 1), dtype=float)
    ratios = (trials - least - j) / (least + j + 1.0) * odds
    terms = np.concatenate(([1.0], np.cumprod(ratios)))
    last = float(ratios[-1])
    total = float(terms[:-1].sum()) + (float(terms[-1]) / (1.0 - last) if last < 1.0 else math.inf)
    return min(0.0, log_first + math.log(total) + ROUNDING)


def log_binomial_term(trials: int, rate: Fraction, count: int) -> float:
    """Return a lower bound on log P(Binomial(trials, rate) = count), for 0 <= count <= trials and rate in (0, 1).

    It is too small by Stirling's factor (`log_binomial_tail`), or by at most 1e-8 up to FEW trials. For a count of 0 or `trials` the error
    is only rounding.
    """
    if count in (0, trials):
        log_of_one = math.log1p(-float(rate)) if count == 0 else math.log(rate)
        return (trials * log_of_one) * (1.0 + EXPONENT_ROUNDING)
    if trials <= FEW:
        log_factorial = log_factorials(trials)
        log_count = float(log_factorial[trials] - log_factorial[count] - log_factorial[trials - count])
        return log_count + count * math.log(rate) + (trials - count) * math.log1p(-float(rate)) - FACTORIAL_ROUNDING
    log_bound = _log_stirling_bound(trials, rate, count, EXPONENT_ROUNDING)
    return log_bound - 1.0 / (12.0 * count) - 1.0 / (12.0 * (trials - count)) - ROUNDING


def _log_stirling_bound(trials: int, rate: Fraction, count: int, error: float) -> float:
    """Return an upper bound on log P(Binomial(trials, rate) = count) by Stirling's formula, for count > 0.

    error: relative change of the exponent, which covers its rounding. A positive error makes the result smaller.
    """
    mean, excess = trials * rate, count - trials * rate
    # The exponent is n KL(b/n || q), written as a sum of two terms that do not cancel.
    exponent = float(mean) * _deviance(float(excess / mean)) + float(trials - mean) * _deviance(-float(excess / (trials - mean)))
    bound = -exponent * (1.0 + error)
    if count < trials:
        bound += 0.5 * (math.log(trials) - math.log(2.0 * math.pi) - math.log(count) - math.log(trials - count))
    return bound


def _log_tail_sum(trials: int, rate: float, least: int) -> float:
    """Return an upper bound on the log of the tail of at most FEW trials, added up term by term."""
    log_factorial, k = log_factorials(trials), np.arange(least, trials + 1)
    log_counts = log_factorial[trials] - log_factorial[k] - log_factorial[trials - k]
    terms = log_counts + k * math.log(rate) + (trials - k) * math.log1p(-rate)
    return min(0.0, float(np.logaddexp.reduce(terms)) + FACTORIAL_ROUNDING)


def _deviance(x: float) -> float:
    """Return (1+x) log(1+x) - x, which is at least 0, for x >= -1. No digits are lost near 0."""
    if x <= -1.0:
        return 1.0
    if abs(x) > SERIES:
        return (1.0 + x) * math.log1p(x) - x
    return math.fsum((-x) ** k / (k * (k - 1)) for k in range(2, SERIES_END + 1))

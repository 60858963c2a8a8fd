"""Upper tail of a binomial distribution, from above, for any number of trials."""

from __future__ import annotations

import math
from fractions import Fraction

from dpcli.numerics.arrays import np
from dpcli.numerics.logspace import log_factorials

TERMS = 4096
FEW = 1024  # trials up to which every term of the tail is added up


def log_binomial_tail(trials: int, rate: Fraction, least: int) -> float:
    """Upper bound on log P(Binomial(trials, rate) >= least).

    Args:
        trials: n >= 0. rate: in [0, 1]. least: the count from which on the tail is taken.

    Returns:
        At most 0; -inf where the tail is empty. Up to FEW trials too large by at most 1e-8 of itself. For more, 0 where `least` is at
        most the mean, and else too large by Stirling's factor e^{1/(12 least) + 1/(12 (n - least))} and, where more than TERMS terms
        count, by about 1 + 1/z^2 at z standard deviations.

    Source: C(n, b) <= e^{n h(b/n)} sqrt(n / (2 pi b (n-b))) (Robbins 1955); the terms of the tail fall at least geometrically.
    """
    if least > trials or (rate == 0 and least > 0):
        return -math.inf
    if least <= 0 or rate == 1:
        return 0.0
    if trials <= FEW:
        return _added_up(trials, float(rate), least)
    if least <= trials * rate:
        return 0.0
    odds = float(rate / (1 - rate))
    first = _log_most(trials, rate, least, -1e-13)
    j = np.arange(min(TERMS, trials - least + 1), dtype=float)
    ratios = (trials - least - j) / (least + j + 1.0) * odds
    terms = np.concatenate(([1.0], np.cumprod(ratios)))
    last = float(ratios[-1])
    total = float(terms[:-1].sum()) + (float(terms[-1]) / (1.0 - last) if last < 1.0 else math.inf)
    return min(0.0, first + math.log(total) + 1e-12)


def log_binomial_term(trials: int, rate: Fraction, count: int) -> float:
    """Lower bound on log P(Binomial(trials, rate) = count), 0 <= count <= trials, rate in (0, 1); too small by Stirling's factor, as
    the tail is too large, or by 1e-8 where there are few trials."""
    if count in (0, trials):
        return (trials * (math.log1p(-float(rate)) if count == 0 else math.log(rate))) * (1.0 + 1e-13)
    if trials <= FEW:
        log_factorial = log_factorials(trials)
        log_count = float(log_factorial[trials] - log_factorial[count] - log_factorial[trials - count])
        return log_count + count * math.log(rate) + (trials - count) * math.log1p(-float(rate)) - 4e-9
    return _log_most(trials, rate, count, 1e-13) - 1.0 / (12.0 * count) - 1.0 / (12.0 * (trials - count)) - 1e-12


def _log_most(trials: int, rate: Fraction, count: int, error: float) -> float:
    """Upper bound on one probability by Stirling's formula, 0 < count; error: relative, of the exponent."""
    mean, excess = trials * rate, count - trials * rate
    # n KL(b/n || q) in a form without cancellation: the mean's part and the rest's.
    exponent = float(mean) * _deviance(float(excess / mean)) + float(trials - mean) * _deviance(-float(excess / (trials - mean)))
    found = -exponent * (1.0 + error)
    if count < trials:
        found += 0.5 * (math.log(trials) - math.log(2.0 * math.pi) - math.log(count) - math.log(trials - count))
    return found


def _added_up(trials: int, rate: float, least: int) -> float:
    """The tail of at most FEW trials, term by term; factorials, added up one by one, are off by at most 1e-9."""
    log_factorial, k = log_factorials(trials), np.arange(least, trials + 1)
    log_counts = log_factorial[trials] - log_factorial[k] - log_factorial[trials - k]
    terms = log_counts + k * math.log(rate) + (trials - k) * math.log1p(-rate)
    return min(0.0, float(np.logaddexp.reduce(terms)) + 4e-9)


def _deviance(x: float) -> float:
    """(1+x) log(1+x) - x >= 0 for x >= -1, with its digits near 0."""
    if x <= -1.0:
        return 1.0
    if abs(x) > 0.03:
        return (1.0 + x) * math.log1p(x) - x
    return math.fsum((-x) ** k / (k * (k - 1)) for k in range(2, 14))

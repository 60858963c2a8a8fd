"""Upper tails of noise on the integers, in logarithms: upper bounds, at most 1e-12 relative above where nothing else is said."""

from __future__ import annotations

import math

LARGEST_SUMMED = 2000.0  # sigma whose tail is added up term by term
BEYOND = 60.0  # terms e^-60 times the first one, and all after it, weigh less than is rounded away
ROUNDING = 1e-12


def log_laplace_beyond(scale: float, least: int) -> float:
    """log P(X > least), P(X = x) proportional to e^{-|x| / scale}."""
    ratio = -1.0 / scale
    log_total = math.log1p(math.exp(ratio))
    if least >= 0:
        return min((least + 1) * ratio - log_total + ROUNDING, 0.0)
    return min(math.log1p(-math.exp(-least * ratio - log_total) * (1.0 - ROUNDING)), 0.0)


def log_gaussian_beyond(sigma: float, least: int) -> float:
    """log P(X > least), P(X = x) proportional to e^{-x^2 / (2 sigma^2)}.

    Above LARGEST_SUMMED the normal tail at `least`, which is more: the terms are at most their integrals, and their total is at least its
    own (Canonne, Kamath, Steinke 2020, arXiv:2004.00010, Fact 18); 1 for least < 0.
    """
    if least < 0:
        return 0.0 if sigma > LARGEST_SUMMED else min(math.log1p(-_share(sigma, -least) * (1.0 - ROUNDING)), 0.0)
    if sigma > LARGEST_SUMMED:
        return _log_normal_tail(least / sigma)
    first = least + 1
    log_first = -0.5 * (first / sigma) ** 2
    return min(log_first + math.log(_terms(sigma, first)) - math.log(_total(sigma)) + ROUNDING, 0.0)


def _share(sigma: float, first: int) -> float:
    """P(X >= first), first > 0."""
    return math.exp(-0.5 * (first / sigma) ** 2) * _terms(sigma, first) / _total(sigma)


def _terms(sigma: float, first: int) -> float:
    """The sum of the weights from `first` >= 1 on, over the first of them."""
    found, x, term = [], first, 1.0
    while term > math.exp(-BEYOND):
        found.append(term)
        x += 1
        term = math.exp(-0.5 * (x - first) / sigma * ((x + first) / sigma))
    return math.fsum(found)


def _total(sigma: float) -> float:
    """The sum of all weights."""
    return 1.0 + 2.0 * math.exp(-0.5 / sigma / sigma) * _terms(sigma, 1)


def _log_normal_tail(x: float) -> float:
    """log of the normal tail from x >= 0 on, from above: by its density where the tail itself is no number."""
    tail = 0.5 * math.erfc(x / math.sqrt(2.0))
    if tail > 1e-300:
        return math.log(tail) + ROUNDING * (1.0 + x * x)
    return -0.5 * x * x - math.log(x * math.sqrt(2.0 * math.pi)) + ROUNDING * (1.0 + x * x)

"""Probabilities as logarithms, so that 1e-300 is a number like any other."""

from __future__ import annotations

import math

_SQRT2 = math.sqrt(2.0)
_HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)


def log1mexp(x: float) -> float:
    """log(1 - e^x) for x <= 0, accurate at both ends; -inf at 0."""
    if x >= 0.0:
        return -math.inf
    return math.log(-math.expm1(x)) if x > -0.6931471805599453 else math.log1p(-math.exp(x))


def log_sub(a: float, b: float) -> float:
    """log(e^a - e^b) for a >= b; -inf where they are equal or b exceeds a by rounding."""
    return a + log1mexp(b - a) if a > -math.inf else -math.inf


def log_add(a: float, b: float) -> float:
    """log(e^a + e^b)."""
    high, low = (a, b) if a >= b else (b, a)
    if high in (-math.inf, math.inf):
        return high
    return high + math.log1p(math.exp(low - high))


def log_expm1(x: float) -> float:
    """log(e^x - 1) for x >= 0 without overflow; -inf at 0."""
    if x > 36.0:
        return x + math.log1p(-math.exp(-x))
    return math.log(math.expm1(x)) if x > 0.0 else -math.inf


def log_ndtr(x: float) -> float:
    """Logarithm of the standard normal distribution function, for any x.

    Below -20 the asymptotic series of Mills' ratio is used (ten terms; its error is below the first term left out, under 1e-17
    relative there); elsewhere the C library's erfc.
    """
    if x > 0.0:
        return math.log1p(-0.5 * math.erfc(x / _SQRT2))
    if x > -20.0:
        return math.log(0.5 * math.erfc(-x / _SQRT2))
    if x == -math.inf:
        return -math.inf
    inverse, term, total = 1.0 / (x * x), 1.0, 0.0
    for k in range(1, 11):
        term *= -(2 * k - 1) * inverse
        total += term
    return -0.5 * x * x - _HALF_LOG_2PI - math.log(-x) + math.log1p(total)

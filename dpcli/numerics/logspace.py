"""Probabilities as logarithms, so that 1e-300 is a number like any other."""

from __future__ import annotations

import math
from typing import Any

from dpcli.numerics.arrays import Array, ComplexArray, np
from dpcli.numerics.work import spend

_SQRT2 = math.sqrt(2.0)
_HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)
FEW = 16  # elements
MILLS = 10  # terms of the asymptotic series of Mills' ratio


def log1mexp(x: float) -> float:
    """log(1 - e^x) for x <= 0, accurate at both ends; -inf at 0."""
    if x >= 0.0:
        return -math.inf
    return math.log(-math.expm1(x)) if x > -0.6931471805599453 else math.log1p(-math.exp(x))


def log_sub(a: float, b: float) -> float:
    """log(e^a - e^b) for a >= b; -inf where they are equal or b exceeds a by rounding."""
    return a + log1mexp(b - a) if a > -math.inf else -math.inf


def log_add(a: float, b: float) -> float:
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


def log_expm1_array(x: Array) -> Array:
    """log(e^x - 1) element by element, without overflow."""
    with np.errstate(divide="ignore"):
        return np.where(x > 36.0, x, np.log(np.expm1(np.minimum(x, 36.0)))) + np.where(
            x > 36.0, np.log1p(-np.exp(-np.maximum(x, 36.0))), 0.0
        )


def log1p_complex(z: Array | ComplexArray) -> ComplexArray:
    """log(1 + z) that keeps the digits of a small z, which numpy's does not for complex arguments, and those of a small 1 + z."""
    result = np.empty(z.shape, dtype=complex)
    across, far = z.imag * z.imag, z.real < -0.5
    near = 0.5 * np.log1p(np.where(far, 0.0, z.real * (2.0 + z.real) + across))
    result.real = np.where(far, 0.5 * np.log(np.where(far, (1.0 + z.real) ** 2 + across, 1.0)), near)
    result.imag = np.arctan2(z.imag, 1.0 + z.real)
    return result


def log_sum(log_terms: Array) -> Array:
    """log of the sum of e^terms along the last axis; -inf and inf where floating point holds nothing, or more than that."""
    top = log_terms.max(axis=-1, keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(over="ignore", divide="ignore"):
        return np.asarray(top[..., 0] + np.log(np.exp(log_terms - top).sum(axis=-1)))


def log_ndtr_array(x: Array) -> Array:
    """Logarithm of the standard normal distribution function: the C library's erfc, and Mills' asymptotic series below -20."""
    spend(2.0 * np.size(x))  # one call per element, or the terms of the series
    flat = np.ravel(np.asarray(x, dtype=float))
    if len(flat) <= FEW:  # array functions cost more than they save
        return np.array([log_ndtr(value) for value in flat.tolist()]).reshape(np.shape(x))
    result = np.empty(len(flat))
    far = flat < -20.0
    near = flat[~far]
    result[~far] = _near_log_ndtr(near, _complement(near))
    result[far] = _far_log_ndtr(flat[far])
    return np.asarray(result).reshape(np.shape(x))


def log_normal_ends(x: Array) -> tuple[Array, Array]:
    """Logarithms of the standard normal mass above and below each x, which share one erfc: `log_ndtr_array` of -x and of x."""
    if np.size(x) <= FEW:
        return log_ndtr_array(-x), log_ndtr_array(x)
    spend(4.0 * np.size(x))
    flat = np.ravel(np.asarray(x, dtype=float))
    complement = _complement(flat)
    ends = []
    for signed in (-flat, flat):
        result = _near_log_ndtr(signed, complement)
        far = signed < -20.0
        if far.any():
            result[far] = _far_log_ndtr(signed[far])
        ends.append(result.reshape(np.shape(x)))
    return ends[0], ends[1]


def _complement(x: Array) -> Array:
    return np.fromiter(map(math.erfc, (np.abs(x) * math.sqrt(0.5)).tolist()), dtype=float, count=len(x))


def _near_log_ndtr(x: Array, complement: Array) -> Array:
    """From -20 on, by what `_complement` gives."""
    with np.errstate(divide="ignore"):
        return np.where(x > 0.0, np.log1p(-0.5 * complement), np.log(0.5 * complement))


def _far_log_ndtr(x: Array) -> Array:
    """Below -20; the first term left out is under 1e-17 there."""
    with np.errstate(over="ignore"):
        square = x * x
    inverse, series = 1.0 / square, np.zeros_like(x)
    for k in range(MILLS, 0, -1):
        series = (1.0 + series) * (-(2.0 * k - 1.0) * inverse)
    return np.asarray(-0.5 * square - math.log(math.sqrt(2.0 * math.pi)) - np.log(-x) + np.log1p(series))


def log_normal(x: Any) -> Any:
    return -0.5 * x * x - 0.5 * math.log(2.0 * math.pi)


FEW = 64  # records whose probabilities are computed as ratios of whole numbers


def log_binomial(records: int, rate: float) -> list[float]:
    """Logarithms of the Binomial(records, rate) probabilities; of FEW records and fewer right to the last digit."""
    if records <= FEW:
        chosen, all_of_them = rate.as_integer_ratio()
        ways = [math.comb(records, j) * chosen**j * (all_of_them - chosen) ** (records - j) for j in range(records + 1)]
        return [_log_of_ratio(way, all_of_them**records) for way in ways]
    return [
        math.lgamma(records + 1)
        - math.lgamma(j + 1)
        - math.lgamma(records - j + 1)
        + j * math.log(rate)
        + (records - j) * math.log1p(-rate)
        for j in range(records + 1)
    ]


def _log_of_ratio(numerator: int, denominator: int) -> float:
    """log(numerator / denominator) of whole numbers > 0, the first no larger, without underflow."""
    digits = denominator.bit_length() - numerator.bit_length()
    return math.log((numerator << digits) / denominator) - digits * math.log(2.0)


def log_factorials(most: int) -> Array:
    return np.concatenate(([0.0], np.cumsum(np.log(np.arange(1.0, most + 1)))))

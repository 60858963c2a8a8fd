"""Arithmetic on the logarithms of probabilities. They do not underflow, and keep their digits however small the probability is.

The first functions take a float. Functions of arrays work element by element, except that `log_sum` adds up along the last axis.
"""

from __future__ import annotations

import math
from typing import Any

from dpcli.numerics.arrays import Array, ComplexArray, np
from dpcli.numerics.work import spend  # counts work, and refuses a question that takes too much

_SQRT2 = math.sqrt(2.0)
_HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)
_LOG_2 = 0.6931471805599453
# Accuracy: callers allow for errors of a few rounding units, which these keep.
# Below this x, the logarithm of the normal distribution function is computed by the series of Mills' ratio, (1 - Phi) / phi.
FAR = -20.0
MILLS_TERMS = 10  # terms of this series; below FAR the first omitted one, which bounds the relative error, is under 1e-17
NEARLY_X = 36.0  # above this x, log(e^x - 1) differs from x by less than 3e-16
FRACTION_FROM, FRACTION_TERMS = 3.0, 60  # the fraction's error falls with x and the number of terms; here it is below an ulp
EXACT_RECORDS = 64  # largest number of records whose binomial probabilities are computed as ratios of integers
# Speed: largest array that is computed element by element, which is faster there than a call of array functions.
SCALAR_ELEMENTS = 16


def log1mexp(x: float) -> float:
    """Return log(1 - e^x) for x <= 0, accurate near 0 and for very negative x. It is -inf at 0."""
    if x >= 0.0:
        return -math.inf
    # Both forms are right. Above -log 2, where e^x is over 1/2, expm1 keeps the digits of 1 - e^x; below, log1p keeps those of e^x.
    return math.log(-math.expm1(x)) if x > -_LOG_2 else math.log1p(-math.exp(x))


def log_sub(a: float, b: float) -> float:
    """Return log(e^a - e^b) for a >= b. It is -inf if a and b are equal, or if b exceeds a because of rounding; NaN if both are inf."""
    return a + log1mexp(b - a) if a > -math.inf else -math.inf


def log_add(a: float, b: float) -> float:
    """Return log(e^a + e^b), also for infinite a or b."""
    high, low = (a, b) if a >= b else (b, a)
    if high in (-math.inf, math.inf):
        return high
    return high + math.log1p(math.exp(low - high))


def log_expm1(x: float) -> float:
    """Return log(e^x - 1) for x >= 0 without overflow. It is -inf at 0."""
    if x > NEARLY_X:
        return x + math.log1p(-math.exp(-x))
    return math.log(math.expm1(x)) if x > 0.0 else -math.inf


def log_peak(s: float) -> float:
    """Return log(s^s / (1+s)^{s+1}) for s > 0. Both terms are negative, so that no digits are lost at a large s."""
    return -s * math.log1p(1.0 / s) - math.log1p(s)


def log_ndtr(x: float) -> float:
    """Return the logarithm of the standard normal distribution function, for any x."""
    if x > 0.0:
        return math.log1p(-0.5 * math.erfc(x / _SQRT2))
    if x > FAR:
        return math.log(0.5 * math.erfc(-x / _SQRT2))
    if x == -math.inf:
        return -math.inf
    # Phi(x) is phi(x) / |x| times 1 - 1/x^2 + 1 3/x^4 - 1 3 5/x^6 + ...
    inverse, term, total = 1.0 / (x * x), 1.0, 0.0
    for k in range(1, MILLS_TERMS + 1):
        term *= -(2 * k - 1) * inverse
        total += term
    return -0.5 * x * x - _HALF_LOG_2PI - math.log(-x) + math.log1p(total)


def log_expm1_array(x: Array) -> Array:
    """Return log(e^x - 1) for x >= 0, element by element and without overflow. It is -inf at 0."""
    large = x > NEARLY_X
    with np.errstate(divide="ignore"):
        leading = np.where(large, x, np.log(np.expm1(np.minimum(x, NEARLY_X))))
        return leading + np.where(large, np.log1p(-np.exp(-np.maximum(x, NEARLY_X))), 0.0)


def log1p_complex(z: Array | ComplexArray) -> ComplexArray:
    """Return log(1 + z), where z or 1 + z may be small. numpy's log1p loses the digits of a small complex z.

    The error is at most 1e-15 of the modulus of the result. The real part alone may have fewer digits where |1 + z| is nearly 1. Its error
    is at most 1e-15 (|Re z| + |z|^2) for |z| < 1/2, which is no more than the rounding of a computed z contributes.
    """
    result = np.empty(z.shape, dtype=complex)
    # |1 + z|^2 - 1 is x (2 + x) + y^2, which keeps the digits of a small z. Near z = -1 it would lose those of 1 + z.
    square_of_imag, near_minus_one = z.imag * z.imag, z.real < -0.5
    from_small_z = 0.5 * np.log1p(np.where(near_minus_one, 0.0, z.real * (2.0 + z.real) + square_of_imag))
    from_sum = 0.5 * np.log(np.where(near_minus_one, (1.0 + z.real) ** 2 + square_of_imag, 1.0))
    result.real = np.where(near_minus_one, from_sum, from_small_z)
    result.imag = np.arctan2(z.imag, 1.0 + z.real)
    return result


def log_sum(log_terms: Array) -> Array:
    """Return the logarithm of the sum of e^log_terms along the last axis.

    It is -inf where all terms are -inf, and inf where one term is inf.
    """
    top = log_terms.max(axis=-1, keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(over="ignore", divide="ignore"):
        return np.asarray(top[..., 0] + np.log(np.exp(log_terms - top).sum(axis=-1)))


def log_ndtr_array(x: Array) -> Array:
    """Return the logarithm of the standard normal distribution function, element by element, as `log_ndtr` computes it."""
    spend(2.0 * np.size(x))  # each element takes one call of erfc or the terms of the series
    flat = np.ravel(np.asarray(x, dtype=float))
    if len(flat) <= SCALAR_ELEMENTS:
        return np.array([log_ndtr(value) for value in flat.tolist()]).reshape(np.shape(x))
    result = np.empty(len(flat))
    far = flat < FAR
    near = flat[~far]
    result[~far] = _near_log_ndtr(near, _complement(near))
    result[far] = _far_log_ndtr(flat[far])
    return np.asarray(result).reshape(np.shape(x))


def log_normal_ends(x: Array) -> tuple[Array, Array]:
    """Return the logarithms of the standard normal mass above and below each x.

    They equal `log_ndtr_array` of -x and of x, but need only one call of erfc for each element.
    """
    if np.size(x) <= SCALAR_ELEMENTS:
        return log_ndtr_array(-x), log_ndtr_array(x)
    spend(4.0 * np.size(x))
    flat = np.ravel(np.asarray(x, dtype=float))
    complement = _complement(flat)
    ends = []
    for signed in (-flat, flat):
        result = _near_log_ndtr(signed, complement)
        far = signed < FAR
        if far.any():
            result[far] = _far_log_ndtr(signed[far])
        ends.append(result.reshape(np.shape(x)))
    return ends[0], ends[1]


def scaled_mills_ratio(x: Array, least: Array) -> Array:
    """Return e^{-least^2 / 2} (1 - Phi(x)) / phi(x) for least <= min(x, 0), element by element.

    The relative error is at most 3e-15 + 3e-16 least^2, of which the second term is the rounding of the exponents. The absolute error is at
    most 4e-15 times the sum of this value and the value at `least`: where |least| is large, the value is near the one at `least` or far
    smaller.

    From FRACTION_FROM on it is Laplace's continued fraction 1 / (x + 1 / (x + 2 / (x + ...))).
    """
    spend(4.0 * np.size(x))
    flat, low = np.ravel(x), np.ravel(least)
    complement = _complement(flat)
    tail = np.where(flat < 0.0, 2.0 - complement, complement)  # 2 (1 - Phi)
    near = np.minimum(flat, FRACTION_FROM)  # so that the exponential does not overflow where the fraction replaces the result
    result: Array = math.sqrt(0.5 * math.pi) * tail * np.exp(0.5 * (near - low) * (near + low))
    far = np.flatnonzero(flat >= FRACTION_FROM)
    if len(far):
        value = flat[far]
        fraction = value.copy()
        for k in range(FRACTION_TERMS, 0, -1):
            fraction = value + k / fraction
        result[far] = np.exp(-0.5 * low[far] ** 2) / fraction
    return result.reshape(np.shape(x))


def _complement(x: Array) -> Array:
    """Return erfc(|x| / sqrt(2)), which is twice the standard normal mass above |x|."""
    return np.fromiter(map(math.erfc, (np.abs(x) * math.sqrt(0.5)).tolist()), dtype=float, count=len(x))


def _near_log_ndtr(x: Array, complement: Array) -> Array:
    """Return the logarithm of the standard normal distribution function. complement: `_complement` of x.

    Below FAR it loses digits, down to -inf where the complement underflows.
    """
    with np.errstate(divide="ignore"):
        return np.where(x > 0.0, np.log1p(-0.5 * complement), np.log(0.5 * complement))


def _far_log_ndtr(x: Array) -> Array:
    """Return the logarithm of the standard normal distribution function at x < FAR, by the series of Mills' ratio."""
    with np.errstate(over="ignore"):
        square = x * x
    inverse, series = 1.0 / square, np.zeros_like(x)
    for k in range(MILLS_TERMS, 0, -1):
        series = (1.0 + series) * (-(2.0 * k - 1.0) * inverse)
    return np.asarray(-0.5 * square - math.log(math.sqrt(2.0 * math.pi)) - np.log(-x) + np.log1p(series))


def log_normal(x: Any) -> Any:
    """Return the logarithm of the standard normal density at x, which may be a number or an array."""
    return -0.5 * x * x - _HALF_LOG_2PI


def log_binomial(records: int, rate: float) -> list[float]:
    """Return the logarithms of the Binomial(records, rate) probabilities of 0, ..., records, for rate in (0, 1).

    For at most EXACT_RECORDS records they are computed from exact ratios of integers. Their error is then a few rounding units of the
    result or of 1, whichever is larger. For more records they are sums of log-gammas, which lose some digits to cancellation.
    """
    if records <= EXACT_RECORDS:
        part, total = rate.as_integer_ratio()
        numerators = [math.comb(records, j) * part**j * (total - part) ** (records - j) for j in range(records + 1)]
        return [_log_of_ratio(numerator, total**records) for numerator in numerators]
    return [
        math.lgamma(records + 1)
        - math.lgamma(j + 1)
        - math.lgamma(records - j + 1)
        + j * math.log(rate)
        + (records - j) * math.log1p(-rate)
        for j in range(records + 1)
    ]


def _log_of_ratio(numerator: int, denominator: int) -> float:
    """Return log(numerator / denominator) for integers 0 < numerator <= denominator, without underflow.

    The numerator is first multiplied by a power of two that makes both numbers equally long.
    """
    digits = denominator.bit_length() - numerator.bit_length()
    return math.log((numerator << digits) / denominator) - digits * math.log(2.0)


def log_factorials(most: int) -> Array:
    """Return log k! for k = 0, ..., most, as an array of shape (most + 1,)."""
    return np.concatenate(([0.0], np.cumsum(np.log(np.arange(1.0, most + 1)))))

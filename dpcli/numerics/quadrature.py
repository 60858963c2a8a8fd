"""Expectations of powers of a likelihood ratio under a Gaussian weight, by the trapezoidal rule.

With E[r] = 1 the power moment is E[r^p] = 1 + E[B_p(r - 1)], where B_p(d) = (1+d)^p - 1 - p d >= 0 for p > 1 or p < 0 (Bernoulli).
Every term of that sum is non-negative, so a moment of 1 + 1e-18 keeps fourteen digits of its 1e-18: there is nothing to cancel.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from dpcli.numerics.arrays import Array, np
from dpcli.numerics.work import hold

TAIL = 10.0  # standard deviations beyond the outermost peak: e^-50 of the mass
DIGITS = 40.0  # the rule's relative error is below 2 e^-40
MAX_NODES = 16384
SLACK = 1e-12  # covers the rounding of at most MAX_NODES positive terms and the two errors above, many times over


def step_size(z: float, slope: float) -> float:
    """Node distance at which the trapezoidal rule errs by less than e^-DIGITS, relative.

    The integrand is phi(x) m(x)^p with |p| <= z + 1 and m a positive mixture of e^{s x}, 0 <= s <= slope. Moved up by a in the
    complex plane, phi grows by at most e^{a^2/2} and m^p by at most cos(a slope / 2)^-|p| <= e^{(z+1) a^2 slope^2 / 8 + ...}, and the
    rule's error is 2 e^{-2 pi a / h} times that (the Poisson summation bound for functions analytic in a strip; Trefethen & Weideman
    2014, Theorem 5.1). The shift stays within a slope <= pi / 2, where cos(t/2) >= e^{-0.1405 t^2} holds.
    """
    curvature = 1.0 + 0.281 * (z + 1.0) * slope * slope  # growth is e^{curvature a^2 / 2}
    free = math.sqrt(2.0 / DIGITS) * math.pi / math.sqrt(curvature)
    shift = 2.0 * math.pi / (free * curvature)
    limit = math.pi / (2.0 * slope)
    if shift <= limit:
        return free
    return 2.0 * math.pi * limit / (DIGITS + 0.5 * curvature * limit * limit)


def log_bernoulli(p: Array, log_ratio: Array) -> Array:
    """log B_p(r - 1) for a column of exponents and a row of log r; -inf where r = 1."""
    with np.errstate(all="ignore"):
        d = np.expm1(log_ratio)
        y = p * log_ratio
        pd = p * d
        # Near r = 1 the two terms cancel: there the binomial series, seven terms at |p d| < 0.01.
        series = np.ones_like(pd)
        term = np.ones_like(pd)
        for k in range(3, 9):
            term = term * (p - (k - 1)) * d / k
            series = series + term
        small = 0.5 * p * (p - 1.0) * d * d * series
        z = np.where(p > 0.0, p - 1.0, p)  # (1+d) expm1((p-1) log r) - (p-1) d is the same number, and exact as p falls to 1
        direct = np.where(p > 0.0, np.exp(log_ratio), 1.0) * np.expm1(z * log_ratio) - z * d
        near = (np.abs(pd) < 0.01) & (np.abs(d) < 0.01)
        log_value = np.log(np.where(near, small, direct))
        # Beyond e^500, with r^p taken out: 1 - ((1-p) + p r)/r^p.
        far = y + np.log1p(-(np.exp(-y) * (1.0 - p) + p * np.exp(log_ratio - y)))
        # At a negative p and a large r the linear term is all that is left.
        far = np.where((p < 0.0) & (log_ratio > 500.0), np.log(np.abs(p)) + log_ratio, far)
        return np.asarray(np.where((y > 500.0) | (log_ratio > 500.0), far, log_value))


def bernoulli(p: Array, log_ratio: Array) -> Array:
    """B_p(r - 1) itself, for exponents and ratios with p log r below 500: one exponential per entry."""
    d = np.expm1(log_ratio)
    z = np.where(p > 0.0, p - 1.0, p)
    value: Array = np.where(p > 0.0, np.exp(log_ratio), 1.0) * np.expm1(z * log_ratio) - z * d
    columns = np.flatnonzero(np.abs(d) < 0.01)
    if len(columns):
        d = d[columns]
        pd = p * d
        series = np.ones_like(pd)
        term = np.ones_like(pd)
        for k in range(3, 9):
            term = term * ((p - (k - 1)) * (d / k))
            series += term
        value[:, columns] = np.where(np.abs(pd) < 0.01, 0.5 * p * (p - 1.0) * d * d * series, value[:, columns])
    return value


def power_moment(
    exponents: Array,
    log_ratio: Callable[[Array], Array],
    log_weight: Callable[[Array], Array],
    window: Callable[[float], tuple[float, float]],
    slope: float,
    fallback: Callable[[Array], Array],
) -> Array:
    """log E[r^p] for each exponent p (> 1 or < 0), where E[r] = 1.

    Args:
        exponents: shape (n,).
        log_ratio: log r at the nodes (units of the noise standard deviation).
        log_weight: logarithm of the weight's density at the nodes.
        window: for |p|, the interval beyond which less than e^-DIGITS of the integral lies.
        slope: largest exponent s in the mixture's e^{s x}: decides the node distance.
        fallback: an upper bound, used for exponents whose window would need more than MAX_NODES nodes.

    Returns:
        Upper bounds, at most about 1e-12 relative above the exact value except where the fallback serves.
    """
    with np.errstate(all="ignore"):  # a term that overflows makes the moment infinite, which is on the private side
        return _power_moment(exponents, log_ratio, log_weight, window, slope, fallback)


def _power_moment(
    exponents: Array,
    log_ratio: Callable[[Array], Array],
    log_weight: Callable[[Array], Array],
    window: Callable[[float], tuple[float, float]],
    slope: float,
    fallback: Callable[[Array], Array],
) -> Array:
    result = np.empty(len(exponents))
    sizes = np.abs(exponents)
    spans = [(*window(float(p)), step_size(float(p), slope)) for p in sizes]
    groups: dict[int, list[int]] = {}
    for i, (low, high, step) in enumerate(spans):
        groups.setdefault(math.ceil(math.log2((high - low) / step)) if (high - low) / step < MAX_NODES else -1, []).append(i)
    for key, members in groups.items():
        index = np.array(members)
        if key < 0:
            result[index] = fallback(exponents[index])
            continue
        low = min(spans[i][0] for i in members)
        high = max(spans[i][1] for i in members)
        step = min(spans[i][2] for i in members)
        nodes: Array = np.arange(math.floor(low / step), math.ceil(high / step) + 1, dtype=float) * step
        hold(float(len(members) * len(nodes)))
        column, ratio, weight = exponents[index][:, None], log_ratio(nodes), log_weight(nodes) + math.log(step)
        if float(np.abs(column).max() * np.abs(ratio).max()) < 500.0 and float(weight.min()) > -650.0:
            result[index] = np.log1p(bernoulli(column, ratio) @ np.exp(weight)) * (1.0 + SLACK)
            continue
        log_terms = log_bernoulli(column, ratio) + weight
        top = log_terms.max(axis=1)
        top = np.where(np.isfinite(top), top, 0.0)  # nothing that floating point holds, or more than that
        log_sum = top + np.log(np.exp(log_terms - top[:, None]).sum(axis=1))
        result[index] = np.logaddexp(0.0, log_sum) * (1.0 + SLACK)
    return result

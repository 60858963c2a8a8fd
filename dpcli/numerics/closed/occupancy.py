"""Moments of the average of independent likelihood ratios, by how a power's factors fall into the copies."""

from __future__ import annotations

import math

from dpcli.numerics.arrays import Array, np
from dpcli.numerics.logspace import log_factorials, log_sum


def average_moments(log_moments: Array, count: int) -> Array:
    """log(E[A^a] - 1) for a = 2, 3, ..., where A is the average of `count` independent copies of Y >= 0 with E[Y] = 1.

    Args:
        log_moments: log(E[Y^c] - 1) for c = 2, 3, ..., m.

    E[A^a] = t^-a a! [x^a] f(x)^t with f(x) = sum_c E[Y^c] x^c / c!. Written f = e^x + g, the power e^{tx} of f^t is the 1 that is
    taken off, and all other terms are positive: sum_{j>0} C(t, j) g(x)^j e^{(t-j) x}. The same sum over integer partitions: Feldman &
    Shenfeld 2025, arXiv:2502.08202; Liew & Takahashi 2022, arXiv:2206.09569.
    """
    top = len(log_moments) + 1
    powers = np.arange(top + 1.0)
    log_factorial = log_factorials(top)
    log_g = np.concatenate(([-np.inf, -np.inf], log_moments - log_factorial[2:] - powers[2:] * math.log(count)))
    log_power = np.concatenate(([0.0], np.full(top, -np.inf)))
    total, log_choose = np.full(top + 1, -np.inf), 0.0
    for j in range(1, min(count, top // 2) + 1):
        log_power = _product(log_power, log_g)
        log_choose += float(np.log((count - j + 1) / j))
        with np.errstate(divide="ignore", invalid="ignore"):
            log_rest = np.where(powers == 0.0, 0.0, powers * np.log((count - j) / count)) - log_factorial
        total = np.logaddexp(total, log_choose + _product(log_power, log_rest))
    return np.asarray((total + log_factorial)[2:])


def _product(a: Array, b: Array) -> Array:
    """Logarithms of the coefficients of the product of two power series, from those of each."""
    index = np.arange(len(a))
    shift = index[:, None] - index[None, :]
    return log_sum(np.where(shift >= 0, a[None, :] + b[np.maximum(shift, 0)], -np.inf))

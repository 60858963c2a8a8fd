"""Upper bounds on the Renyi moments log E_Q[r^{z+1}] of sampled Gaussian mechanisms, by the trapezoidal rule.

r = dP/dQ is the likelihood ratio of a dominating pair (P, Q). The moment is K(z) = log E_P[e^{z L}] of the loss L = log r, and z times the
Renyi divergence of order z + 1. `power_moment` computes the bounds at many z > 0. The node distances that keep its error below e^-40 are
derived in `step_size` and `step_below`. The *window* is the interval of outcomes that the nodes cover.

Because E_Q[r] = 1, the moment is E_Q[r^p] = 1 + E_Q[B_p(r - 1)] with B_p(d) = (1+d)^p - 1 - p d. Bernoulli's inequality says that
B_p(d) >= 0 for p > 1 and for p < 0. The rule therefore adds non-negative terms only, so nothing cancels: a moment of 1 + 1e-18 keeps
fourteen digits of its 1e-18.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from dpcli.numerics.arrays import Array, np
from dpcli.numerics.logspace import log_sum
from dpcli.numerics.products import product
from dpcli.numerics.work import hold  # refuses a table that is too large for memory

# Soundness: SLACK must exceed what the other values leave as errors.
SLACK = 1e-12  # relative increase of a result; it far exceeds the rounding of MAX_NODES terms and the errors of TAIL and DIGITS
TAIL = 10.0  # standard deviations by which a window extends beyond the outermost peak; e^-50 of the mass is outside
DIGITS = 40.0  # accuracy in nats: the relative error of the rule is below 2 e^-40
MAX_EXPONENT = 500.0  # largest (z+1) |log r| for which powers of r are computed without logarithms; e^709 would be the last one
LEAST_SUM = 1e-60  # smallest sum that is trusted; terms whose weight underflows, times e^MAX_EXPONENT, are far below it
SERIES = 0.01  # largest |(z+1) (r - 1)| and |r - 1| for which `bernoulli` is computed from its power series
NEGLIGIBLE_TERM = 1e-17  # the power series ends at terms below this, relative to the first one
# Speed and accuracy.
MAX_NODES = 16384  # most nodes of one integral; beyond that an upper bound in closed form is used instead
# Greatest height of a line above the real axis in `step_below`, in standard deviations. Every height gives a valid node distance.
MAX_HEIGHT = 6.0


def power_moment(
    z: Array,
    line: Callable[[Array], tuple[Array, Array]],
    window: Callable[[float], tuple[float, float]],
    step: Callable[[float], float],
    fallback: Callable[[Array], Array],
) -> Array:
    """Return upper bounds on K(z) = log E_Q[r^{z+1}] for each z > 0, where E_Q[r] = 1.

    Args:
        z: shape (n,).
        line: returns the log density of Q, and log r, at nodes of shape (nodes,) in units of the noise standard deviation.
        window: returns for one z an interval outside of which less than e^-DIGITS of the integral lies.
        step: returns for one z a node distance at which the rule errs by less than 2 e^-DIGITS, relative.
        fallback: returns an upper bound for those z that would need MAX_NODES nodes or more.

    Returns:
        Shape (n,). The bounds exceed the exact values by at most about 1e-12, relative, except where the fallback is used.
    """
    result = np.empty(len(z))
    spans = [span(order, window, step) for order in z.tolist()]
    groups: dict[int | None, list[int]] = {}  # indices of z by log2 of their node count, rounded up; None for too many nodes
    for i, (low, high, distance) in enumerate(spans):
        octave = math.ceil(math.log2((high - low) / distance)) if fits(low, high, distance) else None
        groups.setdefault(octave, []).append(i)
    with np.errstate(all="ignore"):  # a term that overflows makes the moment infinite: an upper bound
        for octave, index in groups.items():
            if octave is None:
                result[index] = fallback(z[index])
                continue
            # All z of a group share nodes that suffice for each of them.
            lows, highs, distances = zip(*(spans[i] for i in index), strict=True)
            nodes = nodes_of(min(lows), max(highs), min(distances))
            result[index] = moment_on(z[index], *line(nodes), min(distances))
    return result


def span(z: float, window: Callable[[float], tuple[float, float]], step: Callable[[float], float]) -> tuple[float, float, float]:
    """Return (low, high, step): the ends of the window and the node distance with which `power_moment` computes K(z)."""
    return *window(z), step(z)


def fits(low: float, high: float, step: float) -> bool:
    """Return whether this interval has fewer than MAX_NODES nodes. If not, `power_moment` uses its fallback."""
    return (high - low) / step < MAX_NODES


def nodes_of(low: float, high: float, step: float) -> Array:
    """Return consecutive multiples of `step` that cover the interval from `low` to `high`."""
    return np.asarray(np.arange(math.floor(low / step), math.ceil(high / step) + 1) * step, dtype=float)


def moment_on(z: Array, log_base: Array, log_ratio: Array, step: float) -> Array:
    """Return upper bounds on K(z) for each z, from log Q and log r at equally spaced nodes.

    The part of the integral beyond the nodes is left out. SLACK covers it if the nodes cover a window as `power_moment` asks for.

    z: shape (n,). log_base, log_ratio: log Q and log r, of shape (nodes,). step: the node distance.
    """
    hold(float(len(z) * len(log_base)))
    column, log_weights = z[:, None], log_base + math.log(step)
    # The sum of powers is faster than that of logarithms, and right unless a power overflows or the sum is too small.
    if (float(z.max()) + 1.0) * float(np.abs(log_ratio).max()) < MAX_EXPONENT:
        total = product(bernoulli(column, log_ratio), np.exp(log_weights))
        if float(total.min()) > LEAST_SUM:  # the terms whose weight underflowed are negligible
            return np.asarray(np.log1p(total) * (1.0 + SLACK))
    return np.asarray(np.logaddexp(0.0, log_sum(log_bernoulli(column, log_ratio) + log_weights)) * (1.0 + SLACK))


def moments_on(z: Array, log_base: Array, log_ratio: Array, step: Array) -> Array:
    """Return upper bounds on K(z) as `moment_on` does, for rows that each have a z, a node distance and nodes of their own.

    z, step: shape (rows,). log_base, log_ratio: shape (rows, nodes). The result has the shape (rows,).
    """
    column, log_weights = z[:, None], log_base + np.log(step)[:, None]
    total = np.zeros(len(z))
    small = (z + 1.0) * np.abs(log_ratio).max(axis=1) < MAX_EXPONENT
    if small.all():  # without the copies that a selection of rows makes
        total = np.einsum("ij,ij->i", bernoulli(column, log_ratio), np.exp(log_weights))
    elif small.any():
        total[small] = np.einsum("ij,ij->i", bernoulli(column[small], log_ratio[small]), np.exp(log_weights[small]))
    result = np.log1p(total)
    by_logarithms = ~(total > LEAST_SUM)  # a NaN counts as too small
    if by_logarithms.any():
        log_terms = log_bernoulli(column[by_logarithms], log_ratio[by_logarithms]) + log_weights[by_logarithms]
        result[by_logarithms] = np.logaddexp(0.0, log_sum(log_terms))
    return np.asarray(result * (1.0 + SLACK))


def step_size(z: Any, slope: Any) -> Any:
    """Return a node distance h at which the trapezoidal rule errs by less than 2 e^-DIGITS, relative to its value. Arrays are allowed.

    z: at least |p| - 1 for the power p below. slope: the largest slope of log m.

    The integrand is phi(x) m(x)^p with |p| <= z + 1, where m is a positive mixture of e^{s x} with 0 <= s <= slope. On a line at height a
    in the complex plane, phi is larger by at most e^{a^2/2}, and m^p by at most cos(a slope / 2)^-|p|. For a slope <= pi / 2 this is at
    most e^{0.1405 (z+1) (a slope)^2}. The rule's error is at most 2 e^{-2 pi a / h} times the product of both (the Poisson summation bound
    for functions that are analytic in a strip; Trefethen & Weideman 2014, Theorem 5.1). The best height is a = 2 pi / (h curvature), if it
    satisfies a slope <= pi / 2; otherwise it is the largest one that does.
    """
    curvature = 1.0 + 0.281 * (z + 1.0) * slope * slope  # the integrand grows by e^{curvature a^2 / 2} at height a
    at_best_height = math.sqrt(2.0 / DIGITS) * math.pi / np.sqrt(curvature)
    largest_height = math.pi / (2.0 * slope)
    at_largest_height = 2.0 * math.pi * largest_height / (DIGITS + 0.5 * curvature * largest_height * largest_height)
    return np.where(2.0 * math.pi / (at_best_height * curvature) <= largest_height, at_best_height, at_largest_height)[()]


def step_below(z: Any, shift: Any, log_rest: Any) -> Any:
    """Return a node distance as `step_size` does, for the integrand phi(x) B_{-z}(m(x) - 1), which occurs if Q is the mixture.

    z > 0 is the order - 1, and m = w_0 + w e^{s x - s^2/2} with s = `shift` > 0 and log w_0 = `log_rest` <= 0.

    The distance follows from how far m can fall below 1. Let d = m - 1. If |Im x| s <= pi / 2, then Re m >= w_0, and Taylor's theorem gives
    |B_{-z}(d)| <= z (z+1) / 2 |d|^2 w_0^{-z-2}. On the real line, B_{-z}(d) is at least z (z+1) / 2 d^2 where d < 0. The mean of |d|^2 on
    the line at height a is at most e^{a^2/2} (e^{s^2} + 1) / E[(1 - e^{s x - s^2/2})^2; x < s/2] times the mean of d^2 over d < 0. The
    denominator of this factor is above 1 / (8 + 4 / s^2).
    """
    height = np.minimum(MAX_HEIGHT, 0.5 * math.pi / shift)
    growth = 0.5 * height * height + shift * shift + np.log(16.0 + 8.0 / (shift * shift)) - (z + 2.0) * log_rest
    return 2.0 * math.pi * height / (DIGITS + growth)


def bernoulli(z: Array, log_ratio: Array) -> Array:
    """Return B_{z+1}(r - 1), which overflows if (z+1) log r is above 700.

    z: numbers above 0 or below -1, of shape (n, 1). log_ratio: shape (nodes,) for all z, or (n, nodes). The result has the shape
    (n, nodes).
    """
    d = np.atleast_2d(np.expm1(log_ratio))
    value: Array = np.exp(log_ratio) * np.expm1(z * log_ratio) - z * d  # this form loses no digits if z is small
    columns = np.flatnonzero((np.abs(d) < SERIES).any(axis=0))
    if len(columns):  # near r = 1 the two terms cancel; the binomial series replaces them
        d = d[:, columns]
        p = z + 1.0
        pd = p * d
        near = (np.abs(pd) < SERIES) & (np.abs(d) < SERIES)
        largest = float(np.maximum(np.abs(pd), np.abs(d)).max(initial=0.0, where=near))
        series = np.ones_like(pd)
        # The sum of p (p-1) ... (p-k+1) d^k / k! over k >= 2, by Horner's scheme.
        for k in range(_last_factor(largest), 2, -1):
            series *= (z - (k - 2)) * (d / k)
            series += 1.0
        series *= 0.5 * p * z * d * d
        value[:, columns] = np.where(near, series, value[:, columns])
    return value


def _last_factor(largest: float) -> int:
    """Return the last k of the series of `bernoulli`. largest: the largest |(z+1) d| and |d|, at most SERIES.

    The factor for k is (z d - (k-2) d) / k, and |z d| is at most 2 `largest`, so it is at most `largest`. The term with the factors for
    3 to k is then at most largest^{k-2}. What follows the last term is below an ulp.
    """
    k, term = 2, 1.0
    while term > NEGLIGIBLE_TERM:
        k, term = k + 1, term * largest
    return k - 1


def log_bernoulli(z: Array, log_ratio: Array) -> Array:
    """Return log B_{z+1}(r - 1) for any r, in the shapes of `bernoulli`; it is -inf at r = 1."""
    with np.errstate(all="ignore"):
        log_value: Array = np.log(bernoulli(z, log_ratio))
        p = z + 1.0
        y = p * log_ratio
        if not y.max(initial=0.0) > MAX_EXPONENT:
            return log_value
        # B is r^p - p r + z. Beyond MAX_EXPONENT the factor r^p is taken out, which leaves 1 - (p r - z)/r^p. For z near 0 this cancels;
        # there the factor r is taken out, which leaves (r^z - 1) - z (r - 1)/r.
        far = np.where(
            z * log_ratio > 1.0,
            y + np.log1p(z * np.exp(-y) - p * np.exp(log_ratio - y)),
            log_ratio + np.log(np.expm1(z * log_ratio) + z * np.expm1(-log_ratio)),
        )
        return np.asarray(np.where(y > MAX_EXPONENT, far, log_value))

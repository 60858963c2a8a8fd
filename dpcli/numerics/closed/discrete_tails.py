"""Upper bounds on tails of discrete distributions: noise on the integers, binomial distributions and sums of two-point losses.

A two-point loss is +e with probability e^e/(1+e^e), and -e otherwise: the privacy loss of randomised response. If all losses in a sum have
the same size e, the sum is binomial. If the sizes differ, the distribution of the sum is computed by an exponentially tilted Fourier
transform on a lattice. Every loss is first split between its two neighbouring lattice points in a way that can only make the two
distributions easier to tell apart.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import NamedTuple

from dpcli.base.stated import total
from dpcli.numerics.arrays import Array, np
from dpcli.numerics.logspace import log_factorials
from dpcli.numerics.roots import bracket_root
from dpcli.numerics.work import spend

LARGEST_SUMMED = 2000.0  # largest sigma for which the tail of the discrete Gaussian is added up term by term
BEYOND = 60.0  # a sum ends at terms below e^-60 times the first one; all later terms together are below the rounding error
ROUNDING = 1e-12  # absolute increase of a logarithm, which exceeds its rounding error
TERMS = 4096  # most terms of a binomial tail that are added up; a geometric series bounds the rest
FEW = 1024  # largest number of trials for which every term of the tail is added up
MAX_COUNT = 10**9  # largest number of equal steps; the sum then has about a million terms
WORK = 1 << 23  # largest product of the number of lattice points and the number of sizes
LARGE = 0.25  # largest delta for which a tilt is chosen; above it Chernoff's bound is useless, and this tilt serves as well
REACH = 14.0  # half of the lattice window, in standard deviations of the tilted sum

Sizes = tuple[tuple[float, int], ...]  # pairs of a size epsilon and the number of losses of that size


def log_laplace_beyond(scale: float, least: int) -> float:
    """Return an upper bound on log P(X > least), for P(X = x) proportional to e^{-|x| / scale}."""
    ratio = -1.0 / scale
    log_total = math.log1p(math.exp(ratio))
    if least >= 0:
        return min((least + 1) * ratio - log_total + ROUNDING, 0.0)
    return min(math.log1p(-math.exp(-least * ratio - log_total) * (1.0 - ROUNDING)), 0.0)


def log_gaussian_beyond(sigma: float, least: int) -> float:
    """Return an upper bound on log P(X > least), for P(X = x) proportional to e^{-x^2 / (2 sigma^2)}.

    For sigma above LARGEST_SUMMED the bound is the normal tail at `least`, and 0 if least < 0. The normal tail is larger, because each term
    of the sum is at most its integral, and the sum of all terms is at least the integral of the density (Canonne, Kamath, Steinke 2020,
    arXiv:2004.00010, Fact 18).
    """
    if least < 0:
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
        term = math.exp(-0.5 * (x - first) / sigma * ((x + first) / sigma))
    return math.fsum(terms)


def _total_weight(sigma: float) -> float:
    """Return the sum of the weights e^{-x^2 / (2 sigma^2)} over all integers x."""
    return 1.0 + 2.0 * math.exp(-0.5 / sigma / sigma) * _weight_sum(sigma, 1)


def _log_normal_tail(x: float) -> float:
    """Return an upper bound on the log of the standard normal tail above x >= 0. The density over x bounds a tail that would underflow."""
    tail = 0.5 * math.erfc(x / math.sqrt(2.0))
    if tail > 1e-300:
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
    first = _log_stirling_bound(trials, rate, least, -1e-13)
    j = np.arange(min(TERMS, trials - least + 1), dtype=float)
    ratios = (trials - least - j) / (least + j + 1.0) * odds
    terms = np.concatenate(([1.0], np.cumprod(ratios)))
    last = float(ratios[-1])
    total = float(terms[:-1].sum()) + (float(terms[-1]) / (1.0 - last) if last < 1.0 else math.inf)
    return min(0.0, first + math.log(total) + 1e-12)


def log_binomial_term(trials: int, rate: Fraction, count: int) -> float:
    """Return a lower bound on log P(Binomial(trials, rate) = count), for 0 <= count <= trials and rate in (0, 1).

    It is too small by Stirling's factor (`log_binomial_tail`), or by at most 1e-8 up to FEW trials. For a count of 0 or `trials` the error
    is only rounding.
    """
    if count in (0, trials):
        log_each = math.log1p(-float(rate)) if count == 0 else math.log(rate)
        return (trials * log_each) * (1.0 + 1e-13)
    if trials <= FEW:
        log_factorial = log_factorials(trials)
        log_count = float(log_factorial[trials] - log_factorial[count] - log_factorial[trials - count])
        return log_count + count * math.log(rate) + (trials - count) * math.log1p(-float(rate)) - 4e-9
    return _log_stirling_bound(trials, rate, count, 1e-13) - 1.0 / (12.0 * count) - 1.0 / (12.0 * (trials - count)) - 1e-12


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
    """Return the log of the tail of at most FEW trials, added up term by term. The log factorials have errors of at most 1e-9."""
    log_factorial, k = log_factorials(trials), np.arange(least, trials + 1)
    log_counts = log_factorial[trials] - log_factorial[k] - log_factorial[trials - k]
    terms = log_counts + k * math.log(rate) + (trials - k) * math.log1p(-rate)
    return min(0.0, float(np.logaddexp.reduce(terms)) + 4e-9)


def _deviance(x: float) -> float:
    """Return (1+x) log(1+x) - x, which is at least 0, for x >= -1. No digits are lost near 0."""
    if x <= -1.0:
        return 1.0
    if abs(x) > 0.03:
        return (1.0 + x) * math.log1p(x) - x
    return math.fsum((-x) ** k / (k * (k - 1)) for k in range(2, 14))


class SumMasses(NamedTuple):
    """The distribution of a sum of losses under P: masses at increasing losses.

    error: returns a bound on the error of delta at an epsilon.
    """

    masses: Array
    losses: Array
    error: Callable[[float], float]


def two_point_epsilon(sizes: Sizes, delta: float) -> float:
    """Return an upper bound on the smallest epsilon at which the hockey-stick divergence of the sum is at most `delta`.

    For one size it is exact up to 1e-9, relative. For several sizes it is at most about 1e-3 too large, because of the lattice. It never
    exceeds the sum of all sizes, the largest possible loss, which is rounded up.
    """
    worst = total((n, e) for e, n in sizes)
    if delta <= 0.0 or not sizes:
        return worst
    masses, losses, error = _binomial_masses(*sizes[0]) if len(sizes) == 1 else _lattice_masses(sizes, delta)

    def excess(epsilon: float) -> float:
        first = int(np.searchsorted(losses, epsilon, side="right"))
        with np.errstate(over="ignore"):
            return float((masses[first:] * -np.expm1(epsilon - losses[first:])).sum()) + error(epsilon) - delta

    if excess(0.0) <= 0.0:
        return 0.0
    if excess(worst) > 0.0:
        return worst
    epsilon = bracket_root(excess, 0.0, worst, rtol=1e-12)[1]
    return min(worst, epsilon * (1.0 + 4e-16))  # the factor covers the rounding of the losses


def _binomial_masses(epsilon: float, count: int) -> SumMasses:
    """Return the distribution of a sum of `count` equal losses, at the losses (2j - n) epsilon.

    Forty standard deviations on either side of the mean are kept. The mass beyond is below e^-700, and counts as no error.
    """
    p = 1.0 / (1.0 + math.exp(-epsilon))
    reach = 40.0 * math.sqrt(count * p * (1.0 - p)) + 1000.0
    low, high = max(0, math.floor(count * p - reach)), min(count, math.ceil(count * p + reach))
    spend(2.0 * (high - low))
    j = np.arange(low, high + 1, dtype=float)
    steps = np.log((count - j[:-1]) / (j[:-1] + 1.0)) + epsilon
    log_mass = np.concatenate(([0.0], np.cumsum(steps)))
    mass = np.exp(log_mass - log_mass.max())
    mass = mass / mass.sum() * (1.0 + 1e-12 + 1e-15 * len(j))
    return SumMasses(mass, (2.0 * j - count) * epsilon, lambda _: 0.0)


def _cgf(sizes: Sizes, t: float) -> float:
    """Return the cumulant generating function K(t) of the sum. Each loss adds log cosh((t+1/2) e) - log cosh(e/2)."""
    e, n = np.array([size for size, _ in sizes]), np.array([float(count) for _, count in sizes])
    return float((n * (t * e + np.log1p(np.exp(-(2.0 * t + 1.0) * e)) - np.log1p(np.exp(-e)))).sum())


def _tilt(sizes: Sizes, delta: float) -> float:
    """Return a t that nearly minimises Chernoff's bound on epsilon, (K(t) - log delta + t log t - (1+t) log(1+t))/t."""

    def bound(t: float) -> float:
        return (_cgf(sizes, t) - math.log(delta) + t * math.log(t) - (1.0 + t) * math.log1p(t)) / t

    low, high = 1e-9, 1e9
    for _ in range(60):
        a, b = low ** (2 / 3) * high ** (1 / 3), low ** (1 / 3) * high ** (2 / 3)
        if bound(a) <= bound(b):
            high = b
        else:
            low = a
    return math.sqrt(low * high)


def _split_atoms(loss: Array, log_mass: Array, step: float) -> tuple[Array, Array]:
    """Split each atom of the loss between the two lattice points next to it, and return their indices and log masses, in two columns.

    The split keeps the atom's mass under P and under Q. Merging the two parts again is post-processing, so the split pair dominates.
    """
    index = np.floor(loss / step)
    upper = np.clip(-np.expm1(index * step - loss) / -math.expm1(-step), 0.0, 1.0)
    with np.errstate(divide="ignore"):
        masses = np.stack((log_mass + np.log1p(-upper), log_mass + np.log(upper)), axis=1)
    return np.stack((index, index + 1.0), axis=1), masses


def _lattice_masses(sizes: Sizes, delta: float) -> SumMasses:
    """Return the distribution on a window of the lattice that suits `delta`.

    The error comes from rounding, from the cyclic Fourier transform and from the mass beyond the window.
    """
    e, n = np.array([size for size, _ in sizes]), np.array([float(count) for _, count in sizes])
    t = _tilt(sizes, min(delta, LARGE))
    slope = np.minimum((t + 0.5) * e, 300.0)
    points = 1 << max(11, min(17, int(math.log2(WORK / len(sizes)))))
    spend(1.5 * points * len(sizes))
    step = (2.0 * REACH * math.sqrt(float((n * (e / np.cosh(slope)) ** 2).sum())) + 4.0 * float(e.max())) / points
    up, down = _split_atoms(e, -np.log1p(np.exp(-e)), step), _split_atoms(-e, -e - np.log1p(np.exp(-e)), step)
    index, log_mass = np.concatenate((up[0], down[0]), axis=1), np.concatenate((up[1], down[1]), axis=1)

    def log_norms(s: float) -> Array:
        return np.asarray(np.logaddexp.reduce(log_mass + s * step * index, axis=1))

    tilted = np.exp(log_mass + t * step * index - log_norms(t)[:, None])
    frequency = 2.0 * math.pi / points * np.arange(points // 2 + 1)
    log_transform = np.zeros(points // 2 + 1, dtype=complex)
    with np.errstate(divide="ignore"):
        for weights, places, count in zip(tilted, index, n, strict=True):
            log_transform += count * np.log(sum(w * np.exp(-1j * i * frequency) for w, i in zip(weights, places, strict=True)))
    log_norm = float((n * log_norms(t)).sum())
    start = math.floor(float((n * e * np.tanh(slope)).sum()) / step) - points // 2
    losses: Array = np.arange(start, start + points, dtype=float) * step
    centred = np.roll(np.maximum(np.fft.irfft(np.exp(log_transform), points), 0.0), -(start % points))
    with np.errstate(over="ignore"):  # a mass far below the answer may become inf, which is on the safe side
        masses = np.exp(log_norm - t * losses + np.log(np.maximum(centred, 1e-320)))
    tilts = t * np.geomspace(1.0, 100.0, 25)
    beyond = min(math.exp(min(float((n * log_norms(s)).sum()) - s * float(losses[-1]), 0.0)) for s in tilts)
    noise = 1e-15 * points * (1.0 + float(n.max()) * 1e-3)

    def error(epsilon: float) -> float:
        return beyond + noise * math.exp(min(log_norm - t * max(epsilon, float(losses[0])), 0.0))

    return SumMasses(masses, losses, error)

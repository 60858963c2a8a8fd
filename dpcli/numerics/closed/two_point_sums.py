"""Sums of two-point losses: the epsilon of a composition of randomised responses.

The accountant optimal (accountants/optimal.py) asks: of all mechanisms with given epsilons, randomised responses lose most when they are
composed (Kairouz, Oh, Viswanath 2015, arXiv:1311.0776). It needs the epsilon at which the hockey-stick divergence of the sum S of their
losses, E[(1 - e^{epsilon - S})+], is at most delta. The result is an upper bound.

A two-point loss is +e with probability e^e/(1+e^e), and -e otherwise: the privacy loss of randomised response. If all losses in a sum have
the same size e, the sum is binomial. If the sizes differ, the distribution of the sum is computed by an exponentially tilted Fourier
transform on a lattice. Every loss is first split between its two neighbouring lattice points in a way that can only make the two
distributions easier to tell apart.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from dpcli.base.stated import total
from dpcli.numerics.arrays import Array, np
from dpcli.numerics.roots import bracket_root
from dpcli.numerics.work import spend  # counts work, and refuses a question that takes too much

# Soundness, for equal losses: EQUAL_REACH standard deviations and EQUAL_MORE terms on either side of the mean are kept. The mass beyond is
# below e^-700, and counts as no error.
EQUAL_REACH, EQUAL_MORE = 40.0, 1000.0
# Accuracy: mass beyond the window is bounded and added to delta, and every tilt gives a bound.
HALF_WINDOW = 14.0  # half the length of the lattice's window, in standard deviations of the tilted sum
LARGE = 0.25  # largest delta for which a tilt is chosen; a larger one, for which Chernoff's bound is useless, gets the same tilt
FEWEST_BITS, MOST_BITS = 11, 17  # the lattice has 2^11 to 2^17 points
LEAST_TILT, MOST_TILT = 1e-9, 1e9  # range of the tilts
THIRDS = 60  # steps of the search for a tilt, each of which leaves two thirds of the range
LEAST_MASS = 1e-320  # replaces a mass of 0, which has no logarithm
# The largest tilt, in units of t, and the number of tilts for Chernoff's bound on the mass beyond the window.
FARTHEST_TILT, TILTS = 100.0, 25
LARGEST_SLOPE = 300.0  # largest (t + 1/2) e of which a hyperbolic cosine is squared, so that it does not overflow
# Soundness: the relative rounding error of a mass, and what each term of the recursion from mass to mass adds to it.
MASS_ROUNDING, TERM_ROUNDING = 1e-12, 1e-15
# Soundness: the rounding error of a transform per point, relative to the sum of the tilted masses, and the share of it that each copy adds.
POINT_ROUNDING, COPY_ROUNDING = 1e-15, 1e-3
# Speed and memory.
MAX_COUNT = 10**9  # largest number of equal steps; the sum then has about a million terms
WORK = 1 << 23  # largest product of the number of lattice points and the number of sizes

Sizes = tuple[tuple[float, int], ...]  # pairs of a size epsilon and the number of losses of that size


class SumMasses(NamedTuple):
    """The distribution of a sum of losses under P: masses at increasing losses.

    error: returns, at an epsilon, a bound on how much the delta of these masses may be too small.
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
        """Return by how much an upper bound on delta at epsilon exceeds `delta`."""
        first = int(np.searchsorted(losses, epsilon, side="right"))
        with np.errstate(over="ignore"):
            return float((masses[first:] * -np.expm1(epsilon - losses[first:])).sum()) + error(epsilon) - delta

    if excess(0.0) <= 0.0:
        return 0.0
    if excess(worst) > 0.0:
        return worst
    _, epsilon = bracket_root(excess, 0.0, worst, rtol=1e-12)
    return min(worst, epsilon * (1.0 + 4e-16))  # the factor covers the rounding of the losses


def _binomial_masses(epsilon: float, count: int) -> SumMasses:
    """Return the distribution of a sum of `count` equal losses, at the losses (2j - n) epsilon.

    Losses far from the mean are left out (EQUAL_REACH).
    """
    p = 1.0 / (1.0 + math.exp(-epsilon))
    reach = EQUAL_REACH * math.sqrt(count * p * (1.0 - p)) + EQUAL_MORE
    low, high = max(0, math.floor(count * p - reach)), min(count, math.ceil(count * p + reach))
    spend(2.0 * (high - low))
    j = np.arange(low, high + 1, dtype=float)  # the number of losses of +epsilon
    log_ratios = np.log((count - j[:-1]) / (j[:-1] + 1.0)) + epsilon  # each binomial mass over the one before
    log_mass = np.concatenate(([0.0], np.cumsum(log_ratios)))
    mass = np.exp(log_mass - log_mass.max())
    mass = mass / mass.sum() * (1.0 + MASS_ROUNDING + TERM_ROUNDING * len(j))
    return SumMasses(mass, (2.0 * j - count) * epsilon, lambda _: 0.0)


def _cgf(sizes: Sizes, t: float) -> float:
    """Return the cumulant generating function K(t) of the sum. Each loss adds log cosh((t+1/2) e) - log cosh(e/2)."""
    e, n = np.array([size for size, _ in sizes]), np.array([float(count) for _, count in sizes])
    return float((n * (t * e + np.log1p(np.exp(-(2.0 * t + 1.0) * e)) - np.log1p(np.exp(-e)))).sum())


def _tilt(sizes: Sizes, delta: float) -> float:
    """Return a t that nearly minimises Chernoff's bound on epsilon, (K(t) - log delta + t log t - (1+t) log(1+t))/t.

    Masses are multiplied by e^{t S}, so that sums near epsilon become the likely ones and keep their digits in the Fourier transform.
    """

    def bound(t: float) -> float:
        """Return Chernoff's bound on epsilon at the tilt t."""
        return (_cgf(sizes, t) - math.log(delta) + t * math.log(t) - (1.0 + t) * math.log1p(t)) / t

    low, high = LEAST_TILT, MOST_TILT
    for _ in range(THIRDS):  # on a logarithmic scale
        a, b = low ** (2 / 3) * high ** (1 / 3), low ** (1 / 3) * high ** (2 / 3)
        if bound(a) <= bound(b):
            high = b
        else:
            low = a
    return math.sqrt(low * high)


def _split_atoms(loss: Array, log_mass: Array, step: float) -> tuple[Array, Array]:
    """Split each atom of the loss between the two lattice points next to it, and return their indices and log masses, in two columns.

    loss, log_mass: shape (atoms,). The split keeps the atom's mass under P and under Q. Merging the two parts again is post-processing, so
    the split pair dominates.
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
    slope = np.minimum((t + 0.5) * e, LARGEST_SLOPE)
    points = 1 << max(FEWEST_BITS, min(MOST_BITS, int(math.log2(WORK / len(sizes)))))
    spend(1.5 * points * len(sizes))
    # Under the tilt, a loss of size e has the mean e tanh((t + 1/2) e) and the standard deviation e / cosh((t + 1/2) e). Four largest
    # losses are added to the window, in which a deviation near 0 would leave no room.
    step = (2.0 * HALF_WINDOW * math.sqrt(float((n * (e / np.cosh(slope)) ** 2).sum())) + 4.0 * float(e.max())) / points
    index_up, log_mass_up = _split_atoms(e, -np.log1p(np.exp(-e)), step)
    index_down, log_mass_down = _split_atoms(-e, -e - np.log1p(np.exp(-e)), step)
    # Of shape (sizes, 4): the two atoms of each loss, each at two points.
    index, log_mass = np.concatenate((index_up, index_down), axis=1), np.concatenate((log_mass_up, log_mass_down), axis=1)

    def log_norms(s: float) -> Array:
        """Return K(s) of one split loss of each size."""
        return np.asarray(np.logaddexp.reduce(log_mass + s * step * index, axis=1))

    tilted = np.exp(log_mass + t * step * index - log_norms(t)[:, None])
    frequency = 2.0 * math.pi / points * np.arange(points // 2 + 1)
    log_transform = np.zeros(points // 2 + 1, dtype=complex)
    with np.errstate(divide="ignore"):
        for weights, indices, count in zip(tilted, index, n, strict=True):
            log_transform += count * np.log(sum(w * np.exp(-1j * i * frequency) for w, i in zip(weights, indices, strict=True)))
    log_norm = float((n * log_norms(t)).sum())
    start = math.floor(float((n * e * np.tanh(slope)).sum()) / step) - points // 2
    losses: Array = np.arange(start, start + points, dtype=float) * step
    centred = np.roll(np.maximum(np.fft.irfft(np.exp(log_transform), points), 0.0), -(start % points))
    with np.errstate(over="ignore"):  # a mass far below the answer may become inf, which is on the safe side
        masses = np.exp(log_norm - t * losses + np.log(np.maximum(centred, LEAST_MASS)))
    tilts = t * np.geomspace(1.0, FARTHEST_TILT, TILTS)
    beyond = min(math.exp(min(float((n * log_norms(s)).sum()) - s * float(losses[-1]), 0.0)) for s in tilts)
    rounding = POINT_ROUNDING * points * (1.0 + float(n.max()) * COPY_ROUNDING)

    def error(epsilon: float) -> float:
        """Return the mass beyond the window plus the rounding, which is relative to e^{K(t) - t epsilon}."""
        return beyond + rounding * math.exp(min(log_norm - t * max(epsilon, float(losses[0])), 0.0))

    return SumMasses(masses, losses, error)

"""Tails of sums of independent two-point losses (+e with probability e^e/(1+e^e), else -e), rounded up.

One size of step: a binomial sum in logarithms. Several sizes: an exponentially tilted Fourier sum on a lattice, onto which every
atom is spread so that the pair it stands for only becomes easier to tell apart.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from dpcli.numerics.logspace import log_add
from dpcli.numerics.roots import bracket_root
from dpcli.registry import lazy

if TYPE_CHECKING:
    import numpy as np

    from dpcli.numerics.roots import Array
else:
    np = lazy("numpy")

Sizes = tuple[tuple[float, int], ...]  # (epsilon, count)
MAX_COUNT = 10**9  # of equal steps: about a million terms
WORK = 1 << 24  # lattice points times sizes
REACH = 14.0  # half the window, in tilted standard deviations


def two_point_epsilon(sizes: Sizes, delta: float) -> float:
    """The smallest epsilon at which the sum's hockey-stick divergence is at most `delta`: an upper bound.

    Exact up to 1e-9 relative for one size; for several at most about 1e-3 above (lattice). inf is never returned: the plain sum of
    the losses always holds.
    """
    worst = math.fsum(n * e for e, n in sizes)
    if delta <= 0.0 or not sizes:
        return worst
    masses, losses, error = _binomial(*sizes[0]) if len(sizes) == 1 else _lattice(sizes, delta)

    def excess(epsilon: float) -> float:
        first = int(np.searchsorted(losses, epsilon, side="right"))
        return float((masses[first:] * -np.expm1(epsilon - losses[first:])).sum()) + error(epsilon) - delta

    if excess(0.0) <= 0.0:
        return 0.0
    return min(worst, bracket_root(excess, 0.0, worst, rtol=1e-12)[1]) if excess(worst) <= 0.0 else worst


def _binomial(epsilon: float, count: int) -> tuple[Array, Array, Callable[[float], float]]:
    """Masses and losses (2j - n) epsilon of the binomial, over forty standard deviations (e^-700 of the mass lies beyond)."""
    p = 1.0 / (1.0 + math.exp(-epsilon))
    reach = 40.0 * math.sqrt(count * p * (1.0 - p)) + 1000.0
    low, high = max(0, math.floor(count * p - reach)), min(count, math.ceil(count * p + reach))
    j = np.arange(low, high + 1, dtype=float)
    steps = np.log((count - j[:-1]) / (j[:-1] + 1.0)) + epsilon
    log_mass = np.concatenate(([0.0], np.cumsum(steps)))
    mass = np.exp(log_mass - log_mass.max())
    return mass / mass.sum() * (1.0 + 1e-12 + 1e-15 * len(j)), (2.0 * j - count) * epsilon, lambda _: 0.0


def _cgf(sizes: Sizes, t: float) -> float:
    """K(t) of the sum; each term is log cosh((t+1/2) e) - log cosh(e/2)."""
    return math.fsum(n * (t * e + log_add(0.0, -(2.0 * t + 1.0) * e) - log_add(0.0, -e)) for e, n in sizes)


def _tilt(sizes: Sizes, delta: float) -> float:
    """The t that minimises Chernoff's bound (K(t) - log delta)/t."""
    low, high = 1e-9, 1e9
    for _ in range(80):
        a, b = low ** (2 / 3) * high ** (1 / 3), low ** (1 / 3) * high ** (2 / 3)
        if (_cgf(sizes, a) - math.log(delta)) / a <= (_cgf(sizes, b) - math.log(delta)) / b:
            high = b
        else:
            low = a
    return math.sqrt(low * high)


def _spread(loss: float, log_mass: float, step: float) -> list[tuple[int, float]]:
    """An atom of the loss as one or two atoms on the lattice, (index, log mass).

    Both masses, under P and under Q, are kept: merging the two atoms again is post-processing, so the spread pair dominates.
    """
    index = math.floor(loss / step)
    rest = loss - index * step
    upper = -math.expm1(-rest) / -math.expm1(-step)
    parts = [(index, log_mass + math.log1p(-upper))] if upper < 1.0 else []
    return parts + ([(index + 1, log_mass + math.log(upper))] if upper > 0.0 else [])


def _lattice(sizes: Sizes, delta: float) -> tuple[Array, Array, Callable[[float], float]]:
    """Masses under P on a window of the lattice, and a bound on what rounding, wrapping and cutting can have lost."""
    t = _tilt(sizes, delta)
    variance = math.fsum(n * e * e / math.cosh(min((t + 0.5) * e, 300.0)) ** 2 for e, n in sizes)
    largest = max(e for e, _ in sizes)
    points = 1 << max(11, min(17, int(math.log2(WORK / len(sizes)))))
    width = 2.0 * REACH * math.sqrt(variance) + 4.0 * largest
    step = width / points
    frequency = 2.0 * math.pi / points * np.arange(points // 2 + 1)
    log_transform, log_norm = np.zeros(points // 2 + 1, dtype=complex), 0.0
    for e, n in sizes:
        atoms = _spread(e, -math.log1p(math.exp(-e)), step) + _spread(-e, -e - math.log1p(math.exp(-e)), step)
        tilted = [(index, log_mass + t * index * step) for index, log_mass in atoms]
        top = max(value for _, value in tilted)
        total = math.fsum(math.exp(value - top) for _, value in tilted)
        transform = sum(math.exp(value - top) / total * np.exp(-1j * index * frequency) for index, value in tilted)
        with np.errstate(divide="ignore"):
            log_transform += n * np.log(transform)
        log_norm += n * (top + math.log(total))
    tilted_mass = np.fft.irfft(np.exp(log_transform), points)
    mean = math.fsum(n * e * math.tanh(min((t + 0.5) * e, 300.0)) for e, n in sizes)
    start = math.floor(mean / step) - points // 2
    losses: Array = np.arange(start, start + points, dtype=float) * step
    centred = np.roll(np.maximum(tilted_mass, 0.0), -(start % points))
    with np.errstate(over="ignore"):  # far below the answer, where a mass of inf is on the private side
        masses = np.exp(log_norm - t * losses + np.log(np.maximum(centred, 1e-320)))
    end = float(losses[-1])
    beyond = min(math.exp(min(_cgf(sizes, s) - s * end, 0.0)) for s in t * np.geomspace(1.0, 1e3, 61))
    noise = 1e-15 * points * (1.0 + max(n for _, n in sizes) * 1e-3)
    return masses, losses, lambda epsilon: beyond + noise * math.exp(min(log_norm - t * max(epsilon, float(losses[0])), 0.0))

"""Tails of sums of independent two-point losses (+e with probability e^e/(1+e^e), else -e), rounded up.

One size of step: a binomial sum in logarithms. Several sizes: an exponentially tilted Fourier sum on a lattice, onto which every
atom is spread so that the pair it stands for only becomes easier to tell apart.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from dpcli.numerics.arrays import Array, np
from dpcli.numerics.roots import bracket_root
from dpcli.numerics.work import spend

Sizes = tuple[tuple[float, int], ...]  # (epsilon, count)
MAX_COUNT = 10**9  # of equal steps: about a million terms
WORK = 1 << 23  # lattice points times sizes
LARGE = 0.25  # delta beyond which no other tilt serves better: Chernoff's bound says nothing there
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
        with np.errstate(over="ignore"):
            return float((masses[first:] * -np.expm1(epsilon - losses[first:])).sum()) + error(epsilon) - delta

    if excess(0.0) <= 0.0:
        return 0.0
    return min(worst, bracket_root(excess, 0.0, worst, rtol=1e-12)[1]) if excess(worst) <= 0.0 else worst


def _binomial(epsilon: float, count: int) -> tuple[Array, Array, Callable[[float], float]]:
    """Masses and losses (2j - n) epsilon of the binomial, over forty standard deviations (e^-700 of the mass lies beyond)."""
    p = 1.0 / (1.0 + math.exp(-epsilon))
    reach = 40.0 * math.sqrt(count * p * (1.0 - p)) + 1000.0
    low, high = max(0, math.floor(count * p - reach)), min(count, math.ceil(count * p + reach))
    spend(2.0 * (high - low))
    j = np.arange(low, high + 1, dtype=float)
    steps = np.log((count - j[:-1]) / (j[:-1] + 1.0)) + epsilon
    log_mass = np.concatenate(([0.0], np.cumsum(steps)))
    mass = np.exp(log_mass - log_mass.max())
    return mass / mass.sum() * (1.0 + 1e-12 + 1e-15 * len(j)), (2.0 * j - count) * epsilon, lambda _: 0.0


def _cgf(sizes: Sizes, t: float) -> float:
    """K(t) of the sum; each term is log cosh((t+1/2) e) - log cosh(e/2)."""
    e, n = np.array([size for size, _ in sizes]), np.array([float(count) for _, count in sizes])
    return float((n * (t * e + np.log1p(np.exp(-(2.0 * t + 1.0) * e)) - np.log1p(np.exp(-e)))).sum())


def _tilt(sizes: Sizes, delta: float) -> float:
    """A t that nearly minimises Chernoff's bound of the hockey-stick, (K(t) - log delta + t log t - (1+t) log(1+t))/t."""

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


def _spread(loss: Array, log_mass: Array, step: float) -> tuple[Array, Array]:
    """Atoms of the loss as two atoms each on the lattice: (indices, log masses), a column for either.

    Both masses, under P and under Q, are kept: merging the two atoms again is post-processing, so the spread pair dominates.
    """
    index = np.floor(loss / step)
    upper = np.clip(-np.expm1(index * step - loss) / -math.expm1(-step), 0.0, 1.0)
    with np.errstate(divide="ignore"):
        masses = np.stack((log_mass + np.log1p(-upper), log_mass + np.log(upper)), axis=1)
    return np.stack((index, index + 1.0), axis=1), masses


def _lattice(sizes: Sizes, delta: float) -> tuple[Array, Array, Callable[[float], float]]:
    """Masses under P on a window of the lattice, and a bound on what rounding, wrapping and cutting can have lost."""
    e, n = np.array([size for size, _ in sizes]), np.array([float(count) for _, count in sizes])
    t = _tilt(sizes, min(delta, LARGE))
    slope = np.minimum((t + 0.5) * e, 300.0)
    points = 1 << max(11, min(17, int(math.log2(WORK / len(sizes)))))
    spend(1.5 * points * len(sizes))
    step = (2.0 * REACH * math.sqrt(float((n * (e / np.cosh(slope)) ** 2).sum())) + 4.0 * float(e.max())) / points
    up, down = _spread(e, -np.log1p(np.exp(-e)), step), _spread(-e, -e - np.log1p(np.exp(-e)), step)
    index, log_mass = np.concatenate((up[0], down[0]), axis=1), np.concatenate((up[1], down[1]), axis=1)

    def log_norms(s: float) -> Array:
        """CGF at s of each size's lattice atoms."""
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
    with np.errstate(over="ignore"):  # far below the answer, where a mass of inf is on the private side
        masses = np.exp(log_norm - t * losses + np.log(np.maximum(centred, 1e-320)))
    beyond = min(
        math.exp(min(float((n * log_norms(s)).sum()) - s * float(losses[-1]), 0.0)) for s in t * np.geomspace(1.0, 100.0, 25)
    )
    noise = 1e-15 * points * (1.0 + float(n.max()) * 1e-3)
    return masses, losses, lambda epsilon: beyond + noise * math.exp(min(log_norm - t * max(epsilon, float(losses[0])), 0.0))

"""A whole-number combination of noises of one law: how far it goes at a confidence."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from dpcli.numerics.arrays import Array, np
from dpcli.release.noise.laws import NoiseLaw, half_width_beyond

OMITTED = 1e-12  # probability outside of a law's table, which counts as a failure
OFF = 3e-8  # by which a law's tails may be above the truth, and sums of them off
LONGEST = 2_000_000  # whole numbers that a convolved law may have


def weighted_half_width(law: NoiseLaw, weights: Sequence[int], confidence: float) -> int:
    """The smallest whole h with P(|sum of w_i X_i| <= h) >= confidence, from above: by convolution where the table is short enough, else by
    the sum of the single half widths at an equal share of the failure."""
    sizes = tuple(sorted(abs(weight) for weight in weights if weight))
    return _half_width(law, sizes, confidence) if sizes else 0


@lru_cache(maxsize=256)
def _half_width(law: NoiseLaw, sizes: tuple[int, ...], confidence: float) -> int:
    reach = half_width_beyond(law, OMITTED)
    if sum(sizes) * 2 * reach > LONGEST:
        return sum(sizes) * half_width_beyond(law, (1.0 - confidence) / len(sizes))
    tail = _symmetric_tail(_convolved(law, sizes, reach))
    inside = np.nonzero(tail + len(sizes) * (OMITTED + OFF) <= 1.0 - confidence)[0]
    return int(inside[0]) if len(inside) else sum(sizes) * half_width_beyond(law, (1.0 - confidence) / len(sizes))


def _convolved(law: NoiseLaw, sizes: Sequence[int], reach: int) -> Array:
    """Probabilities of the sum from -n to n, by the transform of each law on a common grid; off by some 1e-13."""
    length = 2 * sum(sizes) * reach + 1
    places = np.arange(-reach, reach + 1)
    at = places.astype(float)
    mass = np.maximum(law.at_least(at) - law.at_least(at + 1.0), 0.0)
    total = np.ones(length // 2 + 1, dtype=complex)
    for size in sizes:
        spread = np.zeros(length)
        spread[(places * size) % length] = mass
        total = total * np.fft.rfft(spread)
    circular = np.maximum(np.fft.irfft(total, length), 0.0)
    return np.asarray(np.roll(circular, length // 2))


def _symmetric_tail(mass: Array) -> Array:
    """P(|S| > h) for h = 0, 1, ..."""
    middle = len(mass) // 2
    upper = np.cumsum(mass[::-1])[::-1]
    beyond = 2.0 * np.append(upper[middle + 1 :], 0.0)
    return np.asarray(beyond)

"""Upper bounds on the tails of weighted sums of independent noises, such as N + w M.

The intervals of means and variances (ratios.py) and of weighted counts (measures/weighted_counts.py) need them. A *law* is a distribution
on the whole numbers (noise/laws.py), its *spread* is its scale or sigma, and its *tail* at x is P(X >= x). A law is cut into *blocks* of
consecutive numbers. The whole probability of a block is put at its lowest number, a *node*, where a tail is largest. The probability that
is left out at the ends is added to the *probability of failure*, 1 - confidence. So a tail is overestimated, up to the errors of a law's
own tail, and intervals are never too narrow. Nothing here touches the privacy of an answer, only the width of its interval.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from dpcli.base.errors import InputError
from dpcli.numerics.arrays import Array, np
from dpcli.release.noise.laws import NoiseLaw, half_width_beyond

# Probabilities that are left out, and added to the probability of failure. Smaller values cost time, and intervals hardly get narrower.
OMITTED = 1e-12  # largest probability of all numbers outside the blocks of a law
NEGLIGIBLE = 1e-16  # largest probability of a block that a table leaves out

# Grids. A coarser one gives wider intervals in less time, and none that is too narrow. The values are choices.
FINE = 64  # blocks per scale of a noise. If the scale is less than twice this, each whole number is a block, and the sum is exact
COARSE = 16  # blocks per scale where a table is computed for each answer
CELLS = 1024  # cells in a table of tails
ROWS = 256  # points of the table that are computed at a time, to bound the memory

# Bound on the errors of the tail of a convolved law, for each noise in it. A law's own tail is at most 1e-8 too high (`NoiseLaw.at_least`),
# and a sum of its probabilities is the difference of two such tails.
TAIL_ERROR = 3e-8
LONGEST_LAW = 2_000_000  # largest number of integers in the table of a convolved law, to bound time and memory

Tail = Callable[[Array], Array]  # function from x to an upper bound on P(X >= x)


def tail_of(law: NoiseLaw) -> Tail:
    """Return the tail of an integer law as a function of real numbers.

    A number that is above an integer by less than 1e-9 and a relative 1e-12, more than rounding can cause, counts as that integer. Its tail
    is then larger, which is the safe side.
    """

    def tail(x: Array) -> Array:
        return law.at_least(np.ceil(x - 1e-9 - 1e-12 * np.abs(x)))

    return tail


def sum_exceeds_probability(tail: Tail, law: NoiseLaw, weight: float, distance: float) -> float:
    """Return an upper bound on P(|X + weight M| >= distance), where X has this symmetric tail and M this law.

    By symmetry it is twice P(X >= distance + |weight| M), which is averaged over the blocks of M.
    """
    if distance <= 0.0:
        return 1.0
    nodes, masses, _ = blocks(law, FINE)
    return min(1.0, 2.0 * float(masses @ tail(distance + abs(weight) * nodes)) + OMITTED)


def sum_quantile(tail: Tail, law: NoiseLaw, weight: float, failure: float) -> float:
    """Return a distance that |X + weight M| reaches with at most this probability.

    It is at most a factor of 1 + 1e-6 above the smallest distance that `sum_exceeds_probability` certifies.
    """
    require_resolvable(failure)
    low, high = 0.0, 1.0
    while sum_exceeds_probability(tail, law, weight, high) > failure:
        low, high = high, 2.0 * high
    while high - low > 1e-6 * high:  # accuracy of an expected error, which is shown with three digits
        middle = 0.5 * (low + high)
        low, high = (middle, high) if sum_exceeds_probability(tail, law, weight, middle) > failure else (low, middle)
    return high


def require_resolvable(failure: float) -> None:
    """Raise InputError for a probability of failure that is not well above OMITTED, since no distance could be certified for it.

    The factor of 10 is arbitrary.
    """
    if failure < 10.0 * OMITTED:
        raise InputError(f"expected a confidence of at most 1 - {10.0 * OMITTED:g}, found 1 - {failure:g}")


class Blocks(NamedTuple):
    """A law on the integers, divided into blocks of consecutive numbers.

    lowest: lowest number of each block.
    mass: probability of each block.
    width: number of integers in a block.
    """

    lowest: Array
    mass: Array
    width: int


@lru_cache(maxsize=64)
def blocks(law: NoiseLaw, per_scale: int) -> Blocks:
    """Return the blocks of a law, about `per_scale` of them per scale. Both ends together omit a probability of at most OMITTED.

    If the scale is less than 2 `per_scale`, each integer is a block. An upper bound on the mean of a decreasing function uses its value at
    the lowest number of each block, where the function is largest.
    """
    reach, width = half_width_beyond(law, OMITTED), max(1, math.floor(law.spread / per_scale))
    edges = np.arange(-reach, reach + width + 1.0, width)
    return Blocks(edges[:-1], np.maximum(-np.diff(law.at_least(edges)), 0.0), width)


@dataclass(frozen=True, slots=True)
class TailTable:
    """An upper bound on the tail of N + weight M, as a step function. It is 1 to the left of the grid, and constant beyond its right end.

    values: bound at each grid point. It holds for the whole cell to the right of the point, since the tail decreases.
    """

    low: float
    cell: float
    values: Array

    def __call__(self, x: Array) -> Array:
        index = np.floor((x - self.low) / self.cell - 1e-9)  # near a grid point, the larger bound of the cell to its left
        return np.asarray(np.where(index < 0.0, 1.0, self.values[np.clip(index, 0, len(self.values) - 1).astype(np.int64)]))


@lru_cache(maxsize=16)
def tail_of_sum(law: NoiseLaw, other: NoiseLaw, weight: float) -> TailTable:
    """Return an upper bound on the tail of N + weight M, where N has `law` and M has `other`. It is a sum over the blocks of M."""
    nodes, masses, _ = blocks(other, COARSE)
    is_kept = masses > NEGLIGIBLE
    omitted = float(masses[~is_kept].sum()) + OMITTED
    nodes, masses = nodes[is_kept], masses[is_kept]
    reach = half_width_beyond(law, OMITTED) + abs(weight) * half_width_beyond(other, OMITTED)
    reach = max(reach, 1.0)  # a law that is almost always 0 has a reach of 0
    grid = np.linspace(-reach, reach, CELLS + 1)
    tail, values = tail_of(law), np.empty(len(grid))
    for start in range(0, len(grid), ROWS):
        rows = slice(start, start + ROWS)
        values[rows] = tail(grid[rows, None] + abs(weight) * nodes[None, :]) @ masses
    return TailTable(-reach, 2.0 * reach / CELLS, np.minimum(values + omitted, 1.0))


def sum_half_width(law: NoiseLaw, weights: Sequence[int], confidence: float) -> int:
    """Return an upper bound on the smallest integer h with P(|sum of w_i X_i| <= h) >= confidence.

    The bound is computed by convolution if the table is short enough. Otherwise it is the sum of the half widths of all w_i X_i, each at
    an equal share of the probability of failure.
    """
    sizes = tuple(sorted(abs(weight) for weight in weights if weight))
    return _half_width(law, sizes, confidence) if sizes else 0


@lru_cache(maxsize=256)
def _half_width(law: NoiseLaw, sizes: tuple[int, ...], confidence: float) -> int:
    """Return the bound of `sum_half_width` for the absolute values of the weights, without zeros and in increasing order."""
    failure, reach = 1.0 - confidence, half_width_beyond(law, OMITTED)
    if sum(sizes) * 2 * reach <= LONGEST_LAW:
        tail_upper = _symmetric_tail(_convolved(law, sizes, reach)) + len(sizes) * (OMITTED + TAIL_ERROR)
        (certified,) = np.nonzero(tail_upper <= failure)
        if len(certified):  # otherwise the probability of failure is below the errors of the table
            return int(certified[0])
    return sum(sizes) * half_width_beyond(law, failure / len(sizes))


def _convolved(law: NoiseLaw, sizes: Sequence[int], reach: int) -> Array:
    """Return the probabilities of the weighted sum from -n to n, by Fourier transforms. Their errors are about 1e-13."""
    length = 2 * sum(sizes) * reach + 1
    places = np.arange(-reach, reach + 1)
    numbers = places.astype(float)
    mass = np.maximum(law.at_least(numbers) - law.at_least(numbers + 1.0), 0.0)
    transform = np.ones(length // 2 + 1, dtype=complex)
    for size in sizes:
        scaled = np.zeros(length)  # probabilities of size * X, where negative numbers are at the end
        scaled[(places * size) % length] = mass
        transform = transform * np.fft.rfft(scaled)
    circular = np.maximum(np.fft.irfft(transform, length), 0.0)
    return np.asarray(np.roll(circular, length // 2))


def _symmetric_tail(mass: Array) -> Array:
    """Return P(|S| > h) for h = 0, 1, ..., given the probabilities of S from -n to n."""
    middle = len(mass) // 2
    upper = np.cumsum(mass[::-1])[::-1]
    beyond = 2.0 * np.append(upper[middle + 1 :], 0.0)
    return np.asarray(beyond)

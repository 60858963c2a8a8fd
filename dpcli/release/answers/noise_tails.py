"""Tails of weighted sums of independent noises, N + w M, as upper bounds."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from dpcli.base.errors import InputError
from dpcli.numerics.arrays import Array, np
from dpcli.release.noise.laws import NoiseLaw, half_width_beyond

OMITTED = 1e-12  # probability beyond the nodes of a law, which counts as a failure
FINE = 64  # nodes within one scale of a noise: with fewer whole numbers there, each is a node and the sum is exact
COARSE = 16  # the same if a table is made for each answer
CELLS = 1024  # of a table of tails

Tail = Callable[[Array], Array]  # P(X >= x), an upper bound


def tail_of(law: NoiseLaw) -> Tail:
    """Return the tail of a law on the integers, at real numbers: those that are whole but for rounding count as such."""

    def tail(x: Array) -> Array:
        return law.at_least(np.ceil(x - 1e-9 - 1e-12 * np.abs(x)))

    return tail


def sum_exceeds_probability(tail: Tail, law: NoiseLaw, weight: float, distance: float) -> float:
    """Return an upper bound of P(|X + weight M| >= distance) for X of this symmetric tail and M of this law."""
    if distance <= 0.0:
        return 1.0
    nodes, masses, _ = blocks(law, FINE)
    return min(1.0, 2.0 * float(masses @ tail(distance + abs(weight) * nodes)) + OMITTED)


def sum_quantile(tail: Tail, law: NoiseLaw, weight: float, failure: float) -> float:
    """Return a distance that |X + weight M| reaches with at most this probability, within 1e-6 of the smallest known."""
    require_resolvable(failure)
    low, high = 0.0, 1.0
    while sum_exceeds_probability(tail, law, weight, high) > failure:
        low, high = high, 2.0 * high
    while high - low > 1e-6 * high:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if sum_exceeds_probability(tail, law, weight, middle) > failure else (low, middle)
    return high


def require_resolvable(failure: float) -> None:
    """Raise InputError for a probability of failure so small that OMITTED exceeds it at every distance."""
    if failure < 10.0 * OMITTED:
        raise InputError(f"expected a confidence of at most 1 - {10.0 * OMITTED:g}, found 1 - {failure:g}")


class Blocks(NamedTuple):
    """A law in blocks of consecutive whole numbers: the lowest of each, its probability, and how many numbers a block has."""

    lowest: Array
    mass: Array
    width: int


@lru_cache(maxsize=64)
def blocks(law: NoiseLaw, fine: int) -> Blocks:
    """Return the blocks of a law, `fine` to a scale, all but a probability of OMITTED at both ends.

    A decreasing function is largest at the lowest number of a block. Where the scale is less than 2 fine, each whole number is a block.
    """
    reach, block = half_width_beyond(law, OMITTED), max(1, math.floor(law.spread / fine))
    edges = np.arange(-reach, reach + block + 1.0, block)
    return Blocks(edges[:-1], np.maximum(-np.diff(law.at_least(edges)), 0.0), block)


@dataclass(frozen=True, slots=True)
class TailTable:
    """The tail of N + weight M on a grid; between two points it has the value of the left one, which is larger."""

    low: float
    cell: float
    values: Array

    def __call__(self, x: Array) -> Array:
        index = np.floor((x - self.low) / self.cell - 1e-9)
        return np.asarray(np.where(index < 0.0, 1.0, self.values[np.clip(index, 0, len(self.values) - 1).astype(np.int64)]))


@lru_cache(maxsize=16)
def tail_of_sum(law: NoiseLaw, other: NoiseLaw, weight: float) -> TailTable:
    """Return the tail of N + weight M, N of `law` and M of `other`, summed over the blocks of M."""
    nodes, masses, _ = blocks(other, COARSE)
    kept = masses > 1e-16
    lost = float(masses[~kept].sum()) + OMITTED
    nodes, masses = nodes[kept], masses[kept]
    reach = half_width_beyond(law, OMITTED) + abs(weight) * half_width_beyond(other, OMITTED)
    reach = max(reach, 1.0)  # of laws that hardly fall on any number but 0
    grid = np.linspace(-reach, reach, CELLS + 1)
    tail, values = tail_of(law), np.empty(len(grid))
    for start in range(0, len(grid), 256):  # memory: 256 rows of nodes
        values[start : start + 256] = tail(grid[start : start + 256, None] + abs(weight) * nodes[None, :]) @ masses
    return TailTable(-reach, 2.0 * reach / CELLS, np.minimum(values + lost, 1.0))


TAIL_ERROR = 3e-8  # of a law's tail, and of sums of them: above its bounds of 1e-8 (laws.py)
LONGEST_LAW = 2_000_000  # whole numbers that a convolved law may have


def sum_half_width(law: NoiseLaw, weights: Sequence[int], confidence: float) -> int:
    """Return an upper bound of the smallest whole h with P(|sum of w_i X_i| <= h) >= confidence.

    By convolution if the table is short enough, else the sum of the half widths of each w_i X_i at an equal share of the failure.
    """
    sizes = tuple(sorted(abs(weight) for weight in weights if weight))
    return _half_width(law, sizes, confidence) if sizes else 0


@lru_cache(maxsize=256)
def _half_width(law: NoiseLaw, sizes: tuple[int, ...], confidence: float) -> int:
    reach = half_width_beyond(law, OMITTED)
    if sum(sizes) * 2 * reach > LONGEST_LAW:
        return sum(sizes) * half_width_beyond(law, (1.0 - confidence) / len(sizes))
    tail = _symmetric_tail(_convolved(law, sizes, reach))
    inside = np.nonzero(tail + len(sizes) * (OMITTED + TAIL_ERROR) <= 1.0 - confidence)[0]
    return int(inside[0]) if len(inside) else sum(sizes) * half_width_beyond(law, (1.0 - confidence) / len(sizes))


def _convolved(law: NoiseLaw, sizes: Sequence[int], reach: int) -> Array:
    """Return the probabilities of the sum from -n to n, by Fourier transforms on a common grid; off by some 1e-13."""
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
    """Return P(|S| > h) for h = 0, 1, ..."""
    middle = len(mass) // 2
    upper = np.cumsum(mass[::-1])[::-1]
    beyond = 2.0 * np.append(upper[middle + 1 :], 0.0)
    return np.asarray(beyond)

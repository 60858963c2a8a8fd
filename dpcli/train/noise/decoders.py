"""Decoders of correlated noise: each turns fresh Gaussians into the noise of the next step, and keeps a few vectors.

Toeplitz and banded encoders C are solved by substitution (C w = z); a tree gives each prefix sum a few noisy nodes.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from dpcli.numerics.arrays import np
from dpcli.random.streams import Stream
from dpcli.train.noise.step import Correlated

if TYPE_CHECKING:
    from dpcli.random.streams import Reals


class Banded(Correlated):
    """w_t = (z_t - C[t, t-1] w_{t-1} - ... - C[t, t-b+1] w_{t-b+1}) / C[t, t]: keeps b - 1 steps.

    Args:
        columns: (iterations, bands), row t has C[t, t], C[t + 1, t], ...; of a Toeplitz encoder every row is the same.

    Source: Choquette-Choo et al. 2023, arXiv:2306.08153.
    """

    __slots__ = ("_columns", "_past", "_size")

    def __init__(self, columns: Reals, std: float, stream: Stream) -> None:
        super().__init__(std, stream, len(columns))
        self._columns = columns

    def start(self, size: int) -> None:
        self._size = size
        self._past: deque[Reals] = deque(maxlen=self._columns.shape[1] - 1)  # the latest first

    def step(self, number: int) -> Reals:
        noise = self.fresh(self._size)
        for lag, past in enumerate(self._past, 1):
            noise -= self._columns[number - 1 - lag, lag] * past
        noise /= self._columns[number - 1, 0]
        self._past.appendleft(np.asarray(noise))
        return noise


class BufferedToeplitz(Correlated):
    """c_0 = 1 and c_k = sum_i a_i d_i^{k-1}: buffer i holds sum_k d_i^{k-1} w_{t-k}, so w_t = z_t - sum_i a_i buffer_i.

    Source: Dvijotham et al. 2024, arXiv:2404.16706; McMahan et al. 2024, arXiv:2408.08868.
    """

    __slots__ = ("_buffers", "_decays", "_scales")

    def __init__(self, decays: Reals, scales: Reals, std: float, stream: Stream, iterations: int) -> None:
        super().__init__(std, stream, iterations)
        self._decays = decays[:, None]
        self._scales = scales

    def start(self, size: int) -> None:
        self._buffers = np.zeros((len(self._decays), size))

    def step(self, number: int) -> Reals:
        noise = self.fresh(self._buffers.shape[1]) - self._scales @ self._buffers
        self._buffers *= self._decays
        self._buffers += noise
        return noise


class Tree(Correlated):
    """Every complete node of the tree is its sum plus a fresh Gaussian; a prefix is estimated from the nodes below it.

    A node's own value and the estimates of its two children are weighted by their precision: with variances 1 and 2 v its estimate has
    v' = 2 v / (2 v + 1), and its own value the weight v'. A prefix is the sum of the estimates of the nodes in its binary digits, and the
    noise of a step the difference of two prefixes. At most one node for each level is kept.

    Source: Kairouz et al. 2021, arXiv:2103.00039, Algorithm 1 and Appendix B (estimates from below, after Honaker 2015).
    """

    __slots__ = ("_nodes", "_prefix")

    def start(self, size: int) -> None:
        self._nodes: list[Reals] = []
        self._prefix = np.zeros(size)

    def step(self, number: int) -> Reals:
        """Return the noise of step t, which completes a node on each level up to the number of trailing zeros of t."""
        node, variance = self.fresh(len(self._prefix)), 1.0
        while number % 2 == 0:
            number //= 2
            variance = 2.0 * variance / (2.0 * variance + 1.0)
            node = variance * self.fresh(len(node)) + (1.0 - variance) * (self._nodes.pop() + node)
        self._nodes.append(node)
        prefix = np.sum(self._nodes, axis=0)
        noise: Reals = prefix - self._prefix
        self._prefix = prefix
        return noise

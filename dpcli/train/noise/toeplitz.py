"""Noise w with C w = z for a lower triangular Toeplitz encoder C: by substitution, with what earlier steps left in a few buffers."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from dpcli.numerics.arrays import np
from dpcli.random.streams import Stream
from dpcli.train.noise.step import Correlated

if TYPE_CHECKING:
    from dpcli.random.streams import Reals


class BandedToeplitz(Correlated):
    """w_t = (z_t - c_1 w_{t-1} - ... - c_{b-1} w_{t-b+1}) / c_0: keeps b - 1 steps.

    Source: Choquette-Choo et al. 2023, arXiv:2306.08153.
    """

    __slots__ = ("_coefficients", "_past", "_size")

    def __init__(self, coefficients: Reals, std: float, stream: Stream, iterations: int, runs: int = 1, run: int = 0) -> None:
        super().__init__(std, stream, iterations, runs, run)
        self._coefficients = coefficients

    def restart(self, size: int) -> None:
        self._size = size
        self._past: deque[Reals] = deque(maxlen=len(self._coefficients) - 1)  # the latest first

    def step(self, number: int) -> Reals:
        noise = self.fresh(self._size)
        for weight, past in zip(self._coefficients[1:], self._past, strict=False):  # the first steps have fewer before them
            noise -= weight * past
        noise /= self._coefficients[0]
        self._past.appendleft(noise)
        return noise


class BufferedToeplitz(Correlated):
    """c_0 = 1 and c_k = sum_i a_i d_i^{k-1}: buffer i holds sum_k d_i^{k-1} w_{t-k}, so w_t = z_t - sum_i a_i buffer_i.

    Source: Dvijotham et al. 2024, arXiv:2404.16706; McMahan et al. 2024, arXiv:2408.08868.
    """

    __slots__ = ("_buffers", "_decays", "_scales")

    def __init__(
        self, decays: Reals, scales: Reals, std: float, stream: Stream, iterations: int, runs: int = 1, run: int = 0
    ) -> None:
        super().__init__(std, stream, iterations, runs, run)
        self._decays = decays[:, None]
        self._scales = scales

    def restart(self, size: int) -> None:
        self._buffers = np.zeros((len(self._decays), size))

    def step(self, number: int) -> Reals:
        noise = self.fresh(self._buffers.shape[1]) - self._scales @ self._buffers
        self._buffers *= self._decays
        self._buffers += noise
        return noise

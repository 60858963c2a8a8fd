"""Noise w with C w = z for a lower triangular banded encoder C, of which each row has weights of its own: by substitution."""

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
        columns: (iterations, bands), row t has C[t, t], C[t + 1, t], ...

    Source: Choquette-Choo et al. 2023, arXiv:2306.08153.
    """

    __slots__ = ("_columns", "_past", "_size")

    def __init__(self, columns: Reals, std: float, stream: Stream, runs: int = 1, run: int = 0) -> None:
        super().__init__(std, stream, len(columns), runs, run)
        self._columns = columns

    def restart(self, size: int) -> None:
        self._size = size
        self._past: deque[Reals] = deque(maxlen=self._columns.shape[1] - 1)  # the latest first

    def step(self, number: int) -> Reals:
        noise = self.fresh(self._size)
        for lag, past in enumerate(self._past, 1):
            noise -= self._columns[number - 1 - lag, lag] * past
        noise /= self._columns[number - 1, 0]
        self._past.appendleft(np.asarray(noise))
        return noise

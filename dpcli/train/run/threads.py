"""How many threads a step takes: one where more only wait for each other, as with small models or on a busy machine."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import torch

LONG = 0.5  # seconds: work of this length is worth all threads


def quickest(work: Callable[[], object], times: int = 3) -> float:
    """Seconds, the least of several times: the first one also loads and compiles."""
    return min(_timed(work) for _ in range(times))


def choose_threads(work: Callable[[], object]) -> None:
    """One thread or torch's own number, whichever is quicker; OMP_NUM_THREADS decides where it is set."""
    whole = torch.get_num_threads()
    if "OMP_NUM_THREADS" in os.environ or whole == 1:
        return
    work()  # loads and compiles
    torch.set_num_threads(1)
    alone = quickest(work)
    torch.set_num_threads(whole)
    if alone < LONG and alone <= quickest(work):
        torch.set_num_threads(1)


def _timed(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun

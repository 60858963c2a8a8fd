"""The processes of a run: which one this is, asked before torch is imported; how it is stopped between two steps; its threads.

After Ctrl-C or SIGTERM the step is finished and a state is saved, so that nothing is repeated when the run goes on.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType


def first_process() -> bool:
    """Return whether this process may write and speak; of several that torchrun started, one does."""
    return os.environ.get("RANK", "0") == "0"


def several_processes() -> bool:
    """Return whether torchrun started several."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1


SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stopped(Exception):
    """The run was asked to stop, and did between two steps."""


@dataclass(slots=True)
class StopRequest:
    """The request to stop, made by a signal."""

    made: bool = False

    def __call__(self) -> bool:
        return self.made

    def make(self, number: int, frame: FrameType | None) -> None:
        """Ask at the first signal; interrupt at the second."""
        if self.made:
            raise KeyboardInterrupt
        self.made = True


@contextmanager
def stoppable() -> Iterator[StopRequest]:
    """Let signals ask instead of interrupting; in the main thread alone, which is where signals arrive."""
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request
        return
    before = [signal.signal(number, request.make) for number in SIGNALS]
    try:
        yield request
    finally:
        for number, handler in zip(SIGNALS, before, strict=True):
            signal.signal(number, handler)


LONG = 0.5  # seconds: work of this length is worth all threads


def quickest(work: Callable[[], object], times: int = 3) -> float:
    """Return seconds, the least of several times: the first one also loads and compiles."""
    return min(_timed(work) for _ in range(times))


def choose_threads(work: Callable[[], object]) -> None:
    """Use one thread or torch's own number, whichever is quicker; OMP_NUM_THREADS decides where it is set."""
    import torch

    every = torch.get_num_threads()
    if "OMP_NUM_THREADS" in os.environ or every == 1:
        return
    work()  # loads and compiles
    torch.set_num_threads(1)
    alone = quickest(work)
    torch.set_num_threads(every)
    if alone < LONG and alone <= quickest(work):
        torch.set_num_threads(1)


def _timed(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun

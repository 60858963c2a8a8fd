"""The current process of a run: its rank, which is read without torch, how signals stop it between two steps, and its threads.

After Ctrl-C or SIGTERM the step is finished and a state is saved, so that no step is repeated when the run is resumed.
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
    """Return whether this process is the one that writes and prints; of several that torchrun started, the first."""
    return os.environ.get("RANK", "0") == "0"


def several_processes() -> bool:
    """Return whether torchrun started several processes."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1


SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stopped(Exception):
    """A run was stopped between two steps, as asked."""


@dataclass(slots=True)
class StopRequest:
    """A request to stop, which a signal makes."""

    made: bool = False

    def __call__(self) -> bool:
        return self.made

    def make(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal: the first one asks to stop, the second one interrupts."""
        if self.made:
            raise KeyboardInterrupt
        self.made = True


@contextmanager
def stoppable() -> Iterator[StopRequest]:
    """Let signals ask to stop instead of interrupting; in the main thread, which alone can handle signals."""
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


WORTH_ALL_THREADS = 0.5  # seconds of one step


def quickest(work: Callable[[], object], times: int = 3) -> float:
    """Return the least seconds of several runs: the first one also loads and compiles."""
    return min(_timed(work) for _ in range(times))


def choose_threads(work: Callable[[], object]) -> None:
    """Use one thread or torch's own number of threads, whichever is quicker, unless OMP_NUM_THREADS is set."""
    import torch

    all_threads = torch.get_num_threads()
    if "OMP_NUM_THREADS" in os.environ or all_threads == 1:
        return
    work()  # loads and compiles
    torch.set_num_threads(1)
    seconds = quickest(work)
    torch.set_num_threads(all_threads)
    if seconds < WORTH_ALL_THREADS and seconds <= quickest(work):
        torch.set_num_threads(1)


def _timed(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun

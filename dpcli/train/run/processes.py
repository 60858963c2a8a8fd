"""The current process of a run: its rank, its handling of signals, and its number of threads.

After Ctrl-C or SIGTERM the run finishes its step and saves a state. No step is then repeated when the run is resumed. The rank, the number
of the process among those of torchrun, is read from the environment, because the commands need it before torch is imported; run/ranks.py
has the communication between the processes.
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

# Signals that ask a run to stop.
SIGNALS = (signal.SIGINT, signal.SIGTERM)

# A step that takes at least this many seconds on one thread uses all threads. Arbitrary; affects speed, and the rounding of sums.
WORTH_ALL_THREADS = 0.5


def first_process() -> bool:
    """Return whether this process writes and prints. Only the first of the processes that torchrun started does."""
    return os.environ.get("RANK", "0") == "0"


def several_processes() -> bool:
    """Return whether torchrun started several processes."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1


class Stopped(Exception):
    """A request stopped the run between two steps. `train` in run/training_run.py then pauses it (`ChargedRun.pause`)."""


@dataclass(slots=True)
class StopRequest:
    """A request to stop a run. A call returns whether a signal has made it. The loop of the steps asks before each step."""

    made: bool = False

    def __call__(self) -> bool:
        return self.made

    def make(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal. The first signal requests a stop, and the second one raises KeyboardInterrupt."""
        if self.made:
            raise KeyboardInterrupt
        self.made = True


@contextmanager
def stoppable() -> Iterator[StopRequest]:
    """Make a first signal within the block request a stop instead of interrupting the block.

    Only the main thread can handle signals. In another thread, signals keep their handlers.
    """
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request
        return
    handlers = [signal.signal(number, request.make) for number in SIGNALS]
    try:
        yield request
    finally:
        for number, handler in zip(SIGNALS, handlers, strict=True):
            signal.signal(number, handler)


def quickest(work: Callable[[], object]) -> float:
    """Return the duration of the fastest of three calls, in seconds. The first call may also load and compile code."""
    seconds = []
    for _ in range(3):
        begun = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - begun)
    return min(seconds)


def choose_threads(work: Callable[[], object]) -> None:
    """Set torch to one thread if this is faster than its default number of threads. Do nothing if OMP_NUM_THREADS is set."""
    import torch

    all_threads = torch.get_num_threads()
    if "OMP_NUM_THREADS" in os.environ or all_threads == 1:
        return
    work()  # the first call also loads and compiles code
    torch.set_num_threads(1)
    seconds_on_one = quickest(work)
    torch.set_num_threads(all_threads)
    if seconds_on_one < WORTH_ALL_THREADS and seconds_on_one <= quickest(work):
        torch.set_num_threads(1)

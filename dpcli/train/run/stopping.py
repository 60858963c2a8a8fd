"""Ctrl-C and SIGTERM between two steps: the step is finished, a state is saved, and nothing is repeated when the run goes on."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stopped(Exception):
    """The run was asked to stop, and did between two steps."""


@dataclass(slots=True)
class StopRequest:
    """Whether somebody asked."""

    made: bool = False

    def __call__(self) -> bool:
        return self.made

    def make(self, number: int, frame: FrameType | None) -> None:
        """The first signal asks; the second one does not wait."""
        if self.made:
            raise KeyboardInterrupt
        self.made = True


@contextmanager
def stoppable() -> Iterator[StopRequest]:
    """Signals ask meanwhile instead of interrupting; in the main thread alone, which is where signals arrive."""
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

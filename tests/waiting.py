"""Waiting for a condition, however busy the machine is: a limit here only ends a test that would hang."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE = 300.0  # seconds


def until(holds: Callable[[], bool], every: float = 0.05) -> bool:
    """Whether it comes to hold."""
    end = time.monotonic() + PATIENCE
    while not (held := holds()) and time.monotonic() < end:
        time.sleep(every)
    return held

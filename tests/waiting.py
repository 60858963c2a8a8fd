"""Wait for a condition in a test, on a machine that may be busy."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE = 300.0  # seconds after which a test fails that would otherwise hang; far more than any condition needs


def until(condition: Callable[[], bool], every: float = 0.05) -> bool:
    """Return whether a condition becomes true, which is tested every `every` seconds."""
    end = time.monotonic() + PATIENCE
    while not (is_true := condition()) and time.monotonic() < end:
        time.sleep(every)
    return is_true

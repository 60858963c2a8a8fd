"""Memory of what was tried and thrown away: the C library keeps it for the process, and a model's copies are large."""

from __future__ import annotations

import ctypes
from contextlib import suppress


def give_back() -> None:
    """To the system, where the C library can (glibc); elsewhere it stays with the process."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)

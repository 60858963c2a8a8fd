"""Which of several processes this one is; asked before torch is imported."""

from __future__ import annotations

import os


def first_process() -> bool:
    """Whether this process may write and speak; of several that torchrun started, one does."""
    return os.environ.get("RANK", "0") == "0"


def several_processes() -> bool:
    """Whether torchrun started others beside this one."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1

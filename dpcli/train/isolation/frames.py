"""Who has called torch: the user's code, or what follows a program."""

from __future__ import annotations

import os
from typing import Any

import torch

from dpcli.audit.user_code import PACKAGE

TORCH = os.path.dirname(torch.__file__) + os.sep
FOLLOWERS = tuple(os.path.join(PACKAGE, "train", folder) for folder in ("isolation", "engine"))
HANDLERS = ("__torch_dispatch__", "__torch_function__")


def ours(frame: Any) -> bool:
    """Whether it is this package that has called torch, and not the user's code, in a hook or behind one of torch's functions."""
    while frame is not None:
        file = frame.f_code.co_filename
        if frame.f_code.co_name in HANDLERS and file.startswith((TORCH, PACKAGE + os.sep)):
            return True  # inside of an operator, under whatever mode
        if not file.startswith(("<", TORCH)):
            return os.path.dirname(file) in FOLLOWERS
        frame = frame.f_back
    return False

"""Norms and sums in full single precision, whatever the model itself runs in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def full_precision(device: torch.device) -> Iterator[None]:
    """No autocast and no TF32: a norm that is off by a thousandth lets an example exceed C by as much."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        with torch.autocast(device.type, enabled=False, cache_enabled=False):
            yield
    finally:
        torch.set_float32_matmul_precision(before)

"""Engine tests run on one thread, from a fixed seed."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def one_thread() -> None:
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(7)

"""Engine tests run on one thread, from a fixed seed."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="training needs the train extra")


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(7)

"""Fixture of the engine's tests: torch draws from a fixed seed."""

from __future__ import annotations

import pytest
import torch


@pytest.fixture(autouse=True)
def fixed_seed() -> None:
    torch.manual_seed(7)

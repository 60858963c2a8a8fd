"""Tests of tasks draw from a fixed seed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch


@pytest.fixture(autouse=True)
def fixed_seed() -> None:
    torch.manual_seed(7)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The path of a training file beside which own_language.py lies."""
    from tests.train.tasks.language import OWN

    (tmp_path / "own_language.py").write_text(OWN)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "own_language", raising=False)
    return str(tmp_path / "tiny.toml")

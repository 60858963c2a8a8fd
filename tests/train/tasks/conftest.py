"""Tests of tasks run on one thread, from a fixed seed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def one_thread() -> None:
    import torch

    torch.set_num_threads(1)
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

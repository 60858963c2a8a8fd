"""Fixtures of the tests of tasks: a fixed seed, and a folder with a user's module."""

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
    """Return the path of a training file in a folder that has own_language.py."""
    from tests.train.tasks.language import OWN

    (tmp_path / "own_language.py").write_text(OWN)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "own_language", raising=False)
    return str(tmp_path / "tiny.toml")

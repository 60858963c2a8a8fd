"""A git repository with one pipeline that passes, and the command line run inside it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.gate.samples import GATE


def git(folder: Path, *arguments: str) -> str:
    """git in a folder, as somebody."""
    who = ("-c", "user.name=a", "-c", "user.email=a@b.invalid", "-c", "commit.gpgsign=false")
    return subprocess.run(["git", "-C", str(folder), *who, *arguments], check=True, capture_output=True, text=True).stdout


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A git repository whose first commit, on main, holds a passing train.toml."""
    (tmp_path / "train.toml").write_text(GATE)
    git(tmp_path, "init", "-q", "-b", "main")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "base")
    return tmp_path

"""A git repository with one pipeline that passes, and the command line run inside it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.gate.repositories import committed, copied, git
from tests.gate.samples import GATE


@pytest.fixture(scope="session")
def first_commit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `repository` is a copy of: made once."""
    return committed(tmp_path_factory.mktemp("first"), train=GATE)


@pytest.fixture
def repository(first_commit: Path, tmp_path: Path) -> Path:
    """A git repository whose first commit, on main, holds a passing train.toml."""
    return copied(first_commit, tmp_path)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A repository without a commit."""
    git(tmp_path, "init", "-q", "--template=", "-b", "main")
    return tmp_path

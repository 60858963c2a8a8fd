"""Fixtures for tests of the gate: git repositories, copied from ones that are made once."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.gate.repositories import committed, copied, git
from tests.gate.samples import GATE


@pytest.fixture(scope="session")
def first_commit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make the repository of which `repository` is a copy."""
    return committed(tmp_path_factory.mktemp("first"), train=GATE)


@pytest.fixture
def repository(first_commit: Path, tmp_path: Path) -> Path:
    """Return a git repository whose first commit, on main, has a train.toml that passes the gate."""
    return copied(first_commit, tmp_path)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a git repository without a commit."""
    git(tmp_path, "init", "-q", "--template=", "-b", "main")
    return tmp_path


@pytest.fixture(scope="session")
def first_clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make the folder of which `clone` is a copy, with a bare remote repository and a clone of it."""
    folder = tmp_path_factory.mktemp("clone")
    remote, work = folder / "remote.git", folder / "work"
    subprocess.run(["git", "init", "-q", "--bare", "--template=", "-b", "main", str(remote)], check=True)
    subprocess.run(["git", "clone", "-q", "--template=", str(remote), str(work)], check=True, capture_output=True)
    git(work, "checkout", "-qb", "main")
    (work / "pipelines" / "ads").mkdir(parents=True)
    (work / "pipelines" / "ads" / "rank ing.toml").write_text(GATE)
    git(work, "add", ".")
    git(work, "commit", "-qm", "base")
    git(work, "push", "-q", "origin", "main")
    git(work, "checkout", "-qb", "change")
    return folder


@pytest.fixture
def clone(first_clone: Path, tmp_path: Path) -> Path:
    """Return a clone, on the branch `change`, of a bare remote repository whose main has a pipeline that passes the gate."""
    work = copied(first_clone, tmp_path) / "work"
    git(work, "remote", "set-url", "origin", str(tmp_path / "remote.git"))
    return work

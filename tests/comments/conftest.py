"""Fixtures for tests of `dpcli comment`: a repository, a fake forge, and the environment of a CI job."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.comments.forges import FORGES, IDS, FakeForge, serving
from tests.gate.conftest import clone as clone
from tests.gate.conftest import first_clone as first_clone
from tests.gate.conftest import first_commit as first_commit
from tests.gate.conftest import repository as repository


@pytest.fixture(params=FORGES, ids=IDS)
def fake_forge(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeForge]:
    """Run each kind of forge in turn, with the environment of a CI job of it and no other variable of a CI system or proxy."""
    kind, job = request.param
    for name in [name for name in os.environ if name.startswith(("GITHUB_", "GITLAB_", "CI_")) or name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    with serving(FakeForge(kind, job=job)) as forge:
        for name, value in forge.environment.items():
            monkeypatch.setenv(name, value)
        yield forge


@pytest.fixture
def pipeline(repository: Path) -> Path:
    """Return the path of the only pipeline of the repository."""
    return repository / "train.toml"

"""A repository, a server that plays a forge, and a job's environment."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.comments.forges import FORGES, IDS, Played, playing
from tests.gate.conftest import clone as clone
from tests.gate.conftest import first_clone as first_clone
from tests.gate.conftest import first_commit as first_commit
from tests.gate.conftest import repository as repository


@pytest.fixture(params=FORGES, ids=IDS)
def played(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Played]:
    """Each system in turn, and nothing in the environment but what a job of it finds."""
    kind, job = request.param
    for name in [name for name in os.environ if name.startswith(("GITHUB_", "GITLAB_", "CI_")) or name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    with playing(Played(kind, job=job)) as forge:
        for name, value in forge.environment.items():
            monkeypatch.setenv(name, value)
        yield forge


@pytest.fixture
def pipeline(repository: Path) -> Path:
    """The one pipeline of the repository."""
    return repository / "train.toml"

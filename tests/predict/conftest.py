"""Fixtures that the tests of sessions share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from dpcli.predict import shard_processes
from dpcli.predict.documents import statements
from tests.ledger.conftest import database, shared_database

__all__ = ("database", "shared_database")

QUICK = "not long and not nightly"
STARTED = ("test_one_change",)  # files about the processes themselves


@pytest.fixture(autouse=True)
def short_statements(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the file's disclosure out of statements, which takes a second, but with `@pytest.mark.usefixtures("whole_statements")`."""
    if "whole_statements" not in request.fixturenames:
        monkeypatch.setattr(statements, "disclosure_of", lambda priced, answers: "")


@pytest.fixture
def whole_statements() -> None:
    """Leave statements as a user gets them."""


@pytest.fixture(scope="session")
def forked_starts() -> Iterator[Any]:
    """What starts warmed processes without their imports."""
    from tests.predict.forked_starts import forking

    with forking() as started:
        yield started


@pytest.fixture(autouse=True)
def quick_starts(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a quick run, fork warmed processes; in a longer one each is a Python of its own, as it is for a user."""
    if request.config.option.markexpr == QUICK and request.path.stem not in STARTED:
        monkeypatch.setattr(shard_processes, "subprocess", request.getfixturevalue("forked_starts"))

"""Fixtures that make tests of private prediction faster: shorter statements, and processes that are forked instead of started."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from dpcli.predict import shard_processes
from dpcli.predict.documents import statements
from tests.ledger.conftest import database, shared_database

__all__ = ("database", "shared_database")

QUICK = "not long and not nightly"  # the marks of a quick run
STARTED = ("test_one_change",)  # files that test the processes themselves, and so start them


@pytest.fixture(autouse=True)
def short_statements(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the disclosure, which takes a second, out of statements. A test with `usefixtures("whole_statements")` keeps it."""
    if "whole_statements" not in request.fixturenames:
        monkeypatch.setattr(statements, "disclosure_of", lambda priced, answers: "")


@pytest.fixture
def whole_statements() -> None:
    """Keep statements as a user gets them (`short_statements`)."""


@pytest.fixture(scope="session")
def forked_starts() -> Iterator[Any]:
    """Return a replacement of the module `subprocess` that forks warmed processes (forked_starts.py)."""
    from tests.predict.forked_starts import forking

    with forking() as started:
        yield started


@pytest.fixture(autouse=True)
def quick_starts(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fork warmed processes in a quick run. In longer runs each is a new Python process, as for a user."""
    if request.config.option.markexpr == QUICK and request.path.stem not in STARTED:
        monkeypatch.setattr(shard_processes, "subprocess", request.getfixturevalue("forked_starts"))

"""Fixtures that the tests of sessions share."""

from __future__ import annotations

import pytest

from dpcli.predict.documents import prediction_statement
from tests.ledger.conftest import cluster, database, used_again

__all__ = ("cluster", "database", "used_again")  # one server for all of them


@pytest.fixture(autouse=True)
def short_statements(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the file's disclosure out of statements, which takes a second, but with `@pytest.mark.usefixtures("whole_statements")`."""
    if "whole_statements" not in request.fixturenames:
        monkeypatch.setattr(prediction_statement, "file_statement", lambda priced, answers: "")


@pytest.fixture
def whole_statements() -> None:
    """Leave statements as a user gets them."""

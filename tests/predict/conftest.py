"""Fixtures that the tests of sessions share."""

from __future__ import annotations

import pytest

from dpcli.predict.documents import prediction_statement
from tests.ledger.conftest import cluster, database, used_again

__all__ = ("cluster", "database", "used_again")  # one server for all of them


@pytest.fixture(autouse=True)
def short_statements(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Statements of one line, as a whole one takes a second; `@pytest.mark.usefixtures("whole_statements")` leaves them as they are."""
    if "whole_statements" not in request.fixturenames:
        monkeypatch.setattr(prediction_statement, "statement", lambda priced, message: message["done"])


@pytest.fixture
def whole_statements() -> None:
    """Leave statements as a user gets them."""

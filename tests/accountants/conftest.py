"""Here every accountant is asked, also where an interval has settled the headline: tests/analysis/test_settled.py has that rule."""

from __future__ import annotations

from collections.abc import Iterator
from unittest import mock

import pytest

from dpcli.analysis import inquiry


@pytest.fixture(scope="module", autouse=True)
def every_row() -> Iterator[None]:
    with mock.patch.object(inquiry, "SETTLING", ()):
        yield

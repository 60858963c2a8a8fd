"""In this folder every accountant is asked.

`account` otherwise stops once a narrow interval has settled the headline, which leaves rows empty that these tests compare;
tests/analysis/test_settled.py tests that rule.
"""

from __future__ import annotations

from collections.abc import Iterator
from unittest import mock

import pytest

from dpcli.analysis import inquiry


@pytest.fixture(scope="module", autouse=True)
def every_row() -> Iterator[None]:
    with mock.patch.object(inquiry, "SETTLING", ()):
        yield

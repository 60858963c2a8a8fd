"""Answers of accountants, remembered from one test to the next, for tests that are about something else.

A gate, a report or a format is tested on the same few files, whose numbers other tests examine. What an accountant says depends on the
question and on the work that is left for it alone (accountants/test_turns.py examines that), so both are the key, and a remembered answer
is charged again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from dpcli.analysis import account as accounting
from dpcli.numerics import work

_answers: dict[Any, tuple[accounting.AccountRow, float]] = {}
_row = accounting._row


def row(accountant: accounting.Accountant, profile: Any, quantity: accounting.Quantity, at: float, share: float = 1.0) -> Any:
    """`accounting._row`, remembered."""
    left = work._left.get()
    before = None if left is None else left[0]
    key = (accountant.name, type(profile), profile, quantity, at, share, before)
    try:
        found = _answers.get(key)
    except TypeError:  # it cannot be hashed
        return _row(accountant, profile, quantity, at, share)
    if found is None:
        answer = _row(accountant, profile, quantity, at, share)
        _answers[key] = answer, 0.0 if left is None or before is None else before - left[0]
        return answer
    if left is not None:
        left[0] -= found[1]
    return found[0]


@contextmanager
def remembering() -> Iterator[None]:
    """Inside, no accountant is asked the same question again."""
    with mock.patch.object(accounting, "_row", row):
        yield

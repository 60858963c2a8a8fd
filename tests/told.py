"""Many cases in one test: all are tried, and those that fail are told together, each by its name."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

import pytest

Case = TypeVar("Case")


def require_each(cases: Iterable[Case], check: Callable[[Case], object], name: Callable[[Case], str] = str) -> None:
    """Asserts that there are cases, and that the check raises for none of them; the traceback is the first one's."""
    tried, failed = 0, []
    for case in cases:
        tried += 1
        try:
            check(case)
        except (Exception, pytest.fail.Exception) as problem:
            failed.append((name(case), problem))
    assert tried, "no case was tried"
    if failed:
        told = "\n".join(f"{one}: {type(problem).__name__}: {problem}" for one, problem in failed)
        raise AssertionError(f"{len(failed)} of {tried} fail:\n{told}") from failed[0][1]

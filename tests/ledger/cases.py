"""Many small cases in one test, each of which is the arguments of a check."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tests.cases import require_each


def every(cases: Iterable[object], check: Callable[..., object]) -> None:
    """Assert that the check raises for none of the cases; a tuple is its arguments."""
    require_each(cases, lambda case: check(*case) if isinstance(case, tuple) else check(case), repr)

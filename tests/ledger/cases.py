"""Helpers of the ledger's tests: a check of many small cases in one test, and the folder of ledgers that the last version wrote."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tests.cases import require_each
from tests.command import ROOT

VECTORS = ROOT / "tests" / "vectors" / "ledgers"  # ledgers that the last version wrote


def every(cases: Iterable[object], check: Callable[..., object]) -> None:
    """Assert that the check raises for none of the cases. A case is the argument of the check, or a tuple of its arguments."""
    require_each(cases, lambda case: check(*case) if isinstance(case, tuple) else check(case), repr)

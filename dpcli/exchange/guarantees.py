"""Budgets of other libraries as entries of a file: what they state of a unit, and nothing of how it was reached."""

from __future__ import annotations

from typing import Any

from dpcli.exchange.foreign import ForeignTable

WHOLE = "the statement is of all that one unit may change, not of each record"
COMMENTS = {"stated_for": WHOLE}


def pure_or_approximate(epsilon: float, delta: float = 0.0) -> dict[str, Any]:
    """The keys of an entry that is (epsilon, delta)-DP for the unit: of pure epsilon, where delta is 0."""
    if delta == 0.0:
        return {"type": "pure-dp", "epsilon": epsilon, "stated_for": "unit"}
    return {"type": "approx-dp", "epsilon": epsilon, "delta": delta, "stated_for": "unit"}


def concentrated(rho: float, delta: float, where: ForeignTable) -> dict[str, Any]:
    """The keys of an entry that is rho-zCDP for the unit. Raises InputError for rho-zCDP that holds but for a delta."""
    if delta != 0.0:
        raise where.refused(f"expected zCDP without a delta, found delta = {delta:g}: no mechanism of a file says that it may fail")
    return {"type": "zcdp", "rho": rho, "stated_for": "unit"}

"""The zCDP cost of a composition, and a cap on it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from dpcli.accountants.base import rho_of
from dpcli.base.errors import NotRepresentable
from dpcli.base.rounding import up
from dpcli.base.values import dataclass
from dpcli.file.pipeline.model import Pipeline
from dpcli.file.pipeline.resolve import BillLine

Verdict = Literal["pass", "warn", "fail", "unknown"]
SEVERITY: tuple[Verdict, ...] = ("pass", "warn", "fail", "unknown")
OVER = frozenset({"fail", "unknown"})  # what a budget does not pay for
ROUNDED_UP = 4e-15


@dataclass(frozen=True, slots=True)
class TotalRho:
    """The sum of the charges' rho, an upper bound: inf where one has none, with the reason."""

    value: float
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class RhoVerdict:
    """The zCDP spending against a cap on it."""

    cap: float
    spent: TotalRho
    verdict: Verdict

    def words(self, decimals: int = 4) -> str:
        """`rho 0.2501 of 0.25`; why there is none."""
        return f"rho {up(self.spent.value, decimals)} of {self.cap!r}{f' ({self.spent.reason})' if self.spent.reason else ''}"


def epsilon_of_rho(rho: float, delta: float) -> float:
    """Return the epsilon at `delta` that any rho-zCDP mechanism has at most (Canonne, Kamath, Steinke 2020, arXiv:2004.00010)."""
    from dpcli.mechanisms.stated.renyi import Zcdp

    return Zcdp(rho).approx_dp(delta)


def total_rho(charges: Sequence[BillLine]) -> TotalRho:
    """rho of all charges together, which may be chosen one after the other (Bun & Steinke 2016, arXiv:1605.02065, Lemma 2.3)."""
    try:
        return TotalRho(rho_of(tuple((charge.mechanism, charge.count) for charge in charges)))
    except NotRepresentable as error:
        return TotalRho(math.inf, str(error))


def settled(value: float, cap: float) -> float:
    """The value; the cap itself where that is exceeded by no more than values are rounded up, so that what meets it exactly does."""
    return cap if cap < value <= cap * (1.0 + ROUNDED_UP) else value


def judged(spent: float, cap: float, warn_at: float) -> Verdict:
    """A number against its cap; what is infinite is not known."""
    if math.isinf(spent):
        return "unknown"
    return "fail" if spent > cap else "warn" if spent > warn_at * cap else "pass"


def warning_level(pipeline: Pipeline) -> str:
    """Return the share of its cap above which a pipeline with a budget gets a warning: `warning level (0.8 of the cap)`."""
    assert pipeline.budget is not None
    return f"warning level ({pipeline.budget.warn_at!r} of the cap)"


def rho_verdict(charges: Sequence[BillLine], cap: float | None, warn_at: float) -> RhoVerdict | None:
    """Return the verdict on rho, None without a cap."""
    if cap is None:
        return None
    total = total_rho(charges)
    spent = TotalRho(settled(total.value, cap), total.reason)
    return RhoVerdict(cap, spent, judged(spent.value, cap, warn_at))

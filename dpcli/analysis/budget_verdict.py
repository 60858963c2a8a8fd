"""A pipeline's spending against its budget: the cap on epsilon at a delta, the cap on rho (zCDP), and the worse of both."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from dpcli.accountants.base import rho_of
from dpcli.base.errors import NotRepresentable
from dpcli.base.rounding import up
from dpcli.base.values import dataclass
from dpcli.file.pipeline.model import Pipeline
from dpcli.file.pipeline.resolve import BillLine, steps_of

Verdict = Literal["pass", "warn", "fail", "unknown"]
SEVERITY: tuple[Verdict, ...] = ("pass", "warn", "fail", "unknown")  # an unknown cost may hide one that is too high
OVER = frozenset({"fail", "unknown"})  # verdicts on what a budget does not cover
ROUNDING = 4e-15  # relative; sums are rounded up by a few units of 2.2e-16


@dataclass(frozen=True, slots=True)
class TotalRho:
    """The sum of the charges' rho, an upper bound: inf if one has none, with the reason."""

    value: float
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class RhoVerdict:
    """The rho (zCDP) that is spent, against a cap on it."""

    cap: float
    spent: TotalRho
    verdict: Verdict

    def words(self, decimals: int = 4) -> str:
        """`rho 0.2501 of 0.25`, with the reason if there is no number."""
        reason = f" ({self.spent.reason})" if self.spent.reason else ""
        return f"rho {up(self.spent.value, decimals)} of {self.cap!r}{reason}"


@dataclass(frozen=True, slots=True)
class EpsilonVerdict:
    """The epsilon that is spent at delta, an upper bound, against a cap on it."""

    cap: float
    delta: float
    spent: float
    verdict: Verdict

    def words(self, decimals: int = 4) -> str:
        """`epsilon 2.5 of 3.0 at delta = 1e-06`."""
        return f"epsilon {up(self.spent, decimals)} of {self.cap!r} at delta = {self.delta!r}"


@dataclass(frozen=True, slots=True)
class BudgetVerdict:
    """The spending of a file against its caps, of which it has at least one."""

    epsilon: EpsilonVerdict | None
    rho: RhoVerdict | None = None

    @property
    def capped(self) -> tuple[EpsilonVerdict | RhoVerdict, ...]:
        """The caps that there are."""
        return tuple(spending for spending in (self.epsilon, self.rho) if spending is not None)

    @property
    def verdict(self) -> Verdict:
        """The worse of both."""
        return max((spending.verdict for spending in self.capped), key=SEVERITY.index)

    @property
    def over(self) -> bool:
        """Return whether the budget does not cover the file; what cannot be certified is not covered."""
        return self.verdict in OVER

    def words(self, decimals: int = 4) -> str:
        """`epsilon 2.5 of 3.0 at delta = 1e-06, rho 0.2 of 0.25`, of which either may be absent."""
        return ", ".join(spending.words(decimals) for spending in self.capped)

    def wanted(self) -> str:
        """Word the verdict for a refusal: `expected at most epsilon 3 at delta = 1e-06, found 3.1`."""
        if self.epsilon is None:
            return f"expected no more than the cap, found {self.words()}"
        rho = "" if self.rho is None else f", {self.rho.words()}"
        return (
            f"expected at most epsilon {self.epsilon.cap:g} at delta = {self.epsilon.delta!r}, found {up(self.epsilon.spent)}{rho}"
        )


def verdict_on(spent: float, cap: float, warn_at: float) -> Verdict:
    """Return the verdict on a cost against its cap; an infinite cost is an unknown one.

    warn_at: the share of the cap above which a cost that fits is a warning.
    """
    if math.isinf(spent):
        return "unknown"
    if spent > cap:
        return "fail"
    return "warn" if spent > warn_at * cap else "pass"


def total_rho(charges: Sequence[BillLine]) -> TotalRho:
    """Return rho of all charges, each of which may depend on earlier outputs (Bun & Steinke 2016, arXiv:1605.02065, Lemma 2.3)."""
    try:
        return TotalRho(rho_of(steps_of(charges)))
    except NotRepresentable as error:
        return TotalRho(math.inf, str(error))


def without_rounding(value: float, cap: float) -> float:
    """Return the value, or the cap if the value is above it only because sums are rounded up."""
    return cap if cap < value <= cap * (1.0 + ROUNDING) else value


def rho_verdict(charges: Sequence[BillLine], cap: float | None, warn_at: float) -> RhoVerdict | None:
    """Return the verdict on rho, None without a cap."""
    if cap is None:
        return None
    total = total_rho(charges)
    spent = TotalRho(without_rounding(total.value, cap), total.reason)
    return RhoVerdict(cap, spent, verdict_on(spent.value, cap, warn_at))


def epsilon_of_rho(rho: float, delta: float) -> float:
    """Return an upper bound on epsilon at `delta` of rho-zCDP (Canonne, Kamath, Steinke 2020, arXiv:2004.00010)."""
    from dpcli.mechanisms.stated.renyi import Zcdp

    return Zcdp(rho).approx_dp(delta)


def warning_level(pipeline: Pipeline) -> str:
    """Return in words the share of the budget above which there is a warning: `warning level (0.8 of the cap)`."""
    assert pipeline.budget is not None
    return f"warning level ({pipeline.budget.warn_at!r} of the cap)"

"""The comparison of a pipeline's cost with its budget: with a cap on epsilon at a delta, and with a cap on rho (zCDP).

account.py makes the verdict on a file, and other commands print it or refuse by it. Costs are upper bounds. A cost that cannot be certified
gives the verdict "unknown", which counts as over the budget. *rho* is the parameter of zero-concentrated differential privacy (zCDP), which
adds up over mechanisms. A *charge* is a mechanism with the number of its runs. Only a total rho may exceed its cap, by ROUNDING.
"""

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
SEVERITY: tuple[Verdict, ...] = ("pass", "warn", "fail", "unknown")  # "unknown" is the worst, since an unknown cost may be too high
OVER = frozenset({"fail", "unknown"})  # verdicts on a cost that the budget does not cover
# Largest relative error of a sum that is rounded up by a few units of 2.2e-16. A total rho may exceed its cap by this share, and a mu its
# target (goals.py): a file that was calibrated to the cap must pass it.
ROUNDING = 4e-15


@dataclass(frozen=True, slots=True)
class TotalRho:
    """An upper bound on the total rho of charges.

    value: the sum of all rho; inf if a charge has no finite rho.
    reason: why `value` is inf; None if it is finite.
    """

    value: float
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class RhoVerdict:
    """The verdict on a cap on rho (zCDP)."""

    cap: float
    spent: TotalRho
    verdict: Verdict

    def words(self, decimals: int = 4) -> str:
        """Return the verdict in words: `rho 0.2501 of 0.25`, with the reason if rho is unknown."""
        reason = f" ({self.spent.reason})" if self.spent.reason else ""
        return f"rho {up(self.spent.value, decimals)} of {self.cap!r}{reason}"


@dataclass(frozen=True, slots=True)
class EpsilonVerdict:
    """The verdict on a cap on epsilon at a delta. `spent` is an upper bound."""

    cap: float
    delta: float
    spent: float
    verdict: Verdict

    def words(self, decimals: int = 4) -> str:
        """Return the verdict in words: `epsilon 2.5 of 3.0 at delta = 1e-06`."""
        return f"epsilon {up(self.spent, decimals)} of {self.cap!r} at delta = {self.delta!r}"


@dataclass(frozen=True, slots=True)
class BudgetVerdict:
    """The verdicts on the caps of a file; None for a cap that the file does not state."""

    epsilon: EpsilonVerdict | None
    rho: RhoVerdict | None = None

    @property
    def capped(self) -> tuple[EpsilonVerdict | RhoVerdict, ...]:
        """The verdicts on the caps that the file states."""
        return tuple(spending for spending in (self.epsilon, self.rho) if spending is not None)

    @property
    def verdict(self) -> Verdict:
        """The worst of the verdicts. The file must state a cap."""
        return max((spending.verdict for spending in self.capped), key=SEVERITY.index)

    @property
    def over(self) -> bool:
        """Return whether the cost exceeds the budget. The budget does not cover a cost that cannot be certified."""
        return self.verdict in OVER

    def words(self, decimals: int = 4) -> str:
        """Return the verdicts in words: `epsilon 2.5 of 3.0 at delta = 1e-06, rho 0.2 of 0.25`, or only one of the two."""
        return ", ".join(spending.words(decimals) for spending in self.capped)

    def wanted(self) -> str:
        """Return the verdict as the text of a refusal: `expected at most epsilon 3 at delta = 1e-06, found 3.1`."""
        if self.epsilon is None:
            return f"expected a cost of at most the cap, found {self.words()}"
        rho = "" if self.rho is None else f", {self.rho.words()}"
        return (
            f"expected at most epsilon {self.epsilon.cap:g} at delta = {self.epsilon.delta!r}, found {up(self.epsilon.spent)}{rho}"
        )


def verdict_on(spent: float, cap: float, warn_at: float) -> Verdict:
    """Return the verdict on a cost with a cap. An infinite cost is unknown.

    warn_at: share of the cap above which a cost within the cap gets a warning.
    """
    if math.isinf(spent):
        return "unknown"
    if spent > cap:
        return "fail"
    return "warn" if spent > warn_at * cap else "pass"


def total_rho(charges: Sequence[BillLine]) -> TotalRho:
    """Return the total rho of charges. Each may depend on earlier outputs (Bun & Steinke 2016, arXiv:1605.02065, Lemma 2.3)."""
    try:
        return TotalRho(rho_of(steps_of(charges)))
    except NotRepresentable as error:
        return TotalRho(math.inf, str(error))


def without_rounding(value: float, cap: float) -> float:
    """Return the value, or the cap if the value exceeds the cap by no more than the rounding of sums."""
    return cap if cap < value <= cap * (1.0 + ROUNDING) else value


def rho_verdict(charges: Sequence[BillLine], cap: float | None, warn_at: float) -> RhoVerdict | None:
    """Return the verdict on the total rho of charges; None without a cap."""
    if cap is None:
        return None
    total = total_rho(charges)
    spent = TotalRho(without_rounding(total.value, cap), total.reason)
    return RhoVerdict(cap, spent, verdict_on(spent.value, cap, warn_at))


def epsilon_of_rho(rho: float, delta: float) -> float:
    """Return an upper bound on the epsilon at `delta` that rho-zCDP implies (Canonne, Kamath, Steinke 2020, arXiv:2004.00010)."""
    from dpcli.mechanisms.stated.renyi import Zcdp

    return Zcdp(rho).approx_dp(delta)


def warning_level(pipeline: Pipeline) -> str:
    """Return the share of the budget above which a cost gets a warning, in words: `warning level (0.8 of the cap)`."""
    assert pipeline.budget is not None
    return f"warning level ({pipeline.budget.warn_at!r} of the cap)"

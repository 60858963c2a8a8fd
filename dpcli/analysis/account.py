"""The main use case: what a pipeline costs under each accountant, the headline, and the budget's verdict."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

from dpcli.accountants.base import Accountant, PrivacyProfile
from dpcli.analysis.account_rows import AccountRow, Quantity, accountant_named, require_known, smallest
from dpcli.analysis.asking import GLANCE, Inquiry, Panel, answered
from dpcli.analysis.rho import OVER, SEVERITY, RhoVerdict, TotalRho, Verdict, judged, rho_verdict, total_rho
from dpcli.base.displayed import Displayed
from dpcli.base.errors import InputError, NotRepresentable
from dpcli.base.registry import ACCOUNTANTS
from dpcli.base.rounding import up
from dpcli.base.values import dataclass
from dpcli.file.pipeline.model import Budget, Pipeline
from dpcli.file.pipeline.resolve import BillLine, repeated, resolve
from dpcli.file.toml.findings import Diagnostic
from dpcli.file.toml.shown import first_names
from dpcli.lint.delta import mark
from dpcli.lint.guarantees import LARGE, LARGE_EPSILON, protection
from dpcli.numerics.work import limited


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
        return tuple(one for one in (self.epsilon, self.rho) if one is not None)

    @property
    def verdict(self) -> Verdict:
        """The worse of both; what is not known outweighs a no, which it may hide."""
        return max((one.verdict for one in self.capped), key=SEVERITY.index)

    @property
    def over(self) -> bool:
        """Return whether the budget does not cover the file; what cannot be certified is not covered."""
        return self.verdict in OVER

    def words(self, decimals: int = 4) -> str:
        """`epsilon 2.5 of 3.0 at delta = 1e-06, rho 0.2 of 0.25`, of which either may be absent."""
        return ", ".join(one.words(decimals) for one in self.capped)

    def wanted(self) -> str:
        """Word the verdict for a refusal: `expected at most epsilon 3 at delta = 1e-06, found 3.1`."""
        if self.epsilon is None:
            return f"expected no more than the cap, found {self.words()}"
        rho = "" if self.rho is None else f", {self.rho.words()}"
        return (
            f"expected at most epsilon {self.epsilon.cap:g} at delta = {self.epsilon.delta!r}, found {up(self.epsilon.spent)}{rho}"
        )


@dataclass(frozen=True, slots=True)
class Account(Displayed):
    """The privacy of one pipeline.

    quantity: what was asked for, given the other: epsilon at a delta, or delta at an epsilon; `at` is that other.
    rows: one for each accountant; where the headline is settled, those with much work were not asked.
    winner: the row that settles the headline, an interval narrower than any other accountant could tell; else that with the smallest bound
        among the sound accountants that apply, None where there is none. Of an adaptive pipeline: its cap, by the filter that holds it,
        None where it has no cap; `rows` are of what it lists.
    epsilon, delta: the guarantee: what was asked for is an upper bound, inf where nothing can be certified, and the other is `at`.
    upper, lower: the headline, of `quantity`; `lower` is None where no accountant certifies one.
    shares: of each charge, in the winner's currency.
    """

    pipeline: Pipeline
    charges: tuple[BillLine, ...]
    quantity: Quantity
    at: float
    rows: tuple[AccountRow, ...]
    winner: AccountRow | None
    lower: float | None
    shares: tuple[float, ...]
    budget: BudgetVerdict | None
    group_size: int = 1

    __repr__ = Displayed.__repr__

    def _line(self) -> str:
        privacy, name = self.pipeline.privacy, self.pipeline.name or self.pipeline.path
        other = "delta" if self.quantity == "epsilon" else "epsilon"
        by = "none" if self.winner is None else self.winner.accountant.name
        at = f"{self.at!r}{mark(self.at, privacy.dataset_size) if self.quantity == 'epsilon' else ''}"
        return (
            f"{self.quantity} <= {up(self.upper)} at {other} = {at}, per {privacy.unit or 'record'!r}, {privacy.adjacency.value}, "
            f"accountant: {by}, pipeline: {name!r}"
        )

    @property
    def upper(self) -> float:
        """The headline: an upper bound, inf where nothing can be certified."""
        return math.inf if self.winner is None else self.winner.upper

    @property
    def epsilon(self) -> float:
        """The guarantee's epsilon, at `delta`: an upper bound, or what was asked at."""
        return self.upper if self.quantity == "epsilon" else self.at

    @property
    def delta(self) -> float:
        """The guarantee's delta, at `epsilon`: what was asked at, or an upper bound."""
        return self.at if self.quantity == "epsilon" else self.upper

    @property
    def listed(self) -> AccountRow | None:
        """The cost of the listed mechanisms, which an adaptive file does not guarantee."""
        return smallest(self.rows) if self.pipeline.privacy.adaptive else self.winner

    @property
    def rho(self) -> TotalRho:
        """The zCDP cost of all charges."""
        return total_rho(self.charges)

    @property
    def exit_code(self) -> int:
        """3 where no finite guarantee can be given, 1 where the budget says no, else 0."""
        if math.isinf(self.upper) or (self.budget is not None and self.budget.verdict == "unknown"):
            return 3
        return 1 if self.budget is not None and self.budget.verdict == "fail" else 0


@limited
def account(
    pipeline: Pipeline,
    accountants: Sequence[str] | None = None,
    delta: float | None = None,
    epsilon: float | None = None,
    group_size: int = 1,
    tolerance: float | None = None,
    runs: int = 1,
) -> Account:
    """Compose a pipeline through each accountant.

    Args:
        pipeline: as returned by `dpcli.load`.
        accountants: names to use; all where None, but where an interval settles the headline (certified from both sides to 1e-9), only
            those that are cheap: by the work that they state, so that the same ones are asked on every machine.
        delta: at which epsilon is asked for; the file's privacy.delta, else its budget.delta, where None.
        epsilon: ask for delta at this epsilon (nats) instead.
        group_size: units of privacy that change together.
        tolerance: relative width of the interval that the grid accountant aims at; 1e-3 where None.
        runs: how often the whole pipeline runs on the same data, by a schedule fixed in advance; delta is that of all runs together.

    Returns:
        Every row's value is an upper bound; the headline is the smallest of the sound ones that apply, to within 1e-9; of an adaptive
        pipeline it is its cap, which is all that holds where outputs choose what comes next, and inf without one. An accountant that
        would take more work than one command may cost (numerics/work.py) has that as its reason.

    Raises:
        InputError: an unknown accountant, no delta to report at, a value out of range, or a pipeline that makes no sense.
    """
    if isinstance(pipeline, str):
        raise InputError(f"pipeline: expected dpcli.load({pipeline!r}), found the text alone")
    if isinstance(accountants, str):
        raise InputError(f"accountants: expected a list such as [{accountants!r}], found the text alone")
    if tolerance is not None and not 1e-9 <= tolerance < 1.0:
        raise InputError(f"expected a tolerance in [1e-9, 1), found {tolerance!r}")
    names = tuple(dict.fromkeys(accountants or ACCOUNTANTS))
    for name in names:
        require_known(name)
    quick = accountants is None and tolerance is None
    panel = Panel(names, quick, tolerance)
    return priced(pipeline, charges_of(pipeline, group_size, runs), panel, delta, epsilon, group_size, runs)


@limited
def headline(
    pipeline: Pipeline, delta: float | None = None, epsilon: float | None = None, group_size: int = 1, runs: int = 1
) -> Account:
    """`account`, for whoever reads the headline alone: where an interval settles it, the other rows are left out; a lower end is looked for
    where every pair is attained."""
    panel = Panel(tuple(ACCOUNTANTS), rows=False)
    return priced(pipeline, charges_of(pipeline, group_size, runs), panel, delta, epsilon, group_size, runs)


def charges_of(pipeline: Pipeline, group_size: int = 1, runs: int = 1) -> tuple[BillLine, ...]:
    """Return the charges of so many runs of a pipeline. Raises InputError as `account` does."""
    return repeated(resolve(pipeline, _checked_group(group_size)), runs)


def priced(
    pipeline: Pipeline,
    charges: tuple[BillLine, ...],
    panel: Panel,
    delta: float | None = None,
    epsilon: float | None = None,
    group_size: int = 1,
    runs: int = 1,
) -> Account:
    """The account of charges that are told as those of `pipeline`. Raises InputError as `account` does."""
    quantity: Quantity = "delta" if epsilon is not None else "epsilon"
    at = _checked_epsilon(epsilon) if epsilon is not None else _chosen_delta(pipeline, delta)
    inquiry = Inquiry(charges, pipeline.privacy.adaptive, quantity, at)
    answer = answered(inquiry, panel)
    rows, winner = answer.rows, answer.winner
    headed = winner
    if pipeline.privacy.adaptive:
        from dpcli.analysis.promised import promised

        headed = promised(pipeline, winner, quantity, at, group_size, runs)
    lowers = [row.bound.lower for row in rows if row.bound is not None and row.bound.lower is not None and row.accountant.sound]
    lower = max(lowers, default=None)
    return Account(
        pipeline,
        charges,
        quantity,
        at,
        rows,
        headed,
        None if lower is None or headed is None else min(lower, headed.upper),
        _shares(answer.profile, quantity, at, winner, len(charges)),
        _budget(pipeline, inquiry, panel, winner),
        group_size,
    )


def sound_profiles(
    pipeline: Pipeline, accountants: Sequence[str] | None = None, group_size: int = 1
) -> tuple[tuple[Accountant, PrivacyProfile], ...]:
    """The profiles of the sound accountants (all of them where None) that may add this pipeline up, to ask of many times.

    Raises InputError as `account` does; a profile itself raises NotRepresentable where it has no answer.
    """
    from dpcli.analysis.promised import binding_charges

    charges = binding_charges(pipeline, _checked_group(group_size))
    steps = tuple((charge.mechanism, charge.count) for charge in charges)
    chosen = [accountant_named(name) for name in dict.fromkeys(accountants or ACCOUNTANTS)]
    return tuple((accountant, accountant.profile(steps).tuned(None, GLANCE)) for accountant in chosen if accountant.sound)


def attained(pipeline: Pipeline, group_size: int = 1) -> bool:
    """Return whether lower bounds on the dominating pairs are lower bounds on the pipeline; otherwise they must not be shown."""
    return not pipeline.privacy.adaptive and all(charge.mechanism.attained() for charge in resolve(pipeline, group_size))


def _chosen_delta(pipeline: Pipeline, delta: float | None) -> float:
    for candidate in (delta, pipeline.privacy.delta, pipeline.budget.delta if pipeline.budget else None):
        if candidate is not None:
            if not 0.0 <= candidate < 1.0:
                raise InputError(f"expected a delta in [0, 1), found {candidate!r}")
            return candidate
    raise InputError(
        f"{pipeline.path or '<pipeline>'}: privacy.delta: expected a delta in the file or by --delta (well below 1 / number of records); "
        "neither states one"
    )


def _checked_epsilon(epsilon: float) -> float:
    if not 0.0 <= epsilon < math.inf:
        raise InputError(f"expected a finite epsilon >= 0, found {epsilon!r}")
    return epsilon


def _checked_group(group_size: int) -> int:
    if not 1 <= group_size <= 10**6:
        raise InputError(f"expected a group size from 1 to 10^6, found {group_size!r}")
    return group_size


def _shares(
    profile: PrivacyProfile | str | None, quantity: Quantity, at: float, winner: AccountRow | None, count: int
) -> tuple[float, ...]:
    if winner is None or profile is None or isinstance(profile, str):
        return (math.nan,) * count
    if count == 1 and winner.upper > 0.0:
        return (1.0,)
    delta = winner.upper if quantity == "delta" else at
    try:
        with winner.accountant.within_allowance():
            return profile.shares(delta)
    except NotRepresentable:
        return (math.nan,) * count


def _budget(pipeline: Pipeline, inquiry: Inquiry, panel: Panel, winner: AccountRow | None) -> BudgetVerdict | None:
    """Return the verdict, None without a cap or if the cap on epsilon holds at no stated delta."""
    cap = pipeline.budget
    if cap is None:
        return None
    result = BudgetVerdict(_epsilon(pipeline, cap, inquiry, panel, winner), rho_verdict(inquiry.charges, cap.rho, cap.warn_at))
    return result if result.capped else None


def _epsilon(pipeline: Pipeline, cap: Budget, inquiry: Inquiry, panel: Panel, winner: AccountRow | None) -> EpsilonVerdict | None:
    quantity, at = inquiry.quantity, inquiry.at
    delta = cap.delta if cap.delta is not None else pipeline.privacy.delta
    if delta is None and quantity == "epsilon":
        delta = at
    if cap.epsilon is None or delta is None:
        return None
    if quantity == "epsilon" and delta == at:
        spent = math.inf if winner is None else winner.upper
    else:
        best = answered(replace(inquiry, quantity="epsilon", at=delta), replace(panel, rows=False)).winner
        spent = math.inf if best is None else best.upper
    return EpsilonVerdict(cap.epsilon, delta, spent, judged(spent, cap.epsilon, cap.warn_at))


def large_epsilon(account: Account, diagnostics: Iterable[Diagnostic] = ()) -> tuple[Diagnostic, ...]:
    """Return a warning of a finite epsilon above 10 of one unit; of the file as a whole, which has no line.

    diagnostics: those of lint; where one of them is DP304, of an epsilon that the file states, this is not said a second time.
    """
    epsilon = account.upper
    if account.quantity != "epsilon" or account.group_size > 1 or not LARGE < epsilon < math.inf:
        return ()
    if any(one.rule == LARGE_EPSILON.code for one in diagnostics):
        return ()
    message = protection(epsilon, up(epsilon), account.delta or 0.0)
    return (Diagnostic(LARGE_EPSILON.code, LARGE_EPSILON.severity, message, account.pipeline.path or "<file>"),)


def needed_delta(pipeline: Pipeline, delta: float | None) -> str:
    """Explain that no amount of the file's noise has a finite epsilon at delta = 0; "" for noise that has."""
    names = [entry.name for entry in pipeline.mechanisms if entry.spec.needs_delta] if delta == 0.0 else []
    if not names:
        return ""
    return (
        f"delta = 0: no epsilon is finite there for {first_names(names)}, however much noise there is: "
        "state a delta > 0, such as 1e-6 (--delta, or privacy.delta)"
    )

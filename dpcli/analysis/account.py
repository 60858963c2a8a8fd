"""The account of a pipeline: its cost by each accountant, the headline bound, and the verdict on its budget.

The pipeline becomes *charges* (file/pipeline/resolve.py): mechanisms with the number of their runs. A *panel* of accountants bounds their
composition (inquiry.py); each answers with a *row*, a bound or the reason why it has none (account_rows.py). The *headline* is the smallest
upper bound of a sound accountant or, for an adaptive pipeline, the cap that a privacy filter enforces (adaptive_cap.py). Either delta is
fixed and epsilon bounded, or the reverse (`quantity` and `at`).

`account` fills the whole table. `headline` finds the same headline with less work, for the gate, the ledger and training.
`account_of_charges` serves callers that have charges of their own. Accountants bound a *dominating pair* of each mechanism, two output
distributions at least as easy to tell apart as those of any neighbouring datasets. A lower bound is shown only if the mechanisms *attain*
their pairs (`attains_pairs`), or if it comes from others that the file allows (witnesses.py). A function with `@limited` may take the work
of one command (numerics/work.py), in all that it calls; an accountant that would need more refuses.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

from dpcli.accountants.base import Accountant, PrivacyProfile, Steps
from dpcli.analysis.account_rows import AccountRow, Quantity, accountant_named, certified_lower, require_known, smallest
from dpcli.analysis.budget_verdict import BudgetVerdict, EpsilonVerdict, TotalRho, rho_verdict, total_rho, verdict_on
from dpcli.analysis.inquiry import GRID_SECONDS, Answers, Inquiry, Panel, answers_to
from dpcli.base.displayed import Displayed
from dpcli.base.errors import InputError, NotRepresentable
from dpcli.base.registry import ACCOUNTANTS
from dpcli.base.rounding import up
from dpcli.base.values import dataclass
from dpcli.file.pipeline.model import Budget, Pipeline
from dpcli.file.pipeline.resolve import BillLine, charges_of_runs, resolve, steps_of
from dpcli.file.toml.findings import Diagnostic
from dpcli.file.toml.shown import first_names
from dpcli.lint.delta import delta_mark
from dpcli.lint.guarantees import LARGE, LARGE_EPSILON, protection
from dpcli.numerics.work import limited

MOST_UNITS = 10**6  # largest size of a group; arbitrary


@dataclass(frozen=True, slots=True)
class Account(Displayed):
    """The privacy cost of one pipeline.

    charges: the mechanisms of the pipeline, each with its number of runs.
    quantity: the bounded quantity: "epsilon" at the delta `at`, or "delta" at the epsilon `at`.
    at: the fixed delta or epsilon.
    rows: a row for each accountant. If an interval settles the headline (no other accountant could lower it), slow ones are not run.
    winner: the row that gives the headline: an interval that settles it, or the smallest sound bound. None if no accountant applies. For an
        adaptive pipeline it is the cap with the filter that enforces it, or None without a cap; `rows` then bound the cost of the
        mechanisms in the file.
    epsilon, delta: the guarantee. One of them is `at`, and the other is an upper bound, inf if nothing can be certified.
    upper, lower: bounds on `quantity`. `lower` is None if no accountant certifies one.
    shares: the share of each charge in the total cost, as the winning accountant measures it.
    budget: the verdict on the budget; None without a budget.
    group_size: number of units of privacy that change together.
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

    __repr__ = Displayed.__repr__  # stated here, because the dataclass would make a `__repr__` with all fields

    def _line(self) -> str:
        """Return the text of the `repr`."""
        privacy = self.pipeline.privacy
        fixed = f"epsilon = {self.at!r}"
        if self.quantity == "epsilon":
            fixed = f"delta = {self.at!r}{delta_mark(self.at, privacy.dataset_size)}"
        accountant = "none" if self.winner is None else self.winner.accountant.name
        return (
            f"{self.quantity} <= {up(self.upper)} at {fixed}, per {privacy.unit or 'record'!r}, {privacy.adjacency.value}, "
            f"accountant: {accountant}, pipeline: {self.pipeline.name or self.pipeline.path!r}"
        )

    @property
    def upper(self) -> float:
        """The headline: an upper bound on `quantity`; inf if nothing can be certified."""
        return math.inf if self.winner is None else self.winner.upper

    @property
    def epsilon(self) -> float:
        """The epsilon of the guarantee: `at` if it is fixed, otherwise an upper bound at `delta`."""
        return self.upper if self.quantity == "epsilon" else self.at

    @property
    def delta(self) -> float:
        """The delta of the guarantee: `at` if it is fixed, otherwise an upper bound at `epsilon`."""
        return self.at if self.quantity == "epsilon" else self.upper

    @property
    def listed(self) -> AccountRow | None:
        """The row with the cost of the mechanisms in the file. For an adaptive file this cost is not the guarantee."""
        return smallest(self.rows) if self.pipeline.privacy.adaptive else self.winner

    @property
    def rho(self) -> TotalRho:
        """The zCDP cost of all charges."""
        return total_rho(self.charges)

    @property
    def exit_code(self) -> int:
        """The exit code: 3 if no finite guarantee can be certified, 1 if the budget is exceeded, otherwise 0."""
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
        pipeline: a pipeline as returned by `dpcli.load`.
        accountants: names of the accountants to run. None runs all of them, unless an interval settles the headline (its bounds agree to
            1e-9). Then only cheap accountants are run in addition. They are chosen by the work that they state, not by a clock, so every
            machine runs the same accountants.
        delta: the delta at which epsilon is bounded; if None, the file's privacy.delta, else its budget.delta.
        epsilon: an epsilon in nats at which delta is bounded instead; `delta` is then not used.
        group_size: number of units of privacy that change together.
        tolerance: relative width of the interval that the grid accountant aims at; 1e-3 if None.
        runs: number of runs of the whole pipeline on the same data, by a schedule fixed in advance. Delta is that of all runs together.

    Returns:
        The account. The rows of sound accountants are upper bounds. The other rows are approximations, which the headline ignores. The
        headline is the smallest sound bound, to within 1e-9. For an adaptive pipeline it is the cap, which holds for every choice based on
        outputs, or inf without a cap. If an accountant would take more work than one command may cost (numerics/work.py), its row gives
        this as the reason.

    Raises:
        InputError: an accountant is unknown, no delta is stated, a value is out of range, or the pipeline contradicts itself.
        InternalError: a certified lower bound is above another sound upper bound.
    """
    # A text is the likely mistake in place of a pipeline, and in place of a list, whose letters would be taken for names.
    if isinstance(pipeline, str):
        raise InputError(f"pipeline: expected dpcli.load({pipeline!r}), found the text alone")
    if isinstance(accountants, str):
        raise InputError(f"accountants: expected a list such as [{accountants!r}], found the text alone")
    if tolerance is not None and not 1e-9 <= tolerance < 1.0:
        raise InputError(f"expected a tolerance in [1e-9, 1), found {tolerance!r}")
    panel = panel_of(accountants, tolerance)
    return account_of_charges(pipeline, charges_of(pipeline, group_size, runs), panel, delta, epsilon, group_size, runs)


@limited
def headline(
    pipeline: Pipeline, delta: float | None = None, epsilon: float | None = None, group_size: int = 1, runs: int = 1
) -> Account:
    """Return an account whose headline is that of `account`, with less work.

    It has fewer rows. `lower` is missing unless all mechanisms attain their dominating pairs and an accountant certifies it.
    """
    panel = Panel(tuple(ACCOUNTANTS), with_rows=False)
    return account_of_charges(pipeline, charges_of(pipeline, group_size, runs), panel, delta, epsilon, group_size, runs)


def panel_of(accountants: Sequence[str] | None, tolerance: float | None = None, with_rows: bool = True) -> Panel:
    """Return the panel of the named accountants, or of all accountants if None. Raises InputError for an unknown name."""
    names = tuple(dict.fromkeys(accountants or ACCOUNTANTS))
    for name in names:
        require_known(name)
    # A tolerance is for the grid accountant, which might not be run if another one settles the headline.
    return Panel(names, quick=accountants is None and tolerance is None, tolerance=tolerance, with_rows=with_rows)


def charges_of(pipeline: Pipeline, group_size: int = 1, runs: int = 1) -> tuple[BillLine, ...]:
    """Return the charges for a number of runs of a pipeline. Raises InputError if the pipeline contradicts itself."""
    return charges_of_runs(resolve(pipeline, _checked_group(group_size)), runs)


def account_of_charges(
    pipeline: Pipeline,
    charges: tuple[BillLine, ...],
    panel: Panel,
    delta: float | None = None,
    epsilon: float | None = None,
    group_size: int = 1,
    runs: int = 1,
) -> Account:
    """Return the account of a pipeline with these charges. Raises InputError if delta is missing or a value is invalid.

    charges: the charges that are composed: of `runs` runs of the pipeline, or of several pipelines together (dataset_sum.py).
    group_size, runs: the numbers for which the charges were made. They are needed again for the cap of an adaptive pipeline.
    """
    quantity: Quantity = "delta" if epsilon is not None else "epsilon"
    at = _checked_epsilon(epsilon) if epsilon is not None else _chosen_delta(pipeline, delta)
    inquiry = Inquiry(charges, pipeline.privacy.adaptive, quantity, at)
    answers = answers_to(inquiry, panel)
    winner = answers.winner  # for an adaptive pipeline, this is only the cost of the mechanisms in the file
    if pipeline.privacy.adaptive:
        from dpcli.analysis.adaptive_cap import row_of_cap

        winner = row_of_cap(pipeline, answers.winner, quantity, at, group_size, runs)
    lower = certified_lower(answers.rows, winner)
    shares = _shares(answers, inquiry)
    budget = _budget_verdict(pipeline, inquiry, panel, answers.winner)
    return Account(pipeline, charges, quantity, at, answers.rows, winner, lower, shares, budget, group_size)


def sound_profiles(
    pipeline: Pipeline, accountants: Sequence[str] | None = None, group_size: int = 1
) -> tuple[tuple[Accountant, PrivacyProfile], ...]:
    """Return pairs of a sound accountant and its privacy profile of a pipeline. A profile may be evaluated many times.

    accountants: names of the accountants, of which unsound ones are skipped; None for all.

    Raises InputError if an accountant is unknown, or the pipeline contradicts itself.

    Evaluating a profile raises NotRepresentable if the accountant has no answer.
    """
    from dpcli.analysis.adaptive_cap import binding_charges

    return profiles_of(steps_of(binding_charges(pipeline, _checked_group(group_size))), accountants)


def profiles_of(steps: Steps, accountants: Sequence[str] | None = None) -> tuple[tuple[Accountant, PrivacyProfile], ...]:
    """Return pairs of a sound accountant and its privacy profile of a composition, as `sound_profiles` does for a pipeline."""
    chosen = [accountant_named(name) for name in dict.fromkeys(accountants or ACCOUNTANTS)]
    return tuple(
        (accountant, accountant.profile(steps).tuned(tolerance=None, seconds=GRID_SECONDS))
        for accountant in chosen
        if accountant.sound
    )


def attains_pairs(pipeline: Pipeline, group_size: int = 1) -> bool:
    """Return whether all mechanisms attain their dominating pairs, so that lower bounds for the pairs are true for the pipeline."""
    return not pipeline.privacy.adaptive and all(charge.mechanism.attained() for charge in resolve(pipeline, group_size))


def stated_delta(pipeline: Pipeline) -> float | None:
    """Return the delta at which a file's epsilon is reported: privacy.delta, else budget.delta; None if neither is stated."""
    if pipeline.privacy.delta is not None or pipeline.budget is None:
        return pipeline.privacy.delta
    return pipeline.budget.delta


def _chosen_delta(pipeline: Pipeline, delta: float | None) -> float:
    """Return `delta`, or the file's if it is None. Raises InputError if there is none, or if it is not in [0, 1)."""
    chosen = stated_delta(pipeline) if delta is None else delta
    if chosen is None:
        raise InputError(
            f"{pipeline.path or '<pipeline>'}: privacy.delta: expected a delta in the file or by --delta (well below 1 / number of "
            "records); neither states one"
        )
    if not 0.0 <= chosen < 1.0:
        raise InputError(f"expected a delta in [0, 1), found {chosen!r}")
    return chosen


def _checked_epsilon(epsilon: float) -> float:
    """Return the epsilon. Raises InputError if it is negative or not finite."""
    if not 0.0 <= epsilon < math.inf:
        raise InputError(f"expected a finite epsilon >= 0, found {epsilon!r}")
    return epsilon


def _checked_group(group_size: int) -> int:
    """Return the group size. Raises InputError if it is not from 1 to MOST_UNITS."""
    if not 1 <= group_size <= MOST_UNITS:
        raise InputError(f"expected a group size from 1 to 10^6, found {group_size!r}")
    return group_size


def _shares(answers: Answers, inquiry: Inquiry) -> tuple[float, ...]:
    """Return the share of each charge in the total cost; NaN for all if no accountant has a bound, or the winning one has no shares."""
    winner, profile = answers.winner, answers.profile
    unknown = (math.nan,) * len(inquiry.charges)
    if winner is None or profile is None:
        return unknown
    if len(inquiry.charges) == 1 and winner.upper > 0.0:
        return (1.0,)  # the only charge has the whole cost
    delta = winner.upper if inquiry.quantity == "delta" else inquiry.at
    try:
        with winner.accountant.within_allowance():
            return profile.shares(delta)
    except NotRepresentable:
        return unknown


def _budget_verdict(pipeline: Pipeline, inquiry: Inquiry, panel: Panel, winner: AccountRow | None) -> BudgetVerdict | None:
    """Return the verdict on the budget; None if it has no cap, or only a cap on epsilon without a delta."""
    budget = pipeline.budget
    if budget is None:
        return None
    epsilon = _epsilon_verdict(pipeline, budget, inquiry, panel, winner)
    result = BudgetVerdict(epsilon, rho_verdict(inquiry.charges, budget.rho, budget.warn_at))
    return result if result.capped else None


def _epsilon_verdict(
    pipeline: Pipeline, budget: Budget, inquiry: Inquiry, panel: Panel, winner: AccountRow | None
) -> EpsilonVerdict | None:
    """Return the verdict on the cap on epsilon, at the delta of the cap; None if the cap or its delta is missing.

    winner: the row of the smallest sound bound for `inquiry`. It is used again if the cap is at the same delta.
    """
    delta = pipeline.cap_delta
    if delta is None and inquiry.quantity == "epsilon":
        delta = inquiry.at
    if budget.epsilon is None or delta is None:
        return None
    inquiry_at_cap = replace(inquiry, quantity="epsilon", at=delta)
    best = winner if inquiry_at_cap == inquiry else answers_to(inquiry_at_cap, replace(panel, with_rows=False)).winner
    spent = math.inf if best is None else best.upper
    return EpsilonVerdict(budget.epsilon, delta, spent, verdict_on(spent, budget.epsilon, budget.warn_at))


def large_epsilon(account: Account, diagnostics: Iterable[Diagnostic] = ()) -> tuple[Diagnostic, ...]:
    """Return a warning if the epsilon of a single unit is finite and above LARGE, unless `diagnostics` contain this warning already.

    The limit and the message are those of the lint rule LARGE_EPSILON.
    """
    epsilon = account.upper
    if account.quantity != "epsilon" or account.group_size > 1 or not LARGE < epsilon < math.inf:
        return ()
    if any(diagnostic.rule == LARGE_EPSILON.code for diagnostic in diagnostics):
        return ()
    message = protection(epsilon, up(epsilon), account.delta)
    return (Diagnostic(LARGE_EPSILON.code, LARGE_EPSILON.severity, message, account.pipeline.path or "<file>"),)


def why_delta_is_needed(pipeline: Pipeline, delta: float | None) -> str:
    """Return a message that a delta is needed if delta is 0 and the noise of the file has no finite epsilon there; "" otherwise."""
    names = [entry.name for entry in pipeline.mechanisms if entry.spec.needs_delta] if delta == 0.0 else []
    if not names:
        return ""
    return (
        f"delta = 0: no amount of noise gives {first_names(names)} a finite epsilon at this delta: "
        "state a delta > 0, such as 1e-6 (--delta, or privacy.delta)"
    )

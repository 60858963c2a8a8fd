"""The choice of the accountants that are run for an account, and their answers.

An `Inquiry` is the question, and a `Panel` says whom to ask. Two accountants may answer with an interval so narrow that nobody can improve
it (`SETTLING` in accountants/plugin.py); they run first, and if one of them settles the headline, only cheap accountants are run in
addition, for the table. Otherwise all are run, and share one allowance of work. A lower bound is computed for a dominating pair, and holds
for a mechanism only if some pair of neighbouring datasets really has these two laws (the mechanism *attains* its pair). For a mechanism
that does not, `_witnesses` gives another one that the file allows too and that does.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property

from dpcli.accountants.base import Accountant, Bound, PrivacyProfile, Steps
from dpcli.accountants.plugin import BRACKETING, SETTLING
from dpcli.analysis.account_rows import (
    AccountRow,
    Quantity,
    accountant_named,
    agree,
    certified_lower,
    cross_check,
    is_certified,
    row_of,
    smallest,
    with_names,
    without_lower,
)
from dpcli.base.errors import InternalError, NotRepresentable
from dpcli.base.registry import ACCOUNTANTS
from dpcli.base.values import dataclass
from dpcli.file.pipeline.resolve import BillLine, steps_of
from dpcli.numerics.arrays import Array, np
from dpcli.numerics.work import SHARE_EACH, limited

SETTLED = 1e-9  # largest relative width of an interval that settles the headline
CHEAP_CELLS = 4e5  # work that all cheap accountants may take together, about 20 ms
MOST_MECHANISMS = 1_500  # largest number of different mechanisms composed exactly; more are grouped into dominating steps
GOOD_LOWER = 0.9  # share of the upper bound at which a lower bound is good enough
# Seconds that the grid accountant may take: by default, if no accountant has an interval, and if the user chose the accountants.
GRID_SECONDS, GRID_SECONDS_ALONE, GRID_SECONDS_NAMED = 0.1, 1.0, 4.0

# The reason why any other accountant has no bound for an adaptive file (`Inquiry.may_ask`).
ONE_FILTER = (
    "privacy.adaptive is true: only one privacy filter applies, zcdp or, at delta = 0, basic "
    "(a ledger offers more filters for runs chosen one after another: dpcli budget init --filter)"
)

ORDER_SHARES = (1.0, 0.3, 0.1, 0.03, 0.003)  # shares of (informative order - 1) that are tried, one after the other
ORDERS: Array = 1.0 + 2.0 ** np.arange(-6.0, 16.0, 0.25)  # Renyi orders among which the informative one is chosen


def settles(bound: Bound | None) -> bool:
    """Return whether the upper and lower bounds are so close that the upper bound can be the headline."""
    if bound is None or bound.lower is None or not math.isfinite(bound.upper):
        return False
    return bound.upper - bound.lower <= SETTLED * bound.upper


def cheap_accountants(settling: Accountant, others: Sequence[Accountant], parts: int) -> Iterator[Accountant]:
    """Yield the accountants that are run although the headline is settled, the cheapest first.

    Their total work is at most CHEAP_CELLS, or at most the work of the settling accountant if that is more. The choice depends on the work
    that each accountant states and not on a clock, so every machine runs the same accountants.
    """
    remaining_cells = max(CHEAP_CELLS, settling.cells(parts))
    for accountant in sorted(others, key=lambda accountant: accountant.cells(parts)):
        remaining_cells -= accountant.cells(parts)
        if remaining_cells < 0.0:
            return
        yield accountant


@dataclass(frozen=True, slots=True)
class Panel:
    """The accountants to run.

    quick: whether an interval may settle the headline so that other accountants are not run. It is True if the user named none.
    tolerance: relative width at which the grid accountant stops; None for its default.
    with_rows: whether to compute rows of other accountants although the headline is settled. If the headline is not settled, and the
        bounds need not be attained, it also decides whether a lower bound for the headline is computed.
    """

    names: tuple[str, ...]
    quick: bool = True
    tolerance: float | None = None
    with_rows: bool = True


@dataclass(frozen=True)
class Inquiry:
    """The question to each accountant: an upper bound on the cost of the charges.

    charges: the mechanisms with their numbers of runs.
    adaptive: whether earlier outputs choose later mechanisms.
    quantity: the quantity to bound, epsilon or delta.
    at: the value of the other one of epsilon and delta, which is fixed.
    """

    charges: tuple[BillLine, ...]
    adaptive: bool
    quantity: Quantity
    at: float

    @cached_property
    def charged_steps(self) -> Steps:
        """The steps as they are charged, before any grouping."""
        return steps_of(self.charges)

    @cached_property
    def grouped(self) -> tuple[Steps, Steps] | None:
        """Two shorter lists of steps: one that dominates the charged steps, and one that they dominate. None if the steps are few."""
        if len(self.charged_steps) <= MOST_MECHANISMS:
            return None
        from dpcli.accountants.rounded_steps import rounded_steps

        return rounded_steps(self.charged_steps, MOST_MECHANISMS)

    @property
    def steps(self) -> Steps:
        """The steps that are composed for an upper bound."""
        return self.charged_steps if self.grouped is None else self.grouped[0]

    @property
    def dominated_steps(self) -> Steps:
        """The steps that are composed for a lower bound."""
        return self.charged_steps if self.grouped is None else self.grouped[1]

    @cached_property
    def composed_charges(self) -> tuple[BillLine, ...]:
        """The charges with the mechanisms that are composed in place of their own. Reasons take the names of mechanisms from them."""
        if self.grouped is None:
            return self.charges
        return tuple(replace(charge, mechanism=m) for charge, (m, _) in zip(self.charges, self.steps, strict=True))

    @cached_property
    def attained(self) -> bool:
        """Return whether a lower bound for the dominating pairs of the steps is a lower bound for the pipeline."""
        return self.grouped is None and all_attained(self.charged_steps)

    def row(self, accountant: Accountant, profile: PrivacyProfile, share: float = SHARE_EACH) -> AccountRow:
        """Return the row of an accountant. If it has no bound, the row's reason names the mechanisms concerned."""
        return with_names(row_of(accountant, profile, self.quantity, self.at, share), self.composed_charges)

    def may_ask(self, accountant: Accountant) -> bool:
        """Return whether an accountant may bound the charges. Only one may bound those of an adaptive pipeline.

        An adaptive pipeline is bounded by one privacy filter, which is chosen before the first run. The filter limits rho if delta > 0,
        and epsilon if delta is 0. To take the smaller result of two filters is not sound, because the outputs of earlier runs decide
        which is smaller. To split delta anew for each file is not sound either: the true delta reaches 1.99 times the stated delta.
        """
        pure = self.quantity == "epsilon" and self.at == 0.0
        return not self.adaptive or accountant.name == ("basic" if pure else "zcdp")

    def profile(self, accountant: Accountant, tolerance: float | None, seconds: float) -> PrivacyProfile:
        """Return the privacy profile of the steps by an accountant that may be asked."""
        if self.adaptive:  # the filter would have to limit the sum of the steps' stated deltas too, so these are refused
            accountant = replace(accountant, finite=False)
        return accountant.profile(self.steps).tuned(tolerance, seconds)


def all_attained(steps: Steps) -> bool:
    """Return whether some pair of datasets attains the dominating pair of every step."""
    return all(mechanism.attained() for mechanism, _ in steps)


@dataclass(frozen=True, slots=True)
class Answers:
    """The answers of all accountants.

    rows: a row for each accountant, in the order of the panel. If the headline is settled and `with_rows` is False, there are only the rows
        of the accountants that were run, in the order of SETTLING.
    winner: the row that gives the headline; None if no row does.
    profile: the privacy profile of the winner.
    """

    rows: tuple[AccountRow, ...]
    winner: AccountRow | None
    profile: PrivacyProfile | None


def answers_to(inquiry: Inquiry, panel: Panel) -> Answers:
    """Return the answers of the accountants. If one of them settles the headline, only cheap accountants are run in addition."""
    tried: list[AccountRow] = []
    if panel.quick and inquiry.attained and not inquiry.adaptive:
        for name in SETTLING:
            accountant = accountant_named(name)
            profile = inquiry.profile(accountant, None, GRID_SECONDS)
            row = inquiry.row(accountant, profile)
            tried.append(row)
            if settles(row.bound):
                rows = _with_cheap_rows(inquiry, panel, row, tried) if panel.with_rows else tuple(tried)
                cross_check(rows)
                return Answers(rows, row, profile)
    return _answers_of_all(inquiry, panel, {row.accountant.name: row for row in tried})


def _with_cheap_rows(inquiry: Inquiry, panel: Panel, settling: AccountRow, tried: Sequence[AccountRow]) -> tuple[AccountRow, ...]:
    """Return a row for each accountant of the panel. Cheap ones are run; the rows of others say that they were not run."""
    others = [accountant_named(name) for name in panel.names if name not in {row.accountant.name for row in tried}]
    different_mechanisms = len({mechanism for mechanism, _ in inquiry.steps})
    reason = f"not run: {settling.accountant.name} is certified to within 1e-9 (run with -a all)"
    rows = {accountant.name: AccountRow(accountant, None, reason, consulted=False) for accountant in others}
    rows |= {row.accountant.name: row for row in tried}
    for accountant in cheap_accountants(settling.accountant, others, different_mechanisms):
        rows[accountant.name] = inquiry.row(accountant, inquiry.profile(accountant, None, GRID_SECONDS))
    return tuple(rows[name] for name in panel.names)


def _answers_of_all(inquiry: Inquiry, panel: Panel, known: Mapping[str, AccountRow]) -> Answers:
    """Run every accountant once and return the answers.

    Accountants that work on the sum of all steps run first. Accountants that handle each step separately run next, and heavy accountants
    run last. All accountants share one allowance of work, so none is run twice.

    known: rows of accountants that have been run already.
    """
    accountants = [accountant_named(name) for name in panel.names]
    share = SHARE_EACH if len(accountants) > 1 else 1.0
    seconds = GRID_SECONDS if panel.quick else GRID_SECONDS_NAMED
    allowed = [accountant for accountant in accountants if inquiry.may_ask(accountant)]
    profiles = {accountant.name: inquiry.profile(accountant, panel.tolerance, seconds) for accountant in allowed}
    answers = {accountant.name: AccountRow(accountant, None, ONE_FILTER) for accountant in accountants if accountant not in allowed}
    answers |= known
    for accountant in sorted(allowed, key=lambda accountant: (accountant.heavy, accountant.stepwise)):
        if accountant.name not in answers:
            answers[accountant.name] = inquiry.row(accountant, profiles[accountant.name], share)
    rows = [answers[name] for name in panel.names]
    if panel.quick and not any(map(is_certified, rows)):
        rows, profiles = _with_more_time(inquiry, rows, profiles, share)
    if not inquiry.attained:
        rows = [without_lower(row) for row in rows]
    winner = smallest(rows)
    profile_of_winner = None if winner is None else profiles[winner.accountant.name]
    if winner is not None and panel.with_rows and not inquiry.attained:
        bracketed = _with_lower(winner, inquiry)
        rows, winner = [bracketed if row is winner else row for row in rows], bracketed
    cross_check(rows)
    return Answers(tuple(rows), winner, profile_of_winner)


def _with_more_time(
    inquiry: Inquiry, rows: Sequence[AccountRow], profiles: Mapping[str, PrivacyProfile], share: float
) -> tuple[list[AccountRow], dict[str, PrivacyProfile]]:
    """Return the rows and profiles after more time. Accountants without a bound are run again if more time changes their profile.

    The profiles of all accountants are replaced by those with more time, also of accountants whose rows are unchanged.
    """
    longer = {name: profile.tuned(None, GRID_SECONDS_ALONE) for name, profile in profiles.items()}
    result = []
    for row in rows:
        name = row.accountant.name
        is_worth_a_run = row.bound is None and longer.get(name) is not profiles.get(name)
        result.append(inquiry.row(row.accountant, longer[name], share) if is_worth_a_run else row)
    return result, longer


def _with_lower(winner: AccountRow, inquiry: Inquiry) -> AccountRow:
    """Return the row with a lower bound from mechanisms that the file allows and that attain their dominating pairs.

    The row is returned unchanged if no such mechanism is known for some entry.
    """
    lower = 0.0
    with suppress(NotRepresentable):
        for steps in _attained_steps(inquiry):
            lower = max(lower, _lower_of(steps, inquiry))
            if lower >= GOOD_LOWER * winner.upper:
                break
    if not lower > 0.0 or winner.bound is None:
        return winner
    if not agree(lower, winner.bound.upper):
        raise InternalError(
            f"some mechanism that the file allows costs {lower!r}, more than {winner.bound.upper!r}: this is a bug in dpcli, so "
            "no number is reported"
        )
    return replace(winner, bound=replace(winner.bound, lower=min(lower, winner.bound.upper)))


def _attained_steps(inquiry: Inquiry) -> Iterator[Steps]:
    """Yield steps that the file allows and that attain their dominating pairs. An adaptive file, or delta = 0, yields none."""
    if inquiry.adaptive or (inquiry.quantity == "epsilon" and inquiry.at == 0.0):
        return
    if all_attained(inquiry.charged_steps):
        yield inquiry.dominated_steps
    else:
        yield from _witnesses(inquiry)


def _lower_of(steps: Steps, inquiry: Inquiry) -> float:
    """Return a certified lower bound for steps that attain their dominating pairs; 0 if no accountant certifies one."""
    for name in BRACKETING:
        accountant = accountant_named(name)
        profile = accountant.profile(steps).tuned(None, GRID_SECONDS_ALONE)
        bound = row_of(accountant, profile, inquiry.quantity, inquiry.at, SHARE_EACH).bound
        if bound is not None and bound.lower is not None:
            return bound.lower
    return 0.0


@limited
def tightest(steps: Steps, delta: float) -> AccountRow | None:
    """Return the smallest sound upper bound on epsilon at `delta` for steps fixed in advance; None if no bound is finite.

    If all steps attain their dominating pairs, the row has the largest lower bound of all accountants.
    """

    def row(name: str) -> AccountRow:
        accountant = accountant_named(name)
        return row_of(accountant, accountant.profile(steps).tuned(None, GRID_SECONDS), "epsilon", delta)

    attained = all_attained(steps)
    tried: dict[str, AccountRow] = {}
    for name in SETTLING if attained else ():
        tried[name] = row(name)
        if settles(tried[name].bound):
            return tried[name]
    rows = [tried.get(name) or row(name) for name in ACCOUNTANTS]
    cross_check(rows if attained else list(map(without_lower, rows)))
    winner = smallest(rows)
    if winner is None or winner.bound is None or not attained:  # bounds for different dominating pairs do not combine
        return winner
    return replace(winner, bound=replace(winner.bound, lower=certified_lower(rows, winner)))


def _witnesses(inquiry: Inquiry) -> Iterator[Steps]:
    """Yield costly steps that the file allows and that attain their dominating pairs; none if an entry has no such mechanism.

    Any such steps give a valid lower bound. The mechanisms have the largest Renyi divergence at the order that gives the tightest
    conversion, and then at smaller orders, which give better bounds for few steps.
    """
    steps = inquiry.dominated_steps
    informative_order = _informative_order(steps, inquiry)
    tried: set[Steps] = set()
    for share in ORDER_SHARES:
        order = 1.0 + share * (informative_order - 1.0)
        candidates = tuple((mechanism.witness(order), count) for mechanism, count in steps)
        witnesses = tuple((witness, count) for witness, count in candidates if witness is not None)
        if len(witnesses) == len(steps) and witnesses not in tried:
            tried.add(witnesses)
            yield witnesses


def _informative_order(steps: Steps, inquiry: Inquiry) -> float:
    """Return the Renyi order that converts to the smallest epsilon at the given delta, or to the smallest delta at the given epsilon."""
    z = ORDERS - 1.0
    rdp = np.zeros(len(ORDERS))
    with np.errstate(all="ignore"):
        for mechanism, count in steps:
            rdp += count * np.asarray(mechanism.split_failure()[1].rdp(ORDERS))
        if inquiry.quantity == "epsilon":
            bounds = rdp - math.log(max(inquiry.at, 1e-300)) / z
        else:
            bounds = z * (rdp - inquiry.at)
    best = int(np.argmin(np.where(np.isfinite(bounds), bounds, np.inf)))
    return float(ORDERS[best])

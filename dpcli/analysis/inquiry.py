"""The choice of the accountants that are run for an account, and their answers.

account.py asks one question (`Inquiry`): an upper bound on epsilon at a delta, or on delta at an epsilon, for *charges*, which are
mechanisms with their numbers of runs. A `Panel` says which accountants may answer, and `answers_to` returns a *row* for each of them: a
bound, or the reason why there is none. The *headline* is the smallest upper bound of a sound accountant, so it is valid whichever
accountants are run. The choice among them touches speed, and how small the headline is.

Two accountants may answer with an interval so narrow that no other can improve it (SETTLING in accountants/plugin.py). Unless the user
named accountants, they run first where lower bounds hold for the file. If one of them *settles* the headline in this way, only cheap
accountants are run in addition, for the table. Otherwise all are run, and share one allowance of work; for an adaptive file only one may be
run (`Inquiry.may_ask`).

Accountants bound a *dominating pair* of each mechanism: two output distributions at least as easy to tell apart as those of any
neighbouring datasets. Their lower bounds hold for the mechanism itself only if some neighbours have exactly this pair (the mechanism
*attains* it). For other mechanisms, a *witness* is used: another mechanism that the file allows and that attains its pair (witnesses.py).

Before an accountant answers, it makes a `PrivacyProfile` of the composition, which bounds epsilon at any delta, and delta at any epsilon.
`tuned` gives a profile another tolerance and time, which only the grid accountant (pld) uses.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

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
from dpcli.numerics.work import SHARE_EACH, limited

# Largest relative width of an interval that settles the headline. It touches accuracy: another accountant could lower the headline by at
# most this share.
SETTLED = 1e-9
# Cells (units of work, numerics/work.py) that all cheap accountants may take together for the table, about 20 ms. Arbitrary; it touches
# speed and the rows of the table, and never the headline.
CHEAP_CELLS = 4e5
# Largest number of different mechanisms that are composed as they are. If there are more, sampled Gaussians are rounded to fewer dominating
# ones (`rounded_steps`): the bound stays sound, becomes slightly larger, and takes less time.
MOST_MECHANISMS = 1_500
GOOD_LOWER = 0.9  # share of the upper bound at which a lower bound is good enough; arbitrary, it saves further attempts
# Seconds that the grid accountant may take: by default, if no accountant has an interval, and if the user chose the accountants. They are
# turned into a number of grid points by a fixed speed and not measured, so that every machine makes the same grids. More time gives
# narrower intervals; each of them is sound.
GRID_SECONDS, GRID_SECONDS_ALONE, GRID_SECONDS_NAMED = 0.1, 1.0, 4.0

# The reason why any other accountant has no bound for an adaptive file (`Inquiry.may_ask`).
ONE_FILTER = (
    "privacy.adaptive is true: only one privacy filter applies, zcdp or, at delta = 0, basic "
    "(a ledger offers more filters for runs chosen one after another: dpcli budget init --filter)"
)


def settles(bound: Bound | None) -> bool:
    """Return whether the upper and lower bounds are so close that no other accountant can improve the upper bound noticeably."""
    if bound is None or bound.lower is None or not math.isfinite(bound.upper):
        return False
    return bound.upper - bound.lower <= SETTLED * bound.upper


def cheap_accountants(settling: Accountant, others: Sequence[Accountant], parts: int) -> Iterator[Accountant]:
    """Yield the accountants that are run although the headline is settled, the cheapest first.

    Their total work is at most CHEAP_CELLS, or at most the work of the settling accountant if that is more. The choice depends on the work
    that each accountant states and not on a clock, so every machine runs the same accountants.

    parts: number of different mechanisms, on which the work depends.
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

    names: their names, in the order of the rows.
    quick: whether an interval may settle the headline so that other accountants are not run. False if the user named
        accountants or a tolerance.
    tolerance: relative width at which the grid accountant stops; None for its default.
    with_rows: whether to compute what only a table shows: rows of other accountants although the headline is settled and, if no lower
        bound holds for the mechanisms themselves, one from witnesses.
    """

    names: tuple[str, ...]
    quick: bool = True
    tolerance: float | None = None
    with_rows: bool = True


class GroupedSteps(NamedTuple):
    """Steps in place of others, with fewer different mechanisms: steps that dominate the others, and steps that the others dominate."""

    dominating: Steps
    dominated: Steps


@dataclass(frozen=True)  # without slots, since `cached_property` stores its values in the instance
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
    def grouped(self) -> GroupedSteps | None:
        """The charged steps with fewer different mechanisms; None if there are few, or if they cannot be rounded."""
        if len(self.charged_steps) <= MOST_MECHANISMS:
            return None
        from dpcli.accountants.rounded_steps import rounded_steps

        rounded = rounded_steps(self.charged_steps, MOST_MECHANISMS)
        return None if rounded is None else GroupedSteps(*rounded)

    @property
    def steps(self) -> Steps:
        """The steps that are composed for an upper bound."""
        return self.charged_steps if self.grouped is None else self.grouped.dominating

    @property
    def dominated_steps(self) -> Steps:
        """The steps that are composed for a lower bound."""
        return self.charged_steps if self.grouped is None else self.grouped.dominated

    @cached_property
    def composed_charges(self) -> tuple[BillLine, ...]:
        """The charges with the mechanisms of `steps`, so that a reason about one of these can name the charge."""
        if self.grouped is None:
            return self.charges
        return tuple(replace(charge, mechanism=m) for charge, (m, _) in zip(self.charges, self.steps, strict=True))

    @cached_property
    def attained(self) -> bool:
        """Return whether a lower bound for the dominating pairs of `steps` is a lower bound for the pipeline."""
        return self.grouped is None and all_attained(self.charged_steps)

    def row(self, accountant: Accountant, profile: PrivacyProfile, share: float = SHARE_EACH) -> AccountRow:
        """Return the row of an accountant. If it has no bound, the row's reason names the mechanisms concerned.

        share: largest share of the remaining allowance of work that the accountant may take.
        """
        return with_names(row_of(accountant, profile, self.quantity, self.at, share), self.composed_charges)

    def may_ask(self, accountant: Accountant) -> bool:
        """Return whether an accountant may bound the charges. Only one may bound those of an adaptive pipeline.

        An adaptive pipeline is bounded by one privacy filter, which is chosen before the first run. The filter limits rho if delta > 0,
        and epsilon if delta is 0. To take the smaller result of two filters is not sound, because the outputs of earlier runs decide
        which is smaller. To split delta anew for each file is not sound either: the true delta reaches 1.99 times the stated delta.
        """
        is_pure = self.quantity == "epsilon" and self.at == 0.0
        return not self.adaptive or accountant.name == ("basic" if is_pure else "zcdp")

    def profile(self, accountant: Accountant, tolerance: float | None, seconds: float) -> PrivacyProfile:
        """Return the privacy profile of the steps by an accountant that may be asked."""
        # A `finite` accountant sets stated deltas aside and adds them afterwards. A filter would have to limit their sum too, so that
        # they are refused.
        if self.adaptive:
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
    profile: the privacy profile of the winner, which is delta as a function of epsilon.
    """

    rows: tuple[AccountRow, ...]
    winner: AccountRow | None
    profile: PrivacyProfile | None


def answers_to(inquiry: Inquiry, panel: Panel) -> Answers:
    """Return the answers of the accountants. If one of them settles the headline, only cheap accountants are run in addition."""
    tried: list[AccountRow] = []  # rows of the accountants that were run and might have settled the headline
    if panel.quick and inquiry.attained and not inquiry.adaptive:
        for name in SETTLING:
            accountant = accountant_named(name)
            profile = inquiry.profile(accountant, tolerance=None, seconds=GRID_SECONDS)
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
        rows[accountant.name] = inquiry.row(accountant, inquiry.profile(accountant, tolerance=None, seconds=GRID_SECONDS))
    return tuple(rows[name] for name in panel.names)


def _answers_of_all(inquiry: Inquiry, panel: Panel, known: Mapping[str, AccountRow]) -> Answers:
    """Run every accountant once and return the answers.

    Accountants that work on the sum of all steps run first, then accountants that handle each step separately (`stepwise`), and last
    accountants whose work grows with the difficulty of the question (`heavy`). All of them share one allowance of work.

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
    if not inquiry.attained:  # the lower bounds hold for the dominating pairs, and perhaps not for the mechanisms
        rows = [without_lower(row) for row in rows]
    winner = smallest(rows)
    profile_of_winner = None if winner is None else profiles[winner.accountant.name]
    if winner is not None and panel.with_rows and not inquiry.attained:
        winner_with_lower = _with_lower(winner, inquiry)
        rows, winner = [winner_with_lower if row is winner else row for row in rows], winner_with_lower
    cross_check(rows)
    return Answers(tuple(rows), winner, profile_of_winner)


def _with_more_time(
    inquiry: Inquiry, rows: Sequence[AccountRow], profiles: Mapping[str, PrivacyProfile], share: float
) -> tuple[list[AccountRow], dict[str, PrivacyProfile]]:
    """Return the rows and profiles after more time. Accountants without a bound are run again if more time changes their profile.

    The profiles of all accountants are replaced by those with more time, also of accountants whose rows are unchanged.
    """
    longer_profiles = {name: profile.tuned(tolerance=None, seconds=GRID_SECONDS_ALONE) for name, profile in profiles.items()}
    result = []
    for row in rows:
        name = row.accountant.name
        # `tuned` returns the profile itself if more time does not change it. An accountant that may not be asked has no profile.
        is_worth_a_run = row.bound is None and longer_profiles.get(name) is not profiles.get(name)
        result.append(inquiry.row(row.accountant, longer_profiles[name], share) if is_worth_a_run else row)
    return result, longer_profiles


def _with_lower(winner: AccountRow, inquiry: Inquiry) -> AccountRow:
    """Return the row with a lower bound from mechanisms that the file allows and that attain their dominating pairs.

    The row is returned unchanged if no such mechanism is known for some step. Raises InternalError if the lower bound contradicts the row.
    """
    lower = 0.0
    with suppress(NotRepresentable):
        for steps in _attained_steps(inquiry):
            lower = max(lower, _lower_of(steps, inquiry))
            if lower >= GOOD_LOWER * winner.upper:
                break
    if not lower > 0.0 or winner.bound is None:
        return winner
    if not agree(lower, winner.bound.upper):  # False if the lower bound is larger, by more than rounding
        raise InternalError(
            f"some mechanism that the file allows costs {lower!r}, more than {winner.bound.upper!r}: this is a bug in dpcli, so "
            "no number is reported"
        )
    return replace(winner, bound=replace(winner.bound, lower=min(lower, winner.bound.upper)))


def _attained_steps(inquiry: Inquiry) -> Iterator[Steps]:
    """Yield steps that the file allows and that attain their dominating pairs, whose lower bounds therefore hold for the file.

    An adaptive file yields none, because its list is only one of the runs that could happen. Neither does delta = 0.
    """
    if inquiry.adaptive or (inquiry.quantity == "epsilon" and inquiry.at == 0.0):
        return
    if all_attained(inquiry.charged_steps):
        yield inquiry.dominated_steps
    else:
        from dpcli.analysis.witnesses import witnesses

        yield from witnesses(inquiry.dominated_steps, inquiry.quantity, inquiry.at)


def _lower_of(steps: Steps, inquiry: Inquiry) -> float:
    """Return a certified lower bound for steps that attain their dominating pairs; 0 if no accountant certifies one."""
    for name in BRACKETING:  # the accountants that certify lower bounds; the first answer is taken
        accountant = accountant_named(name)
        profile = accountant.profile(steps).tuned(tolerance=None, seconds=GRID_SECONDS_ALONE)
        bound = row_of(accountant, profile, inquiry.quantity, inquiry.at, SHARE_EACH).bound
        if bound is not None and bound.lower is not None:
            return bound.lower
    return 0.0


@limited
def tightest(steps: Steps, delta: float) -> AccountRow | None:
    """Return the smallest sound upper bound on epsilon at `delta` for steps fixed in advance; None if no bound is finite.

    `dpcli.epsilon` and a ledger with a declared set of runs ask it, which have steps and no pipeline. If all steps attain their dominating
    pairs, the row has the largest lower bound of all accountants.
    """

    def row(name: str) -> AccountRow:
        accountant = accountant_named(name)
        return row_of(accountant, accountant.profile(steps).tuned(tolerance=None, seconds=GRID_SECONDS), "epsilon", delta)

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

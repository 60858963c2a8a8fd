"""The choice of accountants to run: first those whose interval may settle the headline, then only cheap ones, else all."""

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
from dpcli.file.pipeline.resolve import BillLine
from dpcli.numerics.arrays import Array, np
from dpcli.numerics.work import BESIDE, limited

SETTLED = 1e-9  # relative width of an interval that no other accountant could improve on
CHEAP_CELLS = 4e5  # cells (some 20 ms) for the cheap rows together; the interval's own cells if those are more
MOST_MECHANISMS = 1_500  # different ones; more are grouped into steps that dominate them
GOOD_LOWER = 0.9  # of the upper bound: a lower bound that need not be improved
# Seconds for the grid accountant: as one of many; if nobody has an interval; if it was named.
GRID_SECONDS, GRID_SECONDS_ALONE, GRID_SECONDS_NAMED = 0.1, 1.0, 4.0


def settles(bound: Bound | None) -> bool:
    """Return whether an attained bound is certified from both sides closely enough to be the headline."""
    if bound is None or bound.lower is None or not math.isfinite(bound.upper):
        return False
    return bound.upper - bound.lower <= SETTLED * bound.upper


def cheap_accountants(settling: Accountant, others: Sequence[Accountant], parts: int) -> Iterator[Accountant]:
    """Yield the accountants that run although the headline is settled, cheapest first.

    The work that they state decides, and no clock, so that every machine runs the same ones.
    """
    left = max(CHEAP_CELLS, settling.cells(parts))
    for other in sorted(others, key=lambda each: each.cells(parts)):
        left -= other.cells(parts)
        if left < 0.0:
            return
        yield other


@dataclass(frozen=True, slots=True)
class Panel:
    """The accountants to run, by name.

    quick: whether one of them may settle the headline for all, as nobody asked for a particular one.
    with_rows: whether the rows of the others are wanted even so. tolerance: of the grid accountant.
    """

    names: tuple[str, ...]
    quick: bool = True
    tolerance: float | None = None
    with_rows: bool = True


@dataclass(frozen=True)
class Inquiry:
    """The question that each accountant answers: a bound on `quantity` if the other of epsilon and delta is `at`."""

    charges: tuple[BillLine, ...]
    adaptive: bool
    quantity: Quantity
    at: float

    @cached_property
    def each(self) -> Steps:
        """The steps as they are charged."""
        return tuple((charge.mechanism, charge.count) for charge in self.charges)

    @cached_property
    def grouped(self) -> tuple[Steps, Steps] | None:
        """Fewer steps that dominate those charged, and fewer that are dominated; None if the charged ones are few enough."""
        if len(self.each) <= MOST_MECHANISMS:
            return None
        from dpcli.accountants.coarse import coarse

        return coarse(self.each, MOST_MECHANISMS)

    @property
    def steps(self) -> Steps:
        """The steps that are composed for an upper bound."""
        return self.each if self.grouped is None else self.grouped[0]

    @property
    def dominated_steps(self) -> Steps:
        """The steps that are composed for a lower bound."""
        return self.each if self.grouped is None else self.grouped[1]

    @cached_property
    def composed_charges(self) -> tuple[BillLine, ...]:
        """The charges with the steps that are composed in their place; reasons name mechanisms by them."""
        if self.grouped is None:
            return self.charges
        return tuple(replace(charge, mechanism=m) for charge, (m, _) in zip(self.charges, self.steps, strict=True))

    @cached_property
    def attained(self) -> bool:
        """Return whether a lower bound on the dominating pairs of the steps is one on the pipeline."""
        return self.grouped is None and all_attained(self.each)

    def row(self, accountant: Accountant, profile: PrivacyProfile | str, share: float = BESIDE) -> AccountRow:
        """Return the answer of an accountant, its reason with the mechanisms that it is about."""
        return with_names(row_of(accountant, profile, self.quantity, self.at, share), self.composed_charges)

    def profile(self, accountant: Accountant, tolerance: float | None, seconds: float) -> PrivacyProfile | str:
        """Return the profile, or the reason why this accountant does not add up an adaptive pipeline.

        An adaptive pipeline is bounded by one filter that no output chooses: rho if delta > 0, else epsilon. Neither the smaller of two
        filters for each file is a bound, nor a sum that splits delta anew for the steps of each file (1.99 times delta).
        """
        if self.adaptive:
            pure = self.quantity == "epsilon" and self.at == 0.0
            if accountant.name != ("basic" if pure else "zcdp"):
                return (
                    "privacy.adaptive is true: one filter adds up, zcdp or, at delta = 0, basic "
                    "(for runs chosen one after the other, a ledger has more: dpcli budget init --filter)"
                )
        return accountant.profile(self.steps).tuned(tolerance, seconds)


def all_attained(steps: Steps) -> bool:
    """Return whether some data attain the dominating pair of every step."""
    return all(mechanism.attained() for mechanism, _ in steps)


@dataclass(frozen=True, slots=True)
class Answers:
    """The rows in the order of the panel; the one that is the headline, and its profile."""

    rows: tuple[AccountRow, ...]
    winner: AccountRow | None
    profile: PrivacyProfile | str | None


def answers_to(inquiry: Inquiry, panel: Panel) -> Answers:
    """Run the accountants that may settle the headline; once one has, only the cheap ones of the rest, or none; else all."""
    tried: list[AccountRow] = []
    if panel.quick and inquiry.attained:
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
    """Return a row for each accountant: those already run, the cheap ones, and for the rest the reason why they are not run."""
    rows = {row.accountant.name: row for row in tried}
    others = [accountant_named(name) for name in panel.names if name not in rows]
    profiles = {each.name: inquiry.profile(each, None, GRID_SECONDS) for each in others}
    able = [each for each in others if not isinstance(profiles[each.name], str)]  # the others have said why not
    parts = len({mechanism for mechanism, _ in inquiry.steps})
    cheap = list(cheap_accountants(settling.accountant, able, parts))
    for each in (*cheap, *(other for other in others if other not in able)):
        rows[each.name] = inquiry.row(each, profiles[each.name])
    reason = f"not run: {settling.accountant.name} is certified to within 1e-9 (run with -a all)"
    rows |= {each.name: AccountRow(each, None, reason, consulted=False) for each in others if each.name not in rows}
    return tuple(rows[name] for name in panel.names)


def _answers_of_all(inquiry: Inquiry, panel: Panel, known: Mapping[str, AccountRow]) -> Answers:
    """Run every accountant once: cheap ones before those that ask each step, and heavy ones last.

    Nobody runs twice, as the work of the second time would be missing to others.
    """
    accountants = [accountant_named(name) for name in panel.names]
    share = BESIDE if len(accountants) > 1 else 1.0
    seconds = GRID_SECONDS if panel.quick else GRID_SECONDS_NAMED
    profiles = {each.name: inquiry.profile(each, panel.tolerance, seconds) for each in accountants}
    answers = dict(known)
    for each in sorted(accountants, key=lambda each: (each.heavy, each.stepwise)):
        if each.name not in answers:
            answers[each.name] = inquiry.row(each, profiles[each.name], share)
    rows = [answers[name] for name in panel.names]
    if panel.quick and not any(map(is_certified, rows)):  # nobody has an interval: give the grid accountant more time
        for index, row in enumerate(rows):
            profile = profiles[row.accountant.name]
            longer = profile if isinstance(profile, str) else profile.tuned(None, GRID_SECONDS_ALONE)
            if row.bound is None and longer is not profile:
                rows[index] = inquiry.row(row.accountant, longer, share)
            profiles[row.accountant.name] = longer
    if not inquiry.attained:
        rows = [without_lower(row) for row in rows]
    winner = smallest(rows)
    profile_of_winner = None if winner is None else profiles[winner.accountant.name]
    if winner is not None and panel.with_rows and not inquiry.attained:
        at_least = _with_lower(winner, inquiry)
        rows, winner = [at_least if row is winner else row for row in rows], at_least
    cross_check(rows)
    return Answers(tuple(rows), winner, profile_of_winner)


def _with_lower(winner: AccountRow, inquiry: Inquiry) -> AccountRow:
    """Return the row with a lower bound that mechanisms attain which the keys allow; unchanged if an entry has no such mechanism."""
    lower = 0.0
    with suppress(NotRepresentable):
        for steps in _attained_steps(inquiry):
            lower = max(lower, _lower_of(steps, inquiry))
            if lower >= GOOD_LOWER * winner.upper:
                break
    if not lower > 0.0 or winner.bound is None:
        return winner
    if lower > winner.bound.upper * (1.0 + 1e-9) + 1e-300:
        raise InternalError(
            f"some mechanism that the file allows costs {lower!r}, more than {winner.bound.upper!r}: this is a bug in dpcli, and no number"
        )
    return replace(winner, bound=replace(winner.bound, lower=min(lower, winner.bound.upper)))


def _attained_steps(inquiry: Inquiry) -> Iterator[Steps]:
    """Yield steps whose pairs are attained, and that the file allows; none for an adaptive file, or at delta = 0."""
    if inquiry.adaptive or (inquiry.quantity == "epsilon" and inquiry.at == 0.0):
        return
    if all_attained(inquiry.each):
        yield inquiry.dominated_steps
    else:
        yield from _witnesses(inquiry)


def _lower_of(steps: Steps, inquiry: Inquiry) -> float:
    """Return the lower end of an interval for steps whose pairs are attained; 0 if there is none."""
    for name in BRACKETING:
        accountant = accountant_named(name)
        profile = accountant.profile(steps).tuned(None, GRID_SECONDS_ALONE)
        bound = row_of(accountant, profile, inquiry.quantity, inquiry.at, BESIDE).bound
        if bound is not None and bound.lower is not None:
            return bound.lower
    return 0.0


@limited
def tightest(steps: Steps, delta: float) -> AccountRow | None:
    """Return the smallest sound upper bound on epsilon at `delta` for steps fixed in advance, None if there is no finite one."""

    def row(name: str) -> AccountRow:
        accountant = accountant_named(name)
        return row_of(accountant, accountant.profile(steps).tuned(None, GRID_SECONDS), "epsilon", delta)

    attained = all_attained(steps)
    known: dict[str, AccountRow] = {}
    for name in SETTLING if attained else ():
        known[name] = row(name)
        if settles(known[name].bound):
            return known[name]
    rows = [known.get(name) or row(name) for name in ACCOUNTANTS]
    cross_check(rows if attained else list(map(without_lower, rows)))
    return smallest(rows)


ORDER_SHARES = (1.0, 0.3, 0.1, 0.03, 0.003)  # of (order - 1), in the sequence in which they are tried
ORDERS: Array = 1.0 + 2.0 ** np.arange(-6.0, 16.0, 0.25)


def _witnesses(inquiry: Inquiry) -> Iterator[Steps]:
    """Yield mechanisms that the keys allow, each with an attained pair, that lose much; nothing if one entry has none.

    Any choice gives a true lower bound. The order at which the sum of the Renyi curves is most informative chooses them, then smaller ones,
    as orders are less informative if there are few steps.
    """
    steps = inquiry.dominated_steps
    z = _informative_order(steps, inquiry) - 1.0
    tried: set[Steps] = set()
    for share in ORDER_SHARES:
        candidates = tuple((mechanism.witness(1.0 + share * z), count) for mechanism, count in steps)
        known = tuple((witness, count) for witness, count in candidates if witness is not None)
        if len(known) == len(steps) and known not in tried:
            tried.add(known)
            yield known


def _informative_order(steps: Steps, inquiry: Inquiry) -> float:
    """Return the order at which the Renyi curve gives the smallest epsilon at a delta, or the smallest delta at an epsilon."""
    z = ORDERS - 1.0
    with np.errstate(all="ignore"):
        total = sum((count * np.asarray(mechanism.rdp(ORDERS)) for mechanism, count in steps), np.zeros(len(ORDERS)))
        if inquiry.quantity == "epsilon":
            bounds = total - math.log(max(inquiry.at, 1e-300)) / z
        else:
            bounds = z * (total - inquiry.at)
    return float(ORDERS[int(np.argmin(np.where(np.isfinite(bounds), bounds, np.inf)))])

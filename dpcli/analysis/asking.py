"""Accountants asked in turn: first those that may settle the headline; once one has, only the cheap ones of the rest."""

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
    certified,
    cross_check,
    named,
    row_of,
    smallest,
    tuned,
    upper_only,
)
from dpcli.base.errors import InternalError, NotRepresentable
from dpcli.base.registry import ACCOUNTANTS
from dpcli.base.values import dataclass
from dpcli.file.pipeline.resolve import BillLine
from dpcli.numerics.arrays import Array, np
from dpcli.numerics.work import BESIDE as SHARE
from dpcli.numerics.work import limited

SETTLED = 1e-9  # relative width of an interval below which no other accountant has anything to add
BESIDE = 4e5  # cells (some 20 ms) for all other rows together, or what the interval itself takes where that is more


def settles(bound: Bound | None) -> bool:
    """Return whether an attained bound is certified from both sides closely enough to be the headline."""
    if bound is None or bound.lower is None or not math.isfinite(bound.upper):
        return False
    return bound.upper - bound.lower <= SETTLED * bound.upper


def also_asked(settling: Accountant, others: Sequence[Accountant], parts: int) -> Iterator[Accountant]:
    """Yield the accountants that are asked anyway, cheapest first, by the work that they state: every machine asks the same ones."""
    left = max(BESIDE, settling.cells(parts))
    for other in sorted(others, key=lambda each: each.cells(parts)):
        left -= other.cells(parts)
        if left < 0.0:
            return
        yield other


def not_asked(settling: Accountant) -> str:
    """The reason of a row that was left out."""
    return f"not run: {settling.name} is certified to within 1e-9 (run with -a all)"


MANY = 1_500  # different mechanisms of which each is taken as it is
NEAR = 0.9  # of the upper end: a lower one for which no better is looked for
GLANCE, MOMENT, PATIENCE = 0.1, 1.0, 4.0  # seconds for a grid beside others, where nothing else certifies, and where asked for


@dataclass(frozen=True, slots=True)
class Panel:
    """The accountants that are asked, by name.

    quick: whether nobody asked for one of them, so that one may settle the headline for all. rows: whether the others' rows are wanted all
    the same. tolerance: of the grid.
    """

    names: tuple[str, ...]
    quick: bool = True
    tolerance: float | None = None
    rows: bool = True


@dataclass(frozen=True)
class Inquiry:
    """The question for each accountant. quantity: what is asked for, given the other, `at`."""

    charges: tuple[BillLine, ...]
    adaptive: bool
    quantity: Quantity
    at: float

    @cached_property
    def each(self) -> Steps:
        return tuple((charge.mechanism, charge.count) for charge in self.charges)

    @cached_property
    def fewer(self) -> tuple[Steps, Steps] | None:
        """Louder and quieter steps in the place of thousands of different ones."""
        if len(self.each) <= MANY:
            return None
        from dpcli.accountants.coarse import coarse

        return coarse(self.each, MANY)

    @property
    def steps(self) -> Steps:
        """The steps to add up: of thousands of different ones, fewer that dominate them."""
        return self.each if self.fewer is None else self.fewer[0]

    @cached_property
    def named_charges(self) -> tuple[BillLine, ...]:
        """The charges with what is added up in their place, by which reasons name them."""
        if self.fewer is None:
            return self.charges
        return tuple(replace(charge, mechanism=m) for charge, (m, _) in zip(self.charges, self.steps, strict=True))

    @property
    def below(self) -> Steps:
        """Steps that the given ones dominate."""
        return self.each if self.fewer is None else self.fewer[1]

    @cached_property
    def attained(self) -> bool:
        """Return whether a lower bound on the dominating pairs of the steps is one on the pipeline."""
        return reached(self.charges) and self.fewer is None

    def profile(self, accountant: Accountant, tolerance: float | None, seconds: float) -> PrivacyProfile | str:
        """The profile, or the reason why an adaptive pipeline is not added up by it.

        What is chosen from outputs is bounded by one filter that no output chooses: rho where delta > 0, else epsilon. The smaller of two
        for each file is no bound, nor is a sum that splits delta anew for the steps of each file (1.99 times delta).
        """
        if self.adaptive and accountant.name != ("basic" if self.quantity == "epsilon" and self.at == 0.0 else "zcdp"):
            return (
                "privacy.adaptive is true: one filter adds up, zcdp or, at delta = 0, basic "
                "(for runs chosen one after the other, a ledger has more: dpcli budget init --filter)"
            )
        return accountant.profile(self.steps).tuned(tolerance, seconds)


def reached(charges: tuple[BillLine, ...]) -> bool:
    """Return whether some data attain every pair."""
    return all(charge.mechanism.attained() for charge in charges)


@dataclass(frozen=True, slots=True)
class Answers:
    """The rows in the order of their accountants; the one that is the headline, and the profile that found it."""

    rows: tuple[AccountRow, ...]
    winner: AccountRow | None
    profile: PrivacyProfile | str | None


def answered(inquiry: Inquiry, panel: Panel) -> Answers:
    """Ask the accountants that may settle the headline first; once one has, only the cheap ones of the rest, or none."""
    first: list[AccountRow] = []
    if panel.quick and inquiry.attained:
        for name in SETTLING:
            accountant = accountant_named(name)
            profile = inquiry.profile(accountant, None, GLANCE)
            row = named(row_of(accountant, profile, inquiry.quantity, inquiry.at, SHARE), inquiry.named_charges)
            first.append(row)
            if settles(row.bound):
                rows = _with_cheap(inquiry, panel, row, tuple(first)) if panel.rows else tuple(first)
                cross_check(rows)
                return Answers(rows, row, profile)
    return _everybody(inquiry, panel, {row.accountant.name: row for row in first})


def _with_cheap(inquiry: Inquiry, panel: Panel, settling: AccountRow, first: tuple[AccountRow, ...]) -> tuple[AccountRow, ...]:
    """A row for each accountant: those at hand, those that are cheap, and the reason why the rest are left out."""
    result = {row.accountant.name: row for row in first}
    others = [accountant_named(name) for name in panel.names if name not in result]
    profiles = {each.name: inquiry.profile(each, None, GLANCE) for each in others}
    able = [each for each in others if not isinstance(profiles[each.name], str)]  # the others have said why not
    parts = len({mechanism for mechanism, _ in inquiry.steps})
    cheap = list(also_asked(settling.accountant, able, parts))
    for each in (*cheap, *(other for other in others if other not in able)):
        row = row_of(each, profiles[each.name], inquiry.quantity, inquiry.at, SHARE)
        result[each.name] = named(row, inquiry.named_charges)
    why = not_asked(settling.accountant)
    result |= {each.name: AccountRow(each, None, why, consulted=False) for each in others if each.name not in result}
    return tuple(result[name] for name in panel.names)


def _everybody(inquiry: Inquiry, panel: Panel, known: Mapping[str, AccountRow]) -> Answers:
    """Every accountant, those that read one curve before those that ask each step, and those with much work last; nobody twice, as what
    that takes would be missing to others."""
    chosen = [accountant_named(name) for name in panel.names]
    seconds = GLANCE if panel.quick else PATIENCE
    profiles = [inquiry.profile(accountant, panel.tolerance, seconds) for accountant in chosen]
    share = SHARE if len(chosen) > 1 else 1.0
    turns = sorted(range(len(chosen)), key=lambda k: (chosen[k].heavy, chosen[k].stepwise))
    result = {
        k: known.get(chosen[k].name)
        or named(row_of(chosen[k], profiles[k], inquiry.quantity, inquiry.at, share), inquiry.named_charges)
        for k in turns
    }
    rows = tuple(result[k] for k in range(len(chosen)))
    if panel.quick and not any(certified(row) for row in rows):  # nobody has an interval: let the grid take its time
        before, profiles = profiles, [tuned(profile, None, MOMENT) for profile in profiles]
        rows = tuple(
            row
            if row.bound is not None or longer is profile  # which would say what it said
            else named(row_of(row.accountant, longer, inquiry.quantity, inquiry.at, share), inquiry.named_charges)
            for row, profile, longer in zip(rows, before, profiles, strict=True)
        )
    if not inquiry.attained:
        rows = tuple(upper_only(row) for row in rows)
    winner = smallest(rows)
    profile = profiles[rows.index(winner)] if winner is not None else None
    if winner is not None and panel.rows and not inquiry.attained:
        least = _with_least(winner, inquiry)
        rows, winner = tuple(least if row is winner else row for row in rows), least
    cross_check(rows)
    return Answers(rows, winner, profile)


def _with_least(winner: AccountRow, inquiry: Inquiry) -> AccountRow:
    """The row with a lower bound that some mechanisms attain which the keys allow, where every entry has one; others are tried as long as
    both ends are far apart."""

    delta, epsilon = (None, inquiry.at) if inquiry.quantity == "delta" else (inquiry.at, None)
    lower = 0.0
    with suppress(NotRepresentable):
        steps_below = (inquiry.below,) if reached(inquiry.charges) else witnesses(inquiry.below, delta, epsilon)
        for steps in () if inquiry.adaptive or delta == 0.0 else steps_below:
            lower = max(lower, _least(steps, inquiry))
            if lower >= NEAR * winner.upper:
                break
    if not lower > 0.0 or winner.bound is None:
        return winner
    if lower > winner.bound.upper * (1.0 + 1e-9) + 1e-300:
        raise InternalError(
            f"some mechanism that the file allows costs {lower!r}, more than {winner.bound.upper!r}: this is a bug in dpcli, and no number"
        )
    return replace(winner, bound=replace(winner.bound, lower=min(lower, winner.bound.upper)))


def _least(steps: Steps, inquiry: Inquiry) -> float:
    """The lower end of an interval for steps whose pairs are attained; 0 where there is none."""
    for name in BRACKETING:
        accountant = accountant_named(name)
        bound = row_of(accountant, accountant.profile(steps).tuned(None, MOMENT), inquiry.quantity, inquiry.at, SHARE).bound
        if bound is not None and bound.lower is not None:
            return bound.lower
    return 0.0


@limited
def tightest(steps: Steps, delta: float) -> AccountRow | None:
    """The smallest sound upper bound on epsilon at `delta` for steps fixed in advance, None where there is no finite one."""

    def row(name: str) -> AccountRow:
        accountant = accountant_named(name)
        return row_of(accountant, accountant.profile(steps).tuned(None, GLANCE), "epsilon", delta)

    attained = all(mechanism.attained() for mechanism, _ in steps)
    known: dict[str, AccountRow] = {}
    for name in SETTLING if attained else ():
        known[name] = row(name)
        if settles(known[name].bound):
            return known[name]
    rows = tuple(known.get(name) or row(name) for name in ACCOUNTANTS)
    cross_check(rows if attained else tuple(map(upper_only, rows)))
    return smallest(rows)


SHARES = (1.0, 0.3, 0.1, 0.03, 0.003)  # of order - 1, in which orders are tried
ORDERS: Array = 1.0 + 2.0 ** np.arange(-6.0, 16.0, 0.25)


def witnesses(steps: Steps, delta: float | None, epsilon: float | None) -> Iterator[Steps]:
    """Mechanisms that the keys allow, each with an attained pair, that lose much at this delta or epsilon; nothing where one has none.

    Any would do: the order at which the sum of the Renyi curves says most chooses among them, then smaller ones, as orders say less where
    there are few steps.
    """
    z = _order(steps, delta, epsilon) - 1.0
    tried: set[Steps] = set()
    for share in SHARES:
        result = tuple((mechanism.witness(1.0 + share * z), count) for mechanism, count in steps)
        known = tuple((witness, count) for witness, count in result if witness is not None)
        if len(known) == len(steps) and known not in tried:
            tried.add(known)
            yield known


def _order(steps: Steps, delta: float | None, epsilon: float | None) -> float:
    with np.errstate(all="ignore"):
        total = sum((count * np.asarray(mechanism.rdp(ORDERS)) for mechanism, count in steps), np.zeros(len(ORDERS)))
        z = ORDERS - 1.0
        says = total - math.log(max(delta, 1e-300)) / z if delta is not None else z * (total - (epsilon or 0.0))
    return float(ORDERS[int(np.argmin(np.where(np.isfinite(says), says, np.inf)))])

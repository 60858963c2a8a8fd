"""The main use case: what a pipeline costs under each accountant, the headline, and the budget's verdict."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

from dpcli.accountants.base import Accountant, Bound, PrivacyProfile, Steps, checked
from dpcli.accountants.directions import parts_of
from dpcli.analysis.settled import beside, not_asked, settles
from dpcli.errors import InputError, InternalError, NotRepresentable
from dpcli.mechanisms.mechanism import Mechanism
from dpcli.numerics.work import BESIDE as SHARE
from dpcli.numerics.work import LEAST, TooMuchWork, limited
from dpcli.pipeline.model import Pipeline
from dpcli.pipeline.resolve import BillLine, repeated, resolve
from dpcli.registry import ACCOUNTANTS, SETTLING, load
from dpcli.values import dataclass

GLANCE, MOMENT, PATIENCE = 0.1, 1.0, 4.0  # seconds for a grid beside others, where nothing else certifies, and where asked for
Quantity = Literal["epsilon", "delta"]
Verdict = Literal["pass", "warn", "fail", "unknown"]


@dataclass(frozen=True, slots=True)
class AccountRow:
    """What one accountant says: a bound, or the reason why it says nothing."""

    accountant: Accountant
    bound: Bound | None
    reason: str | None = None
    lacking: tuple[object, ...] = ()  # the mechanisms that the reason is about
    too_much: bool = False  # whether the reason is the work that it would take
    asked: bool = True  # whether it was asked at all; where the headline is settled, dear ones are not

    @property
    def upper(self) -> float:
        """The bound, inf where there is none."""
        return math.inf if self.bound is None else self.bound.upper


@dataclass(frozen=True, slots=True)
class BudgetVerdict:
    """The headline against the file's cap."""

    epsilon: float
    delta: float
    spent: float
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Account:
    """The privacy of one pipeline.

    quantity: what was asked for, given the other: epsilon at `delta`, or delta at `epsilon`.
    rows: one for each accountant; where the headline is settled, those with much work were not asked.
    winner: the row that settles the headline, an interval narrower than any other accountant could tell; else that with the smallest bound
        among the sound accountants that apply, None where there is none.
    upper, lower: the headline; `lower` is None where no accountant certifies one.
    shares: of each charge, in the winner's currency.
    """

    pipeline: Pipeline
    charges: tuple[BillLine, ...]
    quantity: Quantity
    delta: float | None
    epsilon: float | None
    rows: tuple[AccountRow, ...]
    winner: AccountRow | None
    lower: float | None
    shares: tuple[float, ...]
    budget: BudgetVerdict | None
    group_size: int = 1

    @property
    def upper(self) -> float:
        """The headline: an upper bound, inf where nothing can be certified."""
        return math.inf if self.winner is None else self.winner.upper

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
        Every row's value is an upper bound; the headline is the smallest of the sound ones that apply, to within 1e-9. An accountant that
        would take more work than one command may cost (numerics/work.py) has that as its reason.

    Raises:
        InputError: an unknown accountant, no delta to report at, a value out of range, or a pipeline that makes no sense.
    """
    if isinstance(pipeline, str) or isinstance(accountants, str):
        raise InputError("expected a pipeline from dpcli.load and a list of accountants, found text")
    if tolerance is not None and not 1e-9 <= tolerance < 1.0:
        raise InputError(f"expected a tolerance in [1e-9, 1), found {tolerance!r}")
    names = tuple(dict.fromkeys(accountants or ACCOUNTANTS))
    quick = accountants is None and tolerance is None
    return _account(pipeline, _Asked(names, quick, tolerance), delta, epsilon, group_size, runs)


@limited
def headline(
    pipeline: Pipeline, delta: float | None = None, epsilon: float | None = None, group_size: int = 1, runs: int = 1
) -> Account:
    """`account`, for whoever reads the headline alone: where an interval settles it, the other rows are left out."""
    return _account(pipeline, _Asked(tuple(ACCOUNTANTS), rows=False), delta, epsilon, group_size, runs)


@dataclass(frozen=True, slots=True)
class _Asked:
    """names: of the accountants. quick: whether nobody asked for one of them, so that one may settle the headline for all; rows: whether
    the others' rows are wanted all the same. tolerance: of the grid."""

    names: tuple[str, ...]
    quick: bool = True
    tolerance: float | None = None
    rows: bool = True


@dataclass(frozen=True, slots=True)
class _Question:
    """What each accountant is asked: quantity: the other one is given, `at`."""

    charges: tuple[BillLine, ...]
    adaptive: bool
    quantity: Quantity
    at: float

    @property
    def steps(self) -> Steps:
        return tuple((charge.mechanism, charge.count) for charge in self.charges)

    @property
    def attained(self) -> bool:
        """Whether a lower bound on the dominating pairs is one on the pipeline."""
        return all(charge.mechanism.attained() for charge in self.charges)

    def profile(self, accountant: Accountant, tolerance: float | None, seconds: float) -> PrivacyProfile | str:
        return _tuned(_profile(accountant, self.steps, self.adaptive), tolerance, seconds)


@dataclass(frozen=True, slots=True)
class _Answer:
    """The rows in the order of their accountants; the one that is the headline, and the profile that found it."""

    rows: tuple[AccountRow, ...]
    winner: AccountRow | None
    profile: PrivacyProfile | str | None


def _account(pipeline: Pipeline, asked: _Asked, delta: float | None, epsilon: float | None, group_size: int, runs: int) -> Account:
    for name in asked.names:
        _require_known(name)
    quantity: Quantity = "delta" if epsilon is not None else "epsilon"
    at = _checked_epsilon(epsilon) if epsilon is not None else _chosen_delta(pipeline, delta)
    charges = repeated(resolve(pipeline, _checked_group(group_size)), runs)
    question = _Question(charges, pipeline.privacy.adaptive, quantity, at)
    answer = _answer(question, asked)
    rows, winner = answer.rows, answer.winner
    lowers = [row.bound.lower for row in rows if row.bound is not None and row.bound.lower is not None and row.accountant.sound]
    lower = max(lowers, default=None)
    return Account(
        pipeline,
        charges,
        quantity,
        None if quantity == "delta" else at,
        at if quantity == "delta" else None,
        rows,
        winner,
        None if lower is None or winner is None else min(lower, winner.upper),
        _shares(answer.profile, quantity, at, winner, len(charges)),
        _budget(pipeline, question, asked, winner),
        group_size,
    )


def _answer(question: _Question, asked: _Asked) -> _Answer:
    """Those that may settle the headline first; where one does, of the others only those that are cheap, or none."""
    first: list[AccountRow] = []
    if asked.quick and question.attained:
        for name in SETTLING:
            accountant = _accountant(name)
            profile = question.profile(accountant, None, GLANCE)
            row = _named(_row(accountant, profile, question.quantity, question.at, SHARE), question.charges)
            first.append(row)
            if settles(row.bound):
                rows = _beside(question, asked, row, tuple(first)) if asked.rows else tuple(first)
                _cross_check(rows)
                return _Answer(rows, row, profile)
    return _everybody(question, asked, {row.accountant.name: row for row in first})


def _beside(question: _Question, asked: _Asked, settling: AccountRow, first: tuple[AccountRow, ...]) -> tuple[AccountRow, ...]:
    """A row for each accountant: those at hand, those that are cheap, and the reason why the rest are left out."""
    found = {row.accountant.name: row for row in first}
    others = [_accountant(name) for name in asked.names if name not in found]
    profiles = {each.name: question.profile(each, None, GLANCE) for each in others}
    able = [each for each in others if not isinstance(profiles[each.name], str)]  # the others have said why not
    parts = len({mechanism for mechanism, _ in question.steps})
    cheap = list(beside(settling.accountant, able, parts))
    for each in (*cheap, *(other for other in others if other not in able)):
        row = _row(each, profiles[each.name], question.quantity, question.at, SHARE)
        found[each.name] = _named(row, question.charges)
    why = not_asked(settling.accountant)
    found |= {each.name: AccountRow(each, None, why, asked=False) for each in others if each.name not in found}
    return tuple(found[name] for name in asked.names)


def _everybody(question: _Question, asked: _Asked, known: Mapping[str, AccountRow]) -> _Answer:
    """Every accountant, those that read one curve before those that ask each step, and those with much work last; nobody twice, as what
    that takes would be missing to others."""
    chosen = [_accountant(name) for name in asked.names]
    seconds = GLANCE if asked.quick else PATIENCE
    profiles = [question.profile(accountant, asked.tolerance, seconds) for accountant in chosen]
    share = SHARE if len(chosen) > 1 else 1.0
    turns = sorted(range(len(chosen)), key=lambda k: (chosen[k].heavy, chosen[k].stepwise))
    found = {
        k: known.get(chosen[k].name)
        or _named(_row(chosen[k], profiles[k], question.quantity, question.at, share), question.charges)
        for k in turns
    }
    rows = tuple(found[k] for k in range(len(chosen)))
    if asked.quick and not any(_certified(row) for row in rows):  # nobody has an interval: let the grid take its time
        before, profiles = profiles, [_tuned(profile, None, MOMENT) for profile in profiles]
        rows = tuple(
            row
            if row.bound is not None or longer is profile  # which would say what it said
            else _named(_row(row.accountant, longer, question.quantity, question.at, share), question.charges)
            for row, profile, longer in zip(rows, before, profiles, strict=True)
        )
    if not question.attained:
        rows = tuple(_upper_only(row) for row in rows)
    winner = _smallest(rows)
    _cross_check(rows)
    return _Answer(rows, winner, profiles[rows.index(winner)] if winner is not None else None)


def _upper_only(row: AccountRow) -> AccountRow:
    """The row without a lower bound, which is one on a pair that no data need attain."""
    return row if row.bound is None else replace(row, bound=replace(row.bound, lower=None))


def _certified(row: AccountRow) -> bool:
    return row.accountant.sound and row.bound is not None and row.bound.lower is not None


def _tuned(profile: PrivacyProfile | str, tolerance: float | None, seconds: float) -> PrivacyProfile | str:
    return profile if isinstance(profile, str) else profile.tuned(tolerance, seconds)


def sound_profiles(
    pipeline: Pipeline, accountants: Sequence[str] | None = None, group_size: int = 1
) -> tuple[tuple[Accountant, PrivacyProfile], ...]:
    """The profiles of the sound accountants (all of them where None) that may add this pipeline up, to ask of many times.

    Raises InputError as `account` does; a profile itself raises NotRepresentable where it has no answer.
    """
    charges = resolve(pipeline, _checked_group(group_size))
    steps = tuple((charge.mechanism, charge.count) for charge in charges)
    chosen = [_accountant(name) for name in dict.fromkeys(accountants or ACCOUNTANTS)]
    found = [(accountant, _profile(accountant, steps, pipeline.privacy.adaptive)) for accountant in chosen if accountant.sound]
    return tuple((accountant, profile.tuned(None, GLANCE)) for accountant, profile in found if not isinstance(profile, str))


@limited
def tightest(steps: Steps, delta: float) -> AccountRow | None:
    """The smallest sound upper bound on epsilon at `delta` for steps fixed in advance, None where there is no finite one."""

    def row(name: str) -> AccountRow:
        accountant = _accountant(name)
        return _row(accountant, _tuned(_profile(accountant, steps, False), None, GLANCE), "epsilon", delta)

    whole = all(mechanism.attained() for mechanism, _ in steps)
    known: dict[str, AccountRow] = {}
    for name in SETTLING if whole else ():
        known[name] = row(name)
        if settles(known[name].bound):
            return known[name]
    rows = tuple(known.get(name) or row(name) for name in ACCOUNTANTS)
    _cross_check(rows if whole else tuple(map(_upper_only, rows)))
    return _smallest(rows)


def attained(pipeline: Pipeline, group_size: int = 1) -> bool:
    """Whether lower bounds on the mechanisms' dominating pairs are lower bounds on the pipeline; else they must not be shown."""
    return all(charge.mechanism.attained() for charge in resolve(pipeline, group_size))


def _require_known(name: str) -> None:
    if name not in ACCOUNTANTS:
        import difflib

        close = difflib.get_close_matches(name, ACCOUNTANTS, 1)
        hint = f"; did you mean '{close[0]}'" if close else ""
        raise InputError(f"expected accountants among {', '.join(ACCOUNTANTS)}, found '{name}'{hint}")


def _accountant(name: str) -> Accountant:
    _require_known(name)
    found: Accountant = load(ACCOUNTANTS[name])
    return found


def _chosen_delta(pipeline: Pipeline, delta: float | None) -> float:
    for candidate in (delta, pipeline.privacy.delta, pipeline.budget.delta if pipeline.budget else None):
        if candidate is not None:
            if not 0.0 <= candidate < 1.0:
                raise InputError(f"expected a delta in [0, 1), found {candidate!r}")
            return candidate
    raise InputError(
        f"{pipeline.path or '<pipeline>'}: privacy.delta: expected a delta in the file or by --delta (well below 1 / number of records), "
        "found none"
    )


def _checked_epsilon(epsilon: float) -> float:
    if not 0.0 <= epsilon < math.inf:
        raise InputError(f"expected a finite epsilon >= 0, found {epsilon!r}")
    return epsilon


def _checked_group(group_size: int) -> int:
    if not 1 <= group_size <= 10**6:
        raise InputError(f"expected a group size from 1 to 10^6, found {group_size!r}")
    return group_size


def _profile(accountant: Accountant, steps: Steps, adaptive: bool) -> PrivacyProfile | str:
    if adaptive and not accountant.adaptive:
        return (
            "privacy.adaptive is true, and this bound is proved for parameters fixed in advance "
            "(for runs chosen one after the other, a ledger has filters: dpcli budget init --filter)"
        )
    return accountant.compose(steps)


def _row(accountant: Accountant, profile: PrivacyProfile | str, quantity: Quantity, at: float, share: float = 1.0) -> AccountRow:
    if isinstance(profile, str):
        return AccountRow(accountant, None, profile)
    try:
        with accountant.within_allowance(LEAST, share):
            bound = checked(profile.delta(at) if quantity == "delta" else profile.epsilon(at))
    except NotRepresentable as error:
        return AccountRow(accountant, None, str(error), error.lacking, isinstance(error, TooMuchWork))
    if math.isinf(bound.upper) or (quantity == "delta" and bound.upper >= 1.0):
        return AccountRow(
            accountant,
            None,
            f"it finds no finite epsilon at delta = {at:g}" if quantity == "epsilon" else "it finds no delta below 1",
        )
    return AccountRow(accountant, bound)


def _named(row: AccountRow, charges: tuple[BillLine, ...]) -> AccountRow:
    """The row with, beside the reason why an accountant does not apply, the mechanisms that it is about."""
    lacking = set(row.lacking)
    names = [charge.name for charge in charges if lacking and any(part in lacking for part in _within(charge.mechanism))]
    if not names or len(names) == len(charges):
        return row
    return replace(row, reason=f"{row.reason} ({', '.join(names[:3])}{', ...' if len(names) > 3 else ''})")


def _within(mechanism: Mechanism) -> tuple[Mechanism, ...]:
    """The mechanism and, of a group, those that run together."""
    return (mechanism, *(part for part, _ in parts_of(mechanism, 1)))


def _cross_check(rows: tuple[AccountRow, ...]) -> None:
    """Accountants check each other: a certified lower bound above somebody's upper bound is a bug, and no number."""
    sound = [row for row in rows if row.accountant.sound and row.bound is not None]
    for low in sound:
        for high in sound:
            if low.bound is not None and low.bound.lower is not None and low.bound.lower > high.upper * (1.0 + 1e-9) + 1e-300:
                names = f"{low.accountant.name} (at least {low.bound.lower!r}) and {high.accountant.name} (at most {high.upper!r})"
                raise InternalError(f"accountants contradict each other: {names}: this is a bug in dpcli, and no number")


def _smallest(rows: tuple[AccountRow, ...]) -> AccountRow | None:
    eligible = [row for row in rows if row.accountant.sound and row.bound is not None]
    return min(eligible, key=lambda row: row.upper, default=None)


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


def _budget(pipeline: Pipeline, question: _Question, asked: _Asked, winner: AccountRow | None) -> BudgetVerdict | None:
    cap, quantity, at = pipeline.budget, question.quantity, question.at
    if cap is None:
        return None
    delta = cap.delta if cap.delta is not None else pipeline.privacy.delta if pipeline.privacy.delta is not None else at
    if quantity == "delta" and cap.delta is None and pipeline.privacy.delta is None:
        return None
    if quantity == "epsilon" and delta == at:
        spent = math.inf if winner is None else winner.upper
    else:
        best = _answer(replace(question, quantity="epsilon", at=delta), replace(asked, rows=False)).winner
        spent = math.inf if best is None else best.upper
    verdict: Verdict = (
        "unknown"
        if math.isinf(spent)
        else "fail"
        if spent > cap.epsilon
        else "warn"
        if spent > cap.warn_at * cap.epsilon
        else "pass"
    )
    return BudgetVerdict(cap.epsilon, delta, spent, verdict)

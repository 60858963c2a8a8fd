"""The main use case: what a pipeline costs under each accountant, the headline, and the budget's verdict."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from dpcli.accountants.base import Accountant, Bound, PrivacyProfile, Steps, checked
from dpcli.accountants.directions import parts_of
from dpcli.errors import InputError, InternalError, NotRepresentable
from dpcli.mechanisms.mechanism import Mechanism
from dpcli.numerics.work import BESIDE, LEAST, TooMuchWork, limited
from dpcli.pipeline.model import Pipeline
from dpcli.pipeline.resolve import BillLine, repeated, resolve
from dpcli.registry import ACCOUNTANTS, load

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
    winner: the row with the smallest bound among the sound accountants that apply, None where there is none.
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
        accountants: names to use; all where None.
        delta: at which epsilon is asked for; the file's privacy.delta, else its budget.delta, where None.
        epsilon: ask for delta at this epsilon (nats) instead.
        group_size: units of privacy that change together.
        tolerance: relative width of the interval that the grid accountant aims at; 1e-3 where None.
        runs: how often the whole pipeline runs on the same data, by a schedule fixed in advance; delta is that of all runs together.

    Returns:
        Every row's value is an upper bound; the headline is the smallest of the sound ones that apply. An accountant that would take
        more work than one command may cost (numerics/work.py) has that as its reason.

    Raises:
        InputError: an unknown accountant, no delta to report at, a value out of range, or a pipeline that makes no sense.
    """
    if isinstance(pipeline, str) or isinstance(accountants, str):
        raise InputError("expected a pipeline from dpcli.load and a list of accountants, found text")
    chosen = [_accountant(name) for name in dict.fromkeys(accountants or ACCOUNTANTS)]
    quantity: Quantity = "delta" if epsilon is not None else "epsilon"
    at = _checked_epsilon(epsilon) if epsilon is not None else _chosen_delta(pipeline, delta)
    if tolerance is not None and not 1e-9 <= tolerance < 1.0:
        raise InputError(f"expected a tolerance in [1e-9, 1), found {tolerance!r}")
    charges = repeated(resolve(pipeline, _checked_group(group_size)), runs)
    steps = tuple((charge.mechanism, charge.count) for charge in charges)
    quick = accountants is None and tolerance is None
    seconds = GLANCE if quick else PATIENCE
    profiles = [_tuned(_profile(accountant, steps, pipeline.privacy.adaptive), tolerance, seconds) for accountant in chosen]
    share = BESIDE if len(chosen) > 1 else 1.0
    turns = sorted(range(len(chosen)), key=lambda k: (chosen[k].heavy, chosen[k].stepwise))
    found = {k: _named(_row(chosen[k], profiles[k], quantity, at, share), charges) for k in turns}
    rows = tuple(found[k] for k in range(len(chosen)))
    if quick and not any(_certified(row) for row in rows):  # nobody has an interval: let the grid take its time
        profiles = [_tuned(profile, tolerance, MOMENT) for profile in profiles]
        rows = tuple(
            row
            if row.bound is not None or not row.accountant.heavy
            else _named(_row(row.accountant, profile, quantity, at, share), charges)
            for row, profile in zip(rows, profiles, strict=True)
        )
    if not all(mechanism.attained() for mechanism, _ in steps):
        rows = tuple(_upper_only(row) for row in rows)
    winner = _smallest(rows)
    _cross_check(rows)
    lowers = [row.bound.lower for row in rows if row.bound is not None and row.bound.lower is not None and row.accountant.sound]
    lower = max(lowers, default=None)
    profile = profiles[rows.index(winner)] if winner is not None else None
    return Account(
        pipeline,
        charges,
        quantity,
        None if quantity == "delta" else at,
        at if quantity == "delta" else None,
        rows,
        winner,
        None if lower is None or winner is None else min(lower, winner.upper),
        _shares(profile, quantity, at, winner, len(steps)),
        _budget(pipeline, chosen, profiles, quantity, at, winner),
        group_size,
    )


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
    profiles = [(_accountant(name), _profile(_accountant(name), steps, False)) for name in ACCOUNTANTS]
    rows = tuple(_row(accountant, _tuned(profile, None, GLANCE), "epsilon", delta) for accountant, profile in profiles)
    _cross_check(tuple(map(_upper_only, rows)) if not all(mechanism.attained() for mechanism, _ in steps) else rows)
    return _smallest(rows)


def attained(pipeline: Pipeline, group_size: int = 1) -> bool:
    """Whether lower bounds on the mechanisms' dominating pairs are lower bounds on the pipeline; else they must not be shown."""
    return all(charge.mechanism.attained() for charge in resolve(pipeline, group_size))


def _accountant(name: str) -> Accountant:
    if name not in ACCOUNTANTS:
        import difflib

        close = difflib.get_close_matches(name, ACCOUNTANTS, 1)
        hint = f"; did you mean '{close[0]}'" if close else ""
        raise InputError(f"expected accountants among {', '.join(ACCOUNTANTS)}, found '{name}'{hint}")
    found: Accountant = load(ACCOUNTANTS[name])
    return found


def _chosen_delta(pipeline: Pipeline, delta: float | None) -> float:
    for candidate in (delta, pipeline.privacy.delta, pipeline.budget.delta if pipeline.budget else None):
        if candidate is not None:
            if not 0.0 <= candidate < 1.0:
                raise InputError(f"expected a delta in [0, 1), found {candidate!r}")
            return candidate
    raise InputError(f"{pipeline.path or '<pipeline>'}: privacy.delta: expected a delta in the file or by --delta, found none")


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


def _budget(
    pipeline: Pipeline,
    chosen: list[Accountant],
    profiles: list[PrivacyProfile | str],
    quantity: Quantity,
    at: float,
    winner: AccountRow | None,
) -> BudgetVerdict | None:
    cap = pipeline.budget
    if cap is None:
        return None
    delta = cap.delta if cap.delta is not None else pipeline.privacy.delta if pipeline.privacy.delta is not None else at
    if quantity == "delta" and cap.delta is None and pipeline.privacy.delta is None:
        return None
    if quantity == "epsilon" and delta == at:
        spent = math.inf if winner is None else winner.upper
    else:
        best = _smallest(tuple(_row(a, p, "epsilon", delta) for a, p in zip(chosen, profiles, strict=True)))
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

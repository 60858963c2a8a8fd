"""The answer of each accountant: a bound, or the reason why it has none."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Literal

from dpcli.accountants.base import Accountant, Bound, PrivacyProfile, checked, implied_delta
from dpcli.accountants.directions import parts_of
from dpcli.base.errors import InputError, InternalError, NotRepresentable
from dpcli.base.lazy import load
from dpcli.base.registry import ACCOUNTANTS
from dpcli.base.values import dataclass
from dpcli.file.pipeline.resolve import BillLine
from dpcli.mechanisms.mechanism import Mechanism
from dpcli.numerics.work import LEAST, TooMuchWork

Quantity = Literal["epsilon", "delta"]


@dataclass(frozen=True, slots=True)
class AccountRow:
    """An accountant's answer: a bound, or the reason why it has none."""

    accountant: Accountant
    bound: Bound | None
    reason: str | None = None
    lacking: tuple[object, ...] = ()  # the mechanisms that the reason is about
    too_much: bool = False  # whether the reason is the work that it would take
    consulted: bool = True  # whether it had to answer; where the headline is settled, slow ones need not

    @property
    def upper(self) -> float:
        """The bound, inf where there is none."""
        return math.inf if self.bound is None else self.bound.upper


OTHER_NAMES = {
    "prv": "pld",
    "privacy-random-variable": "pld",
    "privacy-loss-distribution": "pld",
    "plrv": "pld",
    "connect-the-dots": "pld",
    "fft": "pld",
    "fourier": "pld",
    "renyi": "rdp",
    "rényi": "rdp",
    "renyi-dp": "rdp",
    "moments-accountant": "moments",
    "moment-accountant": "moments",
    "ma": "moments",
    "gaussian-dp": "gdp",
    "gaussian-differential-privacy": "gdp",
    "clt": "gdp",
    "f-dp": "gdp",
    "cdp": "zcdp",
    "concentrated": "zcdp",
    "concentrated-dp": "zcdp",
    "analytic-gaussian": "analytic",
    "strong-composition": "advanced",
    "advanced-composition": "advanced",
    "basic-composition": "basic",
    "sequential": "basic",
    "naive": "basic",
}  # of papers and other tools


def require_known(name: str) -> None:
    if name not in ACCOUNTANTS:
        import difflib

        word = name.casefold().replace("_", "-").replace(" ", "-")
        close = difflib.get_close_matches(word, ACCOUNTANTS, 1)
        hint = (
            f"; it is called {OTHER_NAMES[word]} here" if word in OTHER_NAMES else f"; did you mean '{close[0]}'" if close else ""
        )
        raise InputError(f"expected accountants among {', '.join(ACCOUNTANTS)}, found '{name}'{hint}")


def accountant_named(name: str) -> Accountant:
    require_known(name)
    result: Accountant = load(ACCOUNTANTS[name])
    return result


def tuned(profile: PrivacyProfile | str, tolerance: float | None, seconds: float) -> PrivacyProfile | str:
    return profile if isinstance(profile, str) else profile.tuned(tolerance, seconds)


def row_of(accountant: Accountant, profile: PrivacyProfile | str, quantity: Quantity, at: float, share: float = 1.0) -> AccountRow:
    if isinstance(profile, str):
        return AccountRow(accountant, None, profile)
    try:
        with accountant.within_allowance(LEAST, share):
            bound = checked(_delta(accountant, profile, at) if quantity == "delta" else profile.epsilon(at))
    except NotRepresentable as error:
        return AccountRow(accountant, None, str(error), error.lacking, isinstance(error, TooMuchWork))
    if math.isinf(bound.upper) or (quantity == "delta" and bound.upper >= 1.0):
        return AccountRow(
            accountant,
            None,
            f"it finds no finite epsilon at delta = {at:g}" if quantity == "epsilon" else "it finds no delta below 1",
        )
    return AccountRow(accountant, bound)


def _delta(accountant: Accountant, profile: PrivacyProfile, epsilon: float) -> Bound:
    """Return delta at an epsilon; for an approximation, no bound at another epsilon is implied."""
    return implied_delta(profile, epsilon) if accountant.sound else profile.delta(epsilon)


def named(row: AccountRow, charges: tuple[BillLine, ...]) -> AccountRow:
    """The row with, beside the reason why an accountant does not apply, the mechanisms that it is about."""
    lacking = set(row.lacking)
    names = [charge.name for charge in charges if lacking and any(part in lacking for part in _within(charge.mechanism))]
    if not names or len(names) == len(charges):
        return row
    return replace(row, reason=f"{row.reason} ({', '.join(names[:3])}{', ...' if len(names) > 3 else ''})")


def _within(mechanism: Mechanism) -> tuple[Mechanism, ...]:
    """The mechanism and, of a group or of disjoint parts, those that it runs."""
    return (mechanism, *(piece for case in mechanism.cases() for part, _ in case for piece, _ in parts_of(part, 1)))


def upper_only(row: AccountRow) -> AccountRow:
    """The row without a lower bound, which is one on a pair that no data need attain."""
    return row if row.bound is None else replace(row, bound=replace(row.bound, lower=None))


def certified(row: AccountRow) -> bool:
    return row.accountant.sound and row.bound is not None and row.bound.lower is not None


def smallest(rows: tuple[AccountRow, ...]) -> AccountRow | None:
    eligible = [row for row in rows if row.accountant.sound and row.bound is not None]
    return min(eligible, key=lambda row: row.upper, default=None)


def cross_check(rows: tuple[AccountRow, ...]) -> None:
    """Accountants check each other: a certified lower bound above somebody's upper bound is a bug, and no number."""
    sound = [row for row in rows if row.accountant.sound and row.bound is not None]
    for low in sound:
        for high in sound:
            if low.bound is not None and low.bound.lower is not None and low.bound.lower > high.upper * (1.0 + 1e-9) + 1e-300:
                names = f"{low.accountant.name} (at least {low.bound.lower!r}) and {high.accountant.name} (at most {high.upper!r})"
                raise InternalError(f"accountants contradict each other: {names}: this is a bug in dpcli, and no number")

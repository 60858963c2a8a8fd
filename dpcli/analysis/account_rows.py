"""The rows of an account: for each accountant, a bound on the cost, or the reason why there is no bound.

inquiry.py asks for rows (`row_of`), account.py and the documents show them. A row is *certified* if a sound accountant gave it an upper and
a lower bound. A lower bound is computed for a *dominating pair*, two output distributions at least as easy to tell apart as those of any
neighbouring datasets; where the pipeline need not have such neighbours, it is removed (`without_lower`). If a certified lower bound exceeds
another sound upper bound by more than rounding, one of them is wrong: `cross_check` then stops with an InternalError, and no number is
printed.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Literal

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
# A lower bound that exceeds an upper bound by a smaller relative difference does not contradict it (`agree`). It allows for rounding
# errors, and touches only when a contradiction is reported as a bug.
AGREEMENT = 1e-9
MOST_NAMED = 3  # largest number of mechanisms that a reason names; arbitrary


@dataclass(frozen=True, slots=True)
class AccountRow:
    """The answer of one accountant: a bound, or the reason why it has no bound."""

    accountant: Accountant
    bound: Bound | None
    reason: str | None = None
    lacking: tuple[object, ...] = ()  # mechanisms that lack what the accountant needs; empty if the reason is another one
    too_much: bool = False  # whether the reason is that the accountant needs too much work
    consulted: bool = True  # whether the accountant was run; slow ones are not if another one is certified to be nearly exact

    @property
    def upper(self) -> float:
        """The upper bound; inf if there is none."""
        return math.inf if self.bound is None else self.bound.upper


# Names in papers and other tools, each with the name of the accountant that is meant here. They are only suggested.
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
}


def require_known(name: str) -> None:
    """Raise InputError for a name that no accountant has. The message suggests a similar name."""
    if name in ACCOUNTANTS:
        return
    import difflib

    word = name.casefold().replace("_", "-").replace(" ", "-")
    similar = difflib.get_close_matches(word, ACCOUNTANTS, n=1)
    hint = ""
    if word in OTHER_NAMES:
        hint = f"; it is called {OTHER_NAMES[word]} here"
    elif similar:
        hint = f"; did you mean '{similar[0]}'"
    raise InputError(f"expected accountants among {', '.join(ACCOUNTANTS)}, found '{name}'{hint}")


def accountant_named(name: str) -> Accountant:
    """Return the accountant with this name. Raises InputError if there is none."""
    require_known(name)
    result: Accountant = load(ACCOUNTANTS[name])
    return result


def row_of(accountant: Accountant, profile: PrivacyProfile, quantity: Quantity, at: float, share: float = 1.0) -> AccountRow:
    """Return the answer of an accountant.

    quantity, at: the quantity to bound, and the value of the other one of epsilon and delta.
    share: largest share of the remaining allowance of work that the accountant may take.

    Raises InternalError if the profile returns a number that cannot be a bound.
    """
    try:
        # Raises TooMuchWork, a NotRepresentable, if the work exceeds the allowance.
        with accountant.within_allowance(least=LEAST, share=share):
            if quantity == "epsilon":
                bound = checked(profile.epsilon(at))
            elif accountant.sound:  # any (epsilon, delta) pair of its profile bounds delta at all other epsilons
                bound = checked(implied_delta(profile, at))
            else:  # an approximation implies nothing at other epsilons
                bound = checked(profile.delta(at))
    except NotRepresentable as error:
        return AccountRow(accountant, None, str(error), error.lacking, too_much=isinstance(error, TooMuchWork))
    if quantity == "epsilon" and math.isinf(bound.upper):
        return AccountRow(accountant, None, reason=f"it finds no finite epsilon at delta = {at:g}")
    if quantity == "delta" and bound.upper >= 1.0:
        return AccountRow(accountant, None, reason="it finds no delta below 1")
    return AccountRow(accountant, bound)


def with_names(row: AccountRow, charges: tuple[BillLine, ...]) -> AccountRow:
    """Return the row with a reason that names the mechanisms to which the accountant does not apply; unchanged if it applies to none."""
    if not row.lacking:
        return row
    names = [charge.name for charge in charges if not _with_parts(charge.mechanism).isdisjoint(row.lacking)]
    if not names or len(names) == len(charges):
        return row
    more = ", ..." if len(names) > MOST_NAMED else ""
    return replace(row, reason=f"{row.reason} ({', '.join(names[:MOST_NAMED])}{more})")


def _with_parts(mechanism: Mechanism) -> set[Mechanism]:
    """Return the mechanism and, if it is a group or consists of disjoint parts, the mechanisms that it runs.

    What a mechanism with a stated delta is when it does not fail is returned too, because some accountants are given only this part of it.
    """
    result = {mechanism}
    for case in mechanism.cases():  # one for each disjoint part of the data; otherwise the mechanism alone
        for mechanism_of_case, _ in case:
            result |= {part for part, _ in parts_of(mechanism_of_case, 1)}
    without_failure = {rest for _, rest in (part.split_failure() for part in result)}
    return result | without_failure


def without_lower(row: AccountRow) -> AccountRow:
    """Return the row without its lower bound, which is valid for a dominating pair that perhaps no neighbouring datasets have."""
    return row if row.bound is None else replace(row, bound=replace(row.bound, lower=None))


def is_certified(row: AccountRow) -> bool:
    """Return whether the row has both an upper and a lower bound from a sound accountant."""
    return row.accountant.sound and row.bound is not None and row.bound.lower is not None


def smallest(rows: Iterable[AccountRow]) -> AccountRow | None:
    """Return the row with the smallest sound upper bound; None if no row has one."""
    eligible = [row for row in rows if row.accountant.sound and row.bound is not None]
    return min(eligible, key=lambda row: row.upper, default=None)


def certified_lower(rows: Iterable[AccountRow], winner: AccountRow | None) -> float | None:
    """Return the largest lower bound of a sound accountant, at most the upper bound of `winner`; None if there is none."""
    lowers = [row.bound.lower for row in rows if row.accountant.sound and row.bound and row.bound.lower is not None]
    return min(max(lowers), winner.upper) if lowers and winner is not None else None


def cross_check(rows: Sequence[AccountRow]) -> None:
    """Raise InternalError if a certified lower bound is above another sound upper bound."""
    bounds = [(row.accountant.name, row.bound) for row in rows if row.accountant.sound and row.bound is not None]
    for (name, bound), (other_name, other) in itertools.product(bounds, bounds):
        if bound.lower is not None and not agree(bound.lower, other.upper):
            names = f"{name} (at least {bound.lower!r}) and {other_name} (at most {other.upper!r})"
            raise InternalError(f"accountants contradict each other: {names}: this is a bug in dpcli, so no number is reported")


def agree(lower: Any, upper: Any) -> Any:
    """Return whether a lower bound does not contradict an upper bound, for numbers or for arrays of bounds. NaN contradicts every bound."""
    return lower <= upper * (1.0 + AGREEMENT) + 1e-300  # 1e-300 allows for rounding where the bounds are next to 0

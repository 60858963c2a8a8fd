"""The balance of a ledger, in terms that a person can plan with: shares of the cap, and how much still fits.

All of them are closed forms: nothing in this file needs arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from dpcli.base.stated import difference
from dpcli.ledger import amounts
from dpcli.ledger.amounts import spent_by_block
from dpcli.ledger.filters.filter import Filter
from dpcli.ledger.governance.quotas import quotas_of
from dpcli.ledger.state import LedgerState, Run


@dataclass(frozen=True, slots=True)
class Remaining:
    """The part of a cap that may still be spent.

    Attributes:
        spent, reserved, left: Shares of the cap (the scarcest amount decides); of the number of declared runs in declared mode. There is no
            epsilon of what is spent: at a moment that is chosen from outputs only the cap is a bound.
        planned: In declared mode the epsilon of the whole plan, which was fixed in advance; else None.
        like_last: Further runs like the last one that fit, None if none was made.
        pure: A pure epsilon that certainly fits in one run. Both are 0 if the dataset has moved, or is a copy that is not open: nothing is
            taken there, whatever is left of the cap.
    """

    spent: float
    reserved: float
    left: float
    planned: float | None
    like_last: int | None
    pure: float


def remaining_room(state: LedgerState, window: Sequence[str] = ()) -> Remaining:
    """Return what a state leaves; of blocks, the fullest of a window, or of all."""
    terms, closed = state.open_terms(), state.departure is not None
    full = state.over(window) if window else state.fullest()
    declared = terms.mode == "declared"
    spent = share_of(full, full.spent)
    return Remaining(
        spent,
        share_of(full, full.reserved),
        max(0.0, -difference(spent, 1.0)),
        float((terms.certified or {})["epsilon"]) if declared else None,
        None if state.last is None else 0 if closed else runs_like(state, state.last),
        0.0 if declared or closed else _pure_room(terms.the_filter, full.left()),
    )


def share_of(state: LedgerState, part: amounts.Amounts) -> float:
    """Return the share of the cap that a part of the spending takes; in declared mode, of the number of runs that were declared."""
    if state.open_terms().mode == "declared":
        return float(sum(part.values()) / sum(state.caps.values()))
    return amounts.largest_share(part, state.caps)


def runs_like(state: LedgerState, run: Run) -> int:
    """Return how many more runs of that cost fit, by its maker, whose quotas count; -1 if it costs nothing, and any number does."""
    if state.closed(run.window) is not None:
        return 0
    quotas = quotas_of(state.quotas, str(run.content["who"]))
    shares = (amounts.add(each.limits(state.caps), state.quota_used(each, run.window), -1) for each in quotas)
    lefts = (state.over(run.window).left(), *shares)
    many = (Fraction(left[name]) // Fraction(cost) for left in lefts for name, cost in run.cost.items() if cost > 0)
    return max(min(many, default=-1), 0) if any(run.cost.values()) else -1


def _pure_room(rule: Filter, left: amounts.Amounts) -> float:
    return rule.pure_room(amounts.float_below(left[rule.currency[0]]))


def fullest_block(state: LedgerState) -> str | None:
    """Return the first of the blocks of which most is used, None if there are none."""
    if state.open_terms().family is None:
        return None
    shares = {block: amounts.largest_share(spent, state.caps) for block, spent in spent_by_block(state.spent, state.caps).items()}
    return max(shares, key=lambda block: shares[block], default=None)

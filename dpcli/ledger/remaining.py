"""What remains of a cap, in terms that a person can plan with. Closed forms alone: nothing here needs arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from dpcli.base.stated import difference
from dpcli.ledger import amounts
from dpcli.ledger.filters.filter import Filter
from dpcli.ledger.quotas import concerning
from dpcli.ledger.state import LedgerState, Run


@dataclass(frozen=True, slots=True)
class Remaining:
    """What may still be spent.

    spent, reserved, left: shares of the cap (the scarcest amount decides); of the number of declared runs in declared mode. There is no
    epsilon of what is spent: at a moment that is chosen from outputs only the cap is a bound. planned: in declared mode the epsilon of the
    whole plan, which was fixed in advance; else None. like_last: further runs like the last one that fit, None where
    none was made. pure: a pure epsilon that certainly fits in one run. Both are 0 where the dataset has moved, or is a copy that is not
    open: nothing is taken there, whatever is left of the cap.
    """

    spent: float
    reserved: float
    left: float
    planned: float | None
    like_last: int | None
    pure: float


def room(state: LedgerState, window: Sequence[str] = ()) -> Remaining:
    """What a state leaves; of blocks, the fullest of a window, or of all."""
    whole, terms, closed = state, state.open_terms(), state.departure is not None
    state = state.over(window) if window else state.fullest()
    declared = terms.mode == "declared"
    spent = share_of(state, state.spent)
    return Remaining(
        spent,
        share_of(state, state.reserved),
        max(0.0, -difference(spent, 1.0)),
        float((terms.certified or {})["epsilon"]) if declared else None,
        None if state.last is None else 0 if closed else runs_like(whole, state.last),
        0.0 if declared or closed else _pure(terms.the_filter, state.left()),
    )


def share_of(state: LedgerState, part: amounts.Amounts) -> float:
    """The share of the cap that a part of the spending takes; in declared mode, of the number of runs that were declared."""
    if state.open_terms().mode == "declared":
        return float(sum(part.values()) / sum(state.caps.values()))
    return amounts.share(part, state.caps)


def runs_like(state: LedgerState, run: Run) -> int:
    """How many more runs of that cost fit, by whoever made it, whose quotas count; -1 where it costs nothing, and any number does."""
    if state.closed(run.window) is not None:
        return 0
    quotas = concerning(state.quotas, str(run.content["who"]))
    shares = (amounts.add(each.limits(state.caps), state.quota_used(each, run.window), -1) for each in quotas)
    lefts = (state.over(run.window).left(), *shares)
    many = (Fraction(left[name]) // Fraction(cost) for left in lefts for name, cost in run.cost.items() if cost > 0)
    return max(min(many, default=-1), 0) if any(run.cost.values()) else -1


def _pure(rule: Filter, left: amounts.Amounts) -> float:
    return rule.pure_room(amounts.downward(left[rule.currency[0]]))

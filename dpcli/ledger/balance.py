"""The balance of a ledger in numbers that help to plan runs: shares of the cap, and the runs that still fit.

This module does not need numpy.
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
    """The spent and the remaining parts of a cap.

    The spending is not converted into an epsilon. The moment at which somebody looks at it may depend on outputs, and only the cap bounds
    the loss at such a moment.

    Attributes:
        spent, reserved, left: Shares of the cap, for the amount with the largest share. In declared mode they are shares of the number of
            declared runs.
        planned: In declared mode, the epsilon of all declared runs, which were fixed in advance; else None.
        like_last: The number of further runs like the last one that fit; -1 if any number fits; None if no run was charged.
        pure: A pure epsilon that certainly fits in one run. Both `like_last` and `pure` are 0 if the dataset has moved or is a copy that is
            not open, as nothing can be charged then.
    """

    spent: float
    reserved: float
    left: float
    planned: float | None
    like_last: int | None
    pure: float


def remaining_room(state: LedgerState, window: Sequence[str] = ()) -> Remaining:
    """Return the remaining part of the cap. With blocks, this is the cap of the fullest block of the window, or of all blocks."""
    terms, closed = state.open_terms(), state.departure is not None
    full = state.on_blocks(window) if window else state.fullest()
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
    """Return the share of the cap that a part of the spending takes. In declared mode it is a share of the number of declared runs."""
    if state.open_terms().mode == "declared":
        return float(sum(part.values()) / sum(state.caps.values()))
    return amounts.largest_share(part, state.caps)


def runs_like(state: LedgerState, run: Run) -> int:
    """Return how many more runs with the cost of `run` fit; -1 if any number fits, as they cost nothing.

    The runs are assumed to be charged to the person who was charged for `run`, so that the quotas of this person count.
    """
    if state.retired_block(run.window) is not None:
        return 0
    quotas = quotas_of(state.quotas, str(run.content["who"]))
    shares = (amounts.add(each.limits(state.caps), state.quota_used(each, run.window), -1) for each in quotas)
    lefts = (state.on_blocks(run.window).left(), *shares)
    counts = (Fraction(left[name]) // Fraction(cost) for left in lefts for name, cost in run.cost.items() if cost > 0)
    return max(min(counts, default=-1), 0) if any(run.cost.values()) else -1


def _pure_room(rule: Filter, left: amounts.Amounts) -> float:
    return rule.pure_room(amounts.float_below(left[rule.currency[0]]))


def fullest_block(state: LedgerState) -> str | None:
    """Return the first block with the largest used share of its cap; None if no block was charged."""
    if state.open_terms().family is None:
        return None
    shares = {block: amounts.largest_share(spent, state.caps) for block, spent in spent_by_block(state.spent, state.caps).items()}
    return max(shares, key=lambda block: shares[block], default=None)

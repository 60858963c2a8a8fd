"""The balance of a ledger in numbers that help to plan runs: shares of the cap, and the runs that still fit.

`dpcli budget show` (documents/ledger_balance.py) and other documents print these numbers; no charge depends on them. The cap and the
spending are amounts in the currency of the ledger's *filter* (filters/filter.py), the theorem that adds up runs even if they were chosen
from outputs. What is shown is the *share* of the cap that is spent, for the amount with the largest share. If the dataset is cut into
*blocks*, such as days, each has a cap of its own, and the share of the fullest block is shown: `LedgerState.on_blocks` returns the state
with the spending of the fullest of some blocks, and `fullest` that of all. In *declared mode* there is no filter: all runs were fixed at
the opening. An *odometer* bounds what was spent so far at a moment that may be chosen from outputs (filters/odometer.py). This module does
not need numpy, so that `dpcli budget show` starts fast.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from dpcli.base.errors import InputError
from dpcli.base.rounding import up
from dpcli.base.stated import difference
from dpcli.ledger import amounts
from dpcli.ledger.amounts import spent_by_block
from dpcli.ledger.charges.ledger_run import Run
from dpcli.ledger.governance.quotas import quotas_of
from dpcli.ledger.state import LedgerState

ANY_NUMBER = -1  # in place of a number of runs that fit, if they cost nothing; JSON documents state it too


@dataclass(frozen=True, slots=True)
class Remaining:
    """The spent and the remaining parts of a cap.

    The spending is not converted into an epsilon. The moment at which somebody looks at it may depend on outputs. Only the cap and an
    `Odometer` bound the loss at such a moment.

    Attributes:
        spent, reserved, left: Shares of the cap, for the amount with the largest share. In declared mode they are shares of the number of
            declared runs.
        planned: In declared mode, the epsilon of all declared runs, which were fixed in advance; else None.
        like_last: The number of further runs like the last one that fit, or `ANY_NUMBER`; None if no run was charged, or the last charge
            is a correction.
        pure: A pure epsilon that certainly fits in one run. Both `like_last` and `pure` are 0 if the dataset has moved or is a copy that is
            not open, because nothing can be charged then.
    """

    spent: float
    reserved: float
    left: float
    planned: float | None
    like_last: int | None
    pure: float


@dataclass(frozen=True, slots=True)
class Odometer:
    """Bounds on what was spent so far, each at the ledger's delta.

    Attributes:
        epsilon: The bound at every moment, also at one that is chosen from the outputs (dpcli.ledger.filters.odometer).
        if_fixed: The epsilon of the same costs if their sum at this moment had been fixed before the first output.
    """

    epsilon: float
    if_fixed: float


def odometer(state: LedgerState) -> Odometer:
    """Return the odometer of a dataset. With blocks, it bounds what any unit has lost, whichever blocks its records lie in.

    Raises:
        InputError: The ledger is in declared mode, which has no filter.
        LedgerError: The dataset has moved, so that it may have been charged elsewhere, or is a copy that is not open yet.
    """
    state.refuse_moved()
    terms = state.open_terms()
    if terms.mode == "declared":
        raise InputError(
            f'--odometer: expected a ledger with a privacy filter, found the declared set of "{state.dataset}", whose certified epsilon '
            f"{up(float((terms.certified or {})['epsilon']))} holds at every moment"
        )
    rule, spent = terms.the_filter, state.fullest().spent
    if terms.family is not None:
        # The costs for all blocks of a unit, by group privacy (blocks/family.py). If the filter has no such power, or its costs have a
        # delta, a unit lies in one block, and the factor is 1.
        factor = Decimal(terms.family.max_blocks ** (rule.group_power or 0))
        spent = {name: amounts.EXACT.multiply(value, factor) for name, value in spent.items()}
    return Odometer(rule.odometer(spent, terms.delta), rule.epsilon(spent, terms.delta))


def remaining_room(state: LedgerState, window: Sequence[str] = ()) -> Remaining:
    """Return the remaining part of the cap. With blocks, this is the cap of the fullest block of the window, or of all blocks."""
    terms, has_moved = state.open_terms(), state.departure is not None
    full = state.on_blocks(window) if window else state.fullest()
    spent = share_of(full, full.spent)
    like_last = None
    if state.last is not None and "corrects" not in state.last.content:  # a correction is only a part of what a run costs
        like_last = 0 if has_moved else runs_like(state, state.last)
    planned, pure = None, 0.0
    if terms.mode == "declared":
        planned = float((terms.certified or {})["epsilon"])  # of all declared runs together
    elif not has_moved:
        rule = terms.the_filter
        first_amount = rule.currency[0]  # the amount in which a pure epsilon costs something; the other one, if any, is delta
        pure = rule.pure_room(amounts.float_below(full.left()[first_amount]))
    return Remaining(
        spent,
        share_of(full, full.reserved),
        left=max(0.0, -difference(spent, 1.0)),  # 1 - spent, rounded down
        planned=planned,
        like_last=like_last,
        pure=pure,
    )


def share_of(state: LedgerState, part: amounts.Amounts) -> float:
    """Return the share of the cap that a part of the spending takes. In declared mode it is a share of the number of declared runs."""
    if state.open_terms().mode == "declared":
        return float(sum(part.values()) / sum(state.caps.values()))
    return amounts.largest_share(part, state.caps)


def runs_like(state: LedgerState, run: Run) -> int:
    """Return how many more runs with the cost of `run` fit; `ANY_NUMBER` if they cost nothing.

    The runs are assumed to be charged to the person who was charged for `run`, so that the quotas of this person count.
    """
    if state.retired_block(run.window) is not None:
        return 0
    paid = {name: Fraction(cost) for name, cost in run.cost.items() if cost > 0}
    if not paid:
        return ANY_NUMBER
    quotas = quotas_of(state.quotas, str(run.content["who"]))
    rooms: list[amounts.Amounts] = [state.on_blocks(run.window).left()]
    rooms += [amounts.subtract(quota.limits(state.caps), state.quota_used(quota, run.window)) for quota in quotas]
    counts = [Fraction(room[name]) // cost for room in rooms for name, cost in paid.items()]
    return max(min(counts), 0)  # what is left of a quota may be negative, because earlier charges count against it


def fullest_block(state: LedgerState) -> str | None:
    """Return the first block with the largest used share of its cap; None if no block was charged."""
    if state.open_terms().family is None:
        return None
    spent = spent_by_block(state.spent, state.caps)
    return max(spent, key=lambda block: amounts.largest_share(spent[block], state.caps), default=None)

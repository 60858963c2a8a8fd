"""The messages for runs that a ledger denies, and their parts that quotes and plans use too.

`denial` is called after a charge did not fit. Its message states by how much the run does not fit, which changes of the run would fit, and
why a smaller total of another accountant does not change the verdict. Costs and caps are *amounts* by name in the currency of the ledger's
*filter*, the theorem that adds up runs, such as {"rho": 0.1}; the message is about the amount that does not fit (`_lacking_amount`). In
*declared mode* there is no filter: all runs were fixed at the opening, and an amount counts how often a run is made. If the dataset is cut
into *blocks*, each with a cap of its own, a run is charged on the blocks of its *window*; `LedgerState.on_blocks` returns the state with
the spending of the fullest of them. `label` is the printed name of an amount. A *quota* is the largest share of the cap that a person or a
team may charge. Costs and what is missing are rounded up, and what is left is rounded down. A denial writes no entry.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING

from dpcli.base.rounding import down, percent_used, up
from dpcli.ledger import amounts
from dpcli.ledger.filters.filter import Cost, label
from dpcli.ledger.governance.quotas import Quota
from dpcli.ledger.grammar import visible_text
from dpcli.ledger.state import LedgerState

if TYPE_CHECKING:
    from dpcli.file.pipeline.model import Pipeline

# A part of every message of a denial by a quota. Other messages contain it only if a pipeline's name does.
OVER_QUOTA = ", and the quota of "
# Two limits that keep a message short; they affect messages alone.
LONGEST_PIPELINE_NAME = 60  # characters of a pipeline's name in a message
NAMED_BLOCKS = 3  # largest number of blocks that a message names
DECLARED = "run "  # the start of each amount's name in a declared set


def denial(state: LedgerState, pipeline: Pipeline, cost: Cost, delta: float, window: Sequence[str] = (), who: str = "") -> str:
    """Return the message for a charge that does not fit.

    Args:
        state: The state of the ledger before the charge.
        pipeline, cost, delta, window: The run, its cost, the delta at which approx-dp and advanced charge its epsilon, and its blocks.
        who: The person who would be charged.
    """
    from dpcli.ledger.planning.fit import changes_that_fit_now

    beginning = "denied, and nothing was written"
    if pipeline.name:  # a program may charge several runs
        beginning += f": {visible_text(pipeline.name)[:LONGEST_PIPELINE_NAME]}"
    retired, state_on_window = state.retired_block(window), state.on_blocks(window)
    if retired is not None:
        return f"{beginning}: {retired_words(retired)}"
    wanted = amounts.read(cost.amounts)
    quota = state.over_quota(who, window, wanted)
    if quota is not None and state_on_window.fits(wanted):
        return f"{beginning}: {_over_quota(state, quota, cost, window)}"
    lines = [f"{beginning}: {shortfall(state_on_window, cost)}{full_blocks_words(state, cost, window)}"]
    if state.open_terms().mode == "declared":  # the further lines are about a filter, and about changed runs
        return lines[0]
    lines += delta_advice(state_on_window, cost, pipeline.path)
    changes = changes_that_fit_now(state_on_window, pipeline, delta)
    if changes:
        lines.append(f"would fit: {'; or '.join(changes)}")
    lines.append(_totals_do_not_count(state))
    return "\n  ".join(lines)


def retired_words(block: str) -> str:
    """Return why no run fits in a retired block."""
    return f"block {block} was retired, and accepts no further run"


def _over_quota(state: LedgerState, quota: Quota, cost: Cost, window: Sequence[str]) -> str:
    """Return the message for a run that exceeds a quota. It states whose quota it is, how much of it is left, and who may change it."""
    wanted, used, limits = amounts.read(cost.amounts), state.quota_used(quota, window), quota.limits(state.caps)
    name = amounts.exceeded(amounts.add(used, wanted), limits) or next(iter(wanted))
    left = max(amounts.subtract(limits, used)[name], Decimal(0))
    block = " on the fullest block of its window" if window else ""
    flag = "--person" if quota.of == "person" else "--team"
    return (
        f"the run costs {up(wanted[name])} of {label(name)}, and {quota.words} is {quota.share} of the cap"
        f": {down(left)} of {down(limits[name])} is left{block} (entry {quota.seq})\n  "
        f"whoever may amend the cap may change the quota: dpcli budget quota LEDGER {flag} {quota.name} --share SHARE --reason TEXT"
    )


def shortfall(state: LedgerState, cost: Cost) -> str:
    """Return the cost of a run, what is left, and how much is missing, in words, for the first amount that does not fit.

    The cost and the missing part are rounded up, and what is left is rounded down. In declared mode the words state that the run was made
    as often as declared.
    """
    wanted, left = amounts.read(cost.amounts), state.left()
    if state.open_terms().mode == "declared":
        name = next(iter(wanted))  # the only amount, such as "run 2"
        return f"{name} of the declared set was declared {state.caps[name]} times, and was already made {state.caps[name]} times"
    name = _lacking_amount(state, wanted)
    missing = max(amounts.subtract(wanted, left)[name], Decimal(0))
    return (
        f"the run costs {up(wanted[name])} of {label(name)} ({percent_of_cap(wanted[name], state, name)} of the cap); {down(left[name])} "
        f"of {up(state.caps[name])} is left, {up(missing)} too little"
    )


def full_blocks_words(state: LedgerState, cost: Cost, window: Sequence[str]) -> str:
    """Return, in words, the blocks of a window in which the cost does not fit; "" if it fits in all blocks."""
    wanted = amounts.read(cost.amounts)
    blocks = [block for block in window if not state.on_blocks((block,)).fits(wanted)]
    if not blocks:
        return ""
    names = ", ".join(blocks[:NAMED_BLOCKS])
    if len(blocks) > NAMED_BLOCKS:
        names += f" and {len(blocks) - NAMED_BLOCKS} more"
    return f", on {len(blocks)} of the {len(window)} blocks of its window ({names})"


def delta_advice(state: LedgerState, cost: Cost, path: str | None) -> list[str]:
    """Return a list with one line of advice if delta is the amount that does not fit, and an empty list otherwise."""
    if _lacking_amount(state, amounts.read(cost.amounts)) != "delta":
        return []
    left = state.left()["delta"]
    if not left:
        return ["delta is used up, and a ledger's delta can never be changed: only runs at delta = 0 still fit"]
    return [f"delta does not fit: {down(left)} of it is left; set a smaller privacy.delta in {path or 'the file'}"]


def _lacking_amount(state: LedgerState, wanted: amounts.Amounts) -> str:
    """Return the first amount that does not fit, or the first amount if all fit."""
    return amounts.exceeded(amounts.add(state.spent, wanted), state.caps) or next(iter(wanted))


def _totals_do_not_count(state: LedgerState) -> str:
    """Return the explanation why a smaller total of another accountant does not change the verdict."""
    terms = state.open_terms()
    order = getattr(terms.the_filter, "order", None)  # only the filter rdp has an order
    of_order = ""
    if order is not None:
        of_order = (
            f" at order {order:g}; a run may cost less at another order (dpcli account -a rdp prints the costs), but the order of a ledger "
            "is fixed by dpcli budget init --order"
        )
    return (
        "a smaller total from another accountant does not change this verdict, even if it is within the cap: this run may have been chosen "
        "because of an earlier output, and such totals are no bound for runs that are chosen that way (arXiv:2602.06756). "
        f"The {terms.filter} filter is a bound ({terms.the_filter.source}), and it was fixed when the ledger was opened{of_order}. "
        "Runs that are fixed in advance can be declared together: dpcli budget init --mode declared"
    )


def cost_words(cost: amounts.Amounts) -> str:
    """Return a cost in words, such as "0.10000 of rho"; in declared mode, the number of the declared run, such as "run 2"."""
    names = [name for name in sorted(cost, key=lambda name: name == "delta") if cost[name]]  # delta comes last
    words = [name if name.startswith(DECLARED) else f"{up(cost[name])} of {label(name)}" for name in names]
    return " and ".join(words) or "nothing"


def percent_of_cap(amount: Decimal, state: LedgerState, name: str) -> str:
    """Return an amount as a percentage of its cap, in words, rounded up."""
    return percent_used(amounts.largest_share({name: amount}, state.caps))

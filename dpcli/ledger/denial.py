"""The messages of denials: by how much a run does not fit, what would fit, and why a smaller total does not change the verdict."""

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

OVER_QUOTA = (
    ", and the quota of "  # a part of the message of a denial by a quota; other messages contain it only in a pipeline's name
)
NAMED = 60  # characters of a pipeline's name in a message
DECLARED = "run "  # start of the names of a declared set's amounts


def denial(state: LedgerState, pipeline: Pipeline, cost: Cost, delta: float, window: Sequence[str] = (), who: str = "") -> str:
    """Return the message for a charge by `who` that does not fit. Its lines state the numbers, what would fit, and why the denial is final.

    Args:
        state: The state of the ledger before the charge.
        pipeline, cost, delta, window: The run, its cost, the delta at which it is described, and its blocks.
        who: The person who is charged.
    """
    from dpcli.ledger.planning.fit import changes_that_fit_now

    # The message names the pipeline, if it has a name, as a program may charge several runs.
    no = f"denied, and nothing was written{f': {visible_text(pipeline.name)[:NAMED]}' if pipeline.name else ''}"
    closed, full_state = state.closed(window), state.over(window)
    if closed is not None:
        return f"{no}: block {closed} was retired, and takes no further run"
    over = state.over_quota(who, window, amounts.read(cost.amounts))
    if over is not None and full_state.fits(amounts.read(cost.amounts)):
        return f"{no}: {_over_quota(state, over, cost, window)}"
    lines = [f"{no}: {shortfall(full_state, cost)}{full_blocks_words(state, cost, window)}"]
    if state.open_terms().mode == "declared":
        return lines[0]
    lines += delta_advice(full_state, cost, pipeline.path)
    would = changes_that_fit_now(full_state, pipeline, delta)
    if would:
        lines.append(f"would fit: {'; or '.join(would)}")
    lines.append(_no_argument(state))
    return "\n  ".join(lines)


def _over_quota(state: LedgerState, quota: Quota, cost: Cost, window: Sequence[str]) -> str:
    """Return the message for a run that exceeds a quota: whose quota it is, how much of it is left, and who may change it."""
    wanted, used, limits = amounts.read(cost.amounts), state.quota_used(quota, window), quota.limits(state.caps)
    name = amounts.exceeded(amounts.add(used, wanted), limits) or next(iter(wanted))
    left, of = max(amounts.add(limits, used, -1)[name], Decimal(0)), " on the fullest block of its window" if window else ""
    flag = "--person" if quota.of == "person" else "--team"
    return (
        f"the run costs {up(wanted[name])} of {label(name)}, and {quota.words} is {quota.share} of the cap"
        f": {down(left)} of {down(limits[name])} is left{of} (entry {quota.seq})\n  "
        f"who may amend the cap may change it: dpcli budget quota LEDGER {flag} {quota.name} --share SHARE --reason TEXT"
    )


def shortfall(state: LedgerState, cost: Cost) -> str:
    """Return the cost of a run, what is left, and how much is missing, in words, for the first amount that does not fit."""
    wanted, left = amounts.read(cost.amounts), state.left()
    if state.open_terms().mode == "declared":
        name = next(iter(wanted))
        return f"{name} of the declared set was declared {state.caps[name]} times, and made as often"
    name = _scarcest(state, wanted)
    of = label(name)
    return (
        f"the run costs {up(wanted[name])} of {of} ({percent_of_cap(wanted[name], state, name)} of the cap); {down(left[name])} of "
        f"{up(state.caps[name])} is left, {up(max(amounts.add(wanted, left, -1)[name], Decimal(0)))} too little"
    )


def full_blocks_words(state: LedgerState, cost: Cost, window: Sequence[str]) -> str:
    """Return, in words, the blocks of a window in which the cost does not fit; "" if there are none."""
    wanted = amounts.read(cost.amounts)
    blocks = [block for block in window if not state.over((block,)).fits(wanted)]
    named = ", ".join(blocks[:3]) + (f" and {len(blocks) - 3} more" if len(blocks) > 3 else "")
    return f", on {len(blocks)} of the {len(window)} blocks of its window ({named})" if blocks else ""


def delta_advice(state: LedgerState, cost: Cost, path: str | None) -> list[str]:
    """Return a line of advice if delta is the amount that does not fit; an empty list otherwise.

    Args:
        path: Path of the run's file.
    """
    if _scarcest(state, amounts.read(cost.amounts)) != "delta":
        return []
    left = state.left()["delta"]
    if not left:
        return ["delta is what is used up, and a ledger's delta is fixed for good: only runs at delta = 0 still fit"]
    return [f"delta is what is used up: set privacy.delta smaller in {path or 'the file'}; {down(left)} is left"]


def _scarcest(state: LedgerState, wanted: amounts.Amounts) -> str:
    """Return the first amount that does not fit, or the first amount if all fit."""
    return amounts.exceeded(amounts.add(state.spent, wanted), state.caps) or next(iter(wanted))


def _no_argument(state: LedgerState) -> str:
    """Return the explanation why a smaller total of another accountant does not change the verdict."""
    terms = state.open_terms()
    order = getattr(terms.the_filter, "order", None)
    of_order = (
        f" at order {order:g}; a run may be cheap at another order, which dpcli account -a rdp prints, and which a ledger has from "
        "budget init --order"
        if order is not None
        else ""
    )
    return (
        "a smaller total from another accountant does not change this verdict, even within the cap: this run may have been chosen after "
        "looking at an earlier one's output, and such totals do not bound what is chosen that way (arXiv:2602.06756). "
        f"The {terms.filter} filter does ({terms.the_filter.source}), and it was fixed when the ledger was opened{of_order}. "
        "Runs that really are fixed in advance can be declared together: dpcli budget init --mode declared"
    )


def costs(cost: amounts.Amounts) -> str:
    """Return a cost in words. A run of a declared set is named by its number."""
    nonzero = {name: value for name, value in sorted(cost.items(), key=lambda item: item[0] == "delta") if value}
    words = (name if name.startswith(DECLARED) else f"{up(value)} of {label(name)}" for name, value in nonzero.items())
    return " and ".join(words) or "nothing"


def percent_of_cap(amount: Decimal, state: LedgerState, name: str) -> str:
    """Return an amount as a percentage of its cap, in words, rounded up."""
    return percent_used(amounts.largest_share({name: amount}, state.caps))

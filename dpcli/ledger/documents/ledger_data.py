"""Parts of a ledger's documents: the balance as JSON values, proposals and quotas in words, and tables for a terminal.

A *document* is what a command prints (dpcli/document/document.py); the other files of this folder build documents from these parts. A
*quota* limits the share of the cap that some people may spend, and a *proposal* is a request that waits for a second person
(dpcli/ledger/governance). A dataset may be cut into *blocks*, such as days; the balance of the fullest block is then shown, since the cap
holds for each block by itself. *Amounts* are costs or caps by name in the currency of the ledger's *filter*, the theorem that adds up runs,
such as {"rho": 0.1}, and `label` gives the printed name of an amount. `LedgerState.fullest` is the state with the spending of the fullest
block, and `departure` the move of the dataset to another ledger. The `family` in the terms says how the dataset is cut into blocks. In the
sentence about a quota, its used part is rounded up and the rest down. Scripts depend on the keys of the JSON values.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpcli.base.rounding import down, up
from dpcli.document.document import Table
from dpcli.ledger import amounts
from dpcli.ledger.amounts import ZERO, spent_by_block
from dpcli.ledger.balance import remaining_room, share_of
from dpcli.ledger.chain import LedgerEntry
from dpcli.ledger.charges.ledger_run import Run
from dpcli.ledger.filters.filter import label
from dpcli.ledger.governance.proposals import Proposal
from dpcli.ledger.governance.quotas import Quota, quotas_of
from dpcli.ledger.requests import certificate_of
from dpcli.ledger.state import LedgerState

# The largest used share of a quota that is printed as a number, 10,000 %. A quota that was set far below earlier charges has a larger one.
LARGEST_SHOWN_SHARE = 100.0


def change_words(proposal: Proposal, state: LedgerState) -> str:
    """Return the change that a proposal asks for, in words: "a cap of epsilon 2.0 instead of 1.0"."""
    asks = proposal.asks
    match asks["kind"]:
        case "amend":
            return f"a cap of epsilon {asks['epsilon']!r} instead of {state.epsilon!r}"
        case "quota":
            return f"{asks['share']} of the cap for {'' if asks['of'] == 'person' else 'the team '}{asks['name']}"
        case "moved":
            return f"to move the dataset to {asks['to']}"
        case "acknowledge":
            return f"to acknowledge the finding: {asks['finding']}"
        case "rate":
            return f"a rate of {asks['per_day']:,} entries without a cost a day"
        case _:  # void
            return f'to cancel the reservation "{asks["key"]}"'


def proposal_answer(proposal: Proposal, state: LedgerState) -> str:
    """Return the answer to a request that became a proposal: what is proposed, until when, and how another person approves it."""
    raises_cap = proposal.asks["kind"] == "amend" and proposal.asks["epsilon"] > state.largest
    seen = ", who states whether an output was seen (--no-output-seen)" if raises_cap else ""
    return (
        f"proposed in entry {proposal.seq}, until {proposal.expires}: {change_words(proposal, state)}; nothing changes before another "
        f"person approves it{seen}: dpcli budget approve LEDGER {proposal.seq} --reason TEXT"
    )


def proposal_lines(state: LedgerState, now: str) -> tuple[str, ...]:
    """Return a line for each proposal that can still be approved."""
    return tuple(
        f"waits for another person's approval: entry {proposal.seq} of {proposal.who}, until {proposal.expires}: "
        f"{change_words(proposal, state)} ({proposal.asks['why']})"
        for proposal in state.proposals.values()
        if proposal.expires > now
    )


def _share_of_quota(state: LedgerState, quota: Quota) -> float:
    """Return the used share of a quota, for the amount with the largest share. With blocks, it is the share of the fullest block."""
    return amounts.largest_share(state.quota_used(quota), quota.limits(state.caps))


def _is_alerting(state: LedgerState, quota: Quota) -> bool:
    """Return whether so much of a quota is used that a warning is shown. A quota with the share 1 is removed."""
    return quota.share < 1 and _share_of_quota(state, quota) >= float(quota.alert_at)


def quota_words(state: LedgerState, quota: Quota) -> str:
    """Return a clause about a quota, with its share of the cap, its used part and its remaining part."""
    remaining = amounts.subtract(quota.limits(state.caps), state.quota_used(quota))
    # An amount whose cap is 0, such as delta, says nothing.
    left = [f"{down(max(value, ZERO))} of {label(name)}" for name, value in remaining.items() if state.caps[name]]
    members = f" ({', '.join(quota.members)})" if quota.of == "team" else ""
    block = "" if state.open_terms().family is None else " on the fullest block"
    share = _share_of_quota(state, quota)
    used = f"used to {up(100.0 * share, 1)} %" if share <= LARGEST_SHOWN_SHARE else "exceeded by earlier charges"
    return f"{quota.words}{members}, {quota.share} of the cap, is {used}{block}: {' and '.join(left)} left"


def quota_warnings(state: LedgerState, who: str) -> tuple[str, ...]:
    """Return a warning for each quota of a person whose used share has reached `alert_at`."""
    return tuple(f"warning: {quota_words(state, quota)}" for quota in quotas_of(state.quotas, who) if _is_alerting(state, quota))


def uncharged_member_note(state: LedgerState, quota: Quota) -> tuple[str, ...]:
    """Return a note if members of a quota were never charged. Their names may be misspelled, and the quota then limits nobody."""
    charged = state.people or {}
    names = [name for name in quota.members if name not in charged]
    if not names or quota.share >= 1:
        return ()
    listed = f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]
    limits = f"{quota.words} limits only charges that are signed with exactly {'this name' if len(names) == 1 else 'these names'}"
    return (f"note: nothing was charged to {listed} so far; {limits}",)


def quota_lines(state: LedgerState) -> tuple[str, ...]:
    """Return a line for each quota. A quota with the share 1 was removed, and has no line."""
    return tuple(
        ("warning: " if _is_alerting(state, quota) else "") + quota_words(state, quota)
        for quota in state.quotas.values()
        if quota.share < 1
    )


def balance_data(state: LedgerState) -> dict[str, Any]:
    """Return the balance as JSON values, as shares of the cap and in the filter's currency.

    With blocks, the number of each amount is the one of the block with the largest spending. "epsilon_guaranteed" is the guarantee of all
    runs together; None if nothing is guaranteed. "guarantee" is its basis (`LedgerState.guarantee`).
    """
    remaining, full, terms = remaining_room(state), state.fullest(), state.open_terms()
    result = {
        "epsilon_cap": state.epsilon,
        "epsilon_guaranteed": state.guaranteed,
        "guarantee": state.guarantee,
        "delta": terms.delta,
    }
    if remaining.planned is not None:
        result["epsilon_planned"] = remaining.planned
    data: dict[str, Any] = {
        "caps": amounts.texts(full.caps),
        "spent": amounts.texts(full.spent),
        "left": amounts.texts(full.left()),
        "share_spent": remaining.spent,
        "share_reserved": remaining.reserved,
        "result": result,
        "more_like_last": remaining.like_last,
        "largest_pure_epsilon": remaining.pure,
        **block_data(state),
    }
    if terms.two_person:
        data["proposals"] = [
            {"entry": proposal.seq, "who": proposal.who, "expires": proposal.expires, "asks": dict(proposal.asks)}
            for proposal in state.proposals.values()
        ]
    if state.quotas:
        data["quotas"] = [_quota_data(state, quota) for quota in state.quotas.values()]
    if state.departure is not None:
        data |= {"moved_to": state.departure.to, "closed": str(state.departure)}
    data["head"] = {"seq": state.head.seq, "hash": state.head.hash}
    return data


def _quota_data(state: LedgerState, quota: Quota) -> dict[str, Any]:
    return {
        "of": quota.of,
        "name": quota.name,
        "members": list(quota.members),
        "share": str(quota.share),
        "alert_at": str(quota.alert_at),
        "entry": quota.seq,
        "spent": amounts.texts(state.quota_used(quota)),
        "limit": amounts.texts(quota.limits(state.caps)),
        "share_used": _share_of_quota(state, quota),
        "alert": _is_alerting(state, quota),
    }


def block_data(state: LedgerState) -> dict[str, Any]:
    """Return the field "blocks" with the spending of each charged or retired block; an empty table if the dataset has no blocks."""
    if state.open_terms().family is None:
        return {}
    spent, nothing = spent_by_block(state.spent, state.caps), dict.fromkeys(state.caps, ZERO)
    blocks = []
    for block in sorted({*spent, *state.retired}):
        total = spent.get(block, nothing)
        share = amounts.largest_share(total, state.caps)
        blocks.append({"block": block, "spent": amounts.texts(total), "share": share, "retired": block in state.retired})
    return {"blocks": blocks}


def run_data(state: LedgerState) -> list[dict[str, Any]]:
    """Return all charges as JSON values."""
    return [_charge_data(state, run) for run in state.runs.values()]


def _charge_data(state: LedgerState, run: Run) -> dict[str, Any]:
    """Return a charge as JSON values. A void run takes no share of the cap."""
    data: dict[str, Any] = {
        "key": run.key,
        "entry": run.seq,
        "status": run.status,
        "cost": amounts.texts(run.cost),
        "share": 0.0 if run.status == "void" else share_of(state, run.cost),
        "who": run.content.get("who"),
        "when": run.content.get("when"),
        "why": run.content.get("why"),
        "pipeline": run.content.get("pipeline"),
    }
    if run.window:
        data["window"] = list(run.window)
    return {**data, **_certificate_data(run.content)}


def terms_data(state: LedgerState) -> dict[str, Any]:
    """Return the dataset and the terms of a ledger as JSON values."""
    return {"dataset": state.dataset, "terms": state.open_terms().content()}


def entry_data(entry: LedgerEntry | None) -> dict[str, Any] | None:
    """Return the content and the hash of an entry as JSON values; None for no entry."""
    return None if entry is None else {**entry.content, **_certificate_data(entry.content), "hash": entry.row.hash}


def _certificate_data(content: Mapping[str, Any]) -> dict[str, str]:
    """Return the certificate that a charge names as a JSON value; an empty table if it names none."""
    digest = certificate_of(content)
    return {} if digest is None else {"certificate": digest}


def share_spent_text(state: LedgerState) -> str:
    """Return the used share of the cap (not an epsilon) as a bare number. It is above 1 only if the cap was lowered."""
    return repr(remaining_room(state).spent)


def aligned_lines(table: Table) -> tuple[str, ...]:
    """Return the lines of a table for a terminal, in aligned columns: the heads and each row. A table without rows has no lines."""
    if not table.rows:
        return ()
    columns = []
    for index, cells in enumerate(zip(table.columns, *table.rows, strict=True)):
        width = max(map(len, cells))
        columns.append([cell.rjust(width) if index in table.numeric else cell.ljust(width) for cell in cells])
    return tuple("  ".join(line).rstrip() for line in zip(*columns, strict=True))

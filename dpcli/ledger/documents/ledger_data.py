"""A ledger's balance in the machine form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpcli.ledger import amounts
from dpcli.ledger.blocks.spread import ZERO, block_shares
from dpcli.ledger.chain import LedgerEntry
from dpcli.ledger.documents.ledger_proposals import proposals_data
from dpcli.ledger.documents.ledger_quotas import quotas_data
from dpcli.ledger.remaining import room, share_of
from dpcli.ledger.state import LedgerState


def terms(state: LedgerState) -> dict[str, Any]:
    """What the ledger was opened for."""
    return {"dataset": state.dataset, "terms": state.open_terms().content()}


def balance(state: LedgerState) -> dict[str, Any]:
    """What is spent and what is left, as shares of the cap and in the filter's currency.

    epsilon_guaranteed: of everything together, None where nothing is; guarantee: what that is (`LedgerState.guarantee`).
    """
    found, whole = room(state), state
    state = state.fullest()
    return {
        "caps": _plain(state.caps),
        "spent": _plain(state.spent),
        "left": _plain(state.left()),
        "share_spent": found.spent,
        "share_reserved": found.reserved,
        "result": {
            "epsilon_cap": state.epsilon,
            "epsilon_guaranteed": state.guaranteed,
            "guarantee": state.guarantee,
            "delta": state.open_terms().delta,
            **({} if found.planned is None else {"epsilon_planned": found.planned}),
        },
        "more_like_last": found.like_last,
        "largest_pure_epsilon": found.pure,
        **block_data(whole),
        **proposals_data(whole),
        **quotas_data(whole),
        **({} if whole.departure is None else {"moved_to": whole.departure.to, "closed": str(whole.departure)}),
        "head": {"seq": state.head.seq, "hash": state.head.hash},
    }


def block_data(state: LedgerState) -> dict[str, Any]:
    """What is spent on each block, where there are any: caps, spent and left are otherwise those of the fullest."""
    if state.open_terms().family is None:
        return {}
    spent = block_shares(state.spent, state.caps)
    every = sorted({*spent, *state.retired})
    none = dict.fromkeys(state.caps, ZERO)
    return {
        "blocks": [
            {
                "block": block,
                "spent": _plain(spent.get(block, none)),
                "share": amounts.share(spent.get(block, none), state.caps),
                "retired": block in state.retired,
            }
            for block in every
        ]
    }


def runs(state: LedgerState) -> list[dict[str, Any]]:
    """Every charge."""
    return [
        {
            "key": run.key,
            "entry": run.seq,
            "status": run.status,
            "cost": _plain(run.cost),
            "share": 0.0 if run.status == "void" else share_of(state, run.cost),
            "who": run.content.get("who"),
            "when": run.content.get("when"),
            "why": run.content.get("why"),
            "pipeline": run.pipeline,
            **({"window": list(run.window)} if run.window else {}),
        }
        for run in state.runs.values()
    ]


def entry_data(entry: LedgerEntry | None) -> dict[str, Any] | None:
    """One entry, with its hash."""
    return None if entry is None else {**entry.content, "hash": entry.row.hash}


def _plain(found: amounts.Amounts) -> Mapping[str, str]:
    return {name: str(value) for name, value in found.items()}


def total(state: LedgerState) -> str:
    """The bare number: the share of the cap that is used, between 0 and 1 (above 1 where the cap was lowered); no epsilon."""
    return repr(room(state).spent)

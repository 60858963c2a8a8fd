"""A ledger's balance in the machine form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpcli.ledger import amounts
from dpcli.ledger.chain import LedgerEntry
from dpcli.ledger.remaining import room, share_of
from dpcli.ledger.state import LedgerState


def terms(state: LedgerState) -> dict[str, Any]:
    """What the ledger was opened for."""
    return {"dataset": state.dataset, "terms": state.open_terms().content()}


def balance(state: LedgerState) -> dict[str, Any]:
    """What is spent and what is left, as shares of the cap and in the filter's currency.

    epsilon_guaranteed: the largest cap since the opening, which is what the outputs so far are covered by.
    """
    found = room(state)
    return {
        "caps": _plain(state.caps),
        "spent": _plain(state.spent),
        "left": _plain(state.left()),
        "share_spent": found.spent,
        "share_reserved": found.reserved,
        "result": {
            "epsilon_cap": state.epsilon,
            "epsilon_guaranteed": state.largest,
            "delta": state.open_terms().delta,
            **({} if found.planned is None else {"epsilon_planned": found.planned}),
        },
        "more_like_last": found.like_last,
        "largest_pure_epsilon": found.pure,
        "head": {"seq": state.head.seq, "hash": state.head.hash},
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

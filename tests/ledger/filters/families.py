"""Ledgers whose dataset is cut into *blocks*, each with its own budget, for tests: each kind of blocks, and terms of a ledger with it."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

from dpcli.ledger.chain import seal
from dpcli.ledger.filters.filter import filter_for_cap
from dpcli.ledger.state import LedgerState
from dpcli.ledger.terms import LedgerTerms
from tests.ledger.filters.folding import NOW, rehearsed
from tests.ledger.filters.setting import DATASET

# For each kind of blocks: its terms in the opening of a ledger, and six blocks.
FAMILIES: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "day": ({}, tuple((date(2027, 12, 29) + timedelta(i)).isoformat() for i in range(6))),
    "week": ({}, ("2020-W52", "2020-W53", "2021-W01", "2021-W02", "2021-W03", "2021-W04")),
    "region": ({"names": ["Asia", "a@b", "eu", "us west", "é", "日 😀"]}, ("Asia", "a@b", "eu", "us west", "é", "日 😀")),
    "hash": ({"count": 12}, ("0", "1", "10", "11", "2", "9")),
}


def family(by: str = "day", max_blocks: int = 1) -> dict[str, Any]:
    return {"by": by, "column": "when", "max_blocks": max_blocks, **FAMILIES[by][0]}


def terms(by: str = "day", max_blocks: int = 1, name: str = "approx-dp", delta: float = 0.0, epsilon: float = 1.0) -> LedgerTerms:
    found = filter_for_cap(name, epsilon, delta, {})
    parameters = dict(found.parameters()) or None
    return LedgerTerms(
        "example", "add-remove", epsilon, delta, filter=name, parameters=parameters, schema="0" * 64, blocks=family(by, max_blocks)
    )


def opening(opened: LedgerTerms) -> LedgerState:
    """Return the state of a ledger after an opening with these terms, without a store."""
    state = LedgerState(DATASET)
    content = {
        "kind": "open",
        "terms": opened.content(),
        "caps": opened.caps(opened.epsilon),
        "who": "ana",
        "when": NOW,
        "dpcli": "0",
    }
    return after(state, content)


def after(state: LedgerState, content: dict[str, Any]) -> LedgerState:
    """Return the state after one more entry."""
    return rehearsed(state, seal({**content, "who": "ana", "when": NOW, "dpcli": "0"}, DATASET, state.head))

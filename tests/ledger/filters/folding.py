"""The true state of a ledger, computed from all of its entries (`folded`), and comparisons of another state with it (`alike`).

A ledger normally reads its state from a *checkpoint*, which stores sums up to some entry, and the entries after it.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

from dpcli.base.errors import InputError
from dpcli.ledger.chain import LedgerEntry, canonical, next_entry
from dpcli.ledger.checkpoint import checkpoint_content
from dpcli.ledger.grammar import wrong_entry
from dpcli.ledger.ledger import Ledger
from dpcli.ledger.state import LedgerState
from dpcli.ledger.stores.store import Store

NOW = "2030-01-01T00:00:00Z"
ODD = ("é", "日 😀", 'a"b\\c', '","kind":"', ',"key":"')
KEYS = (*"abcdefghij", "a/", "a/b", "a/b\\", "a0", "A/b", "a/é", *ODD)
STARTS = ("a", "a/", "a/b", "a/b\\", "A/", "b", "z", "late ", 'a"', "a/é", '","kind":"')


def rehearsed(state: LedgerState, entry: LedgerEntry) -> LedgerState:
    """Return a copy of the state after an entry. Raises InputError if the entry breaks the grammar of entries."""
    wrong = wrong_entry(entry.content)
    if wrong is not None:
        raise InputError(wrong)
    trial = state.rehearsal()
    trial.apply(next_entry(entry.row, state.dataset, state.head))
    return trial


def folded(ledger: Ledger) -> LedgerState:
    """Return the state after all entries, read from the first one without a checkpoint."""
    state = LedgerState(ledger.dataset)
    for row in ledger.store.after(ledger.dataset, 0):
        state.apply(next_entry(row, ledger.dataset, state.head))
    return state


def alike(found: LedgerState, truth: LedgerState) -> None:
    """Assert that two states are equal: every stored sum, the run of every key, and what would still fit."""
    assert canonical(checkpoint_content(found)) == canonical(checkpoint_content(truth))
    for name, reserved in found.reserved.items():
        currency, _, block = name.partition("@")
        under_way = [run for run in truth.runs.values() if run.status in ("reserved", "started")]
        costs = [run.cost.get(currency, 0) for run in under_way if not block or block in run.window]
        assert Fraction(reserved) == sum(map(Fraction, costs))
    for key in (*KEYS, *truth.runs):
        assert found.runs.get(key) == truth.runs.get(key), key
    for amount in ("0", "1E-300", "0.1", "0.5", "1"):
        cost = {"epsilon": Decimal(amount), "delta": Decimal(0)}
        assert found.fits(cost) == truth.fits(cost)


def begin_alike(ledger: Ledger, truth: LedgerState) -> None:
    """Assert that a search for runs by the start of their keys agrees with a search through all runs."""
    for start in STARTS:
        assert list(ledger.runs_with_prefix(start)) == [run for run in truth.runs.values() if run.key.startswith(start)], start


class Counting:
    """A store that counts the rows that it returns."""

    def __init__(self, inner: Store) -> None:
        self.inner, self.rows = inner, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def after(self, *arguments: Any) -> Any:
        rows = self.inner.after(*arguments)
        self.rows += len(rows)
        return rows

"""Two ways to know a ledger, from its totals and from all its entries, and requests that both are asked."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

from hypothesis import strategies as st

from dpcli.base.errors import DpcliError, InputError
from dpcli.ledger.chain import LedgerEntry, canonical, next_entry, time_after
from dpcli.ledger.checkpoint import checkpoint_content
from dpcli.ledger.grammar import wrong_entry
from dpcli.ledger.ledger import Ledger
from dpcli.ledger.state import LedgerState
from dpcli.ledger.stores.store import Store
from tests.ledger.setting import charge

NOW = "2030-01-01T00:00:00Z"
AMOUNTS = ("0.1", "0.25", "1E-30", "0.070000000000000001", "0", "1E-300")
ODD = ("é", "日 😀", 'a"b\\c', '","kind":"', ',"key":"')
KEYS = (*"abcdefghij", "a/", "a/b", "a/b\\", "a0", "A/b", "a/é", *ODD)
STARTS = ("a", "a/", "a/b", "a/b\\", "A/", "b", "z", "late ", 'a"', "a/é", '","kind":"')
# (what, key, amount)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["spend", "reserve", "reserve", "brief", "start", "commit", "count", "count", "void", "amend", "late", "late void"]
        ),
        st.sampled_from(KEYS),
        st.sampled_from(AMOUNTS),
    ),
    max_size=25,
)


def rehearsed(state: LedgerState, entry: LedgerEntry) -> LedgerState:
    """A copy of the state after an entry that may be written."""
    wrong = wrong_entry(entry.content)
    if wrong is not None:
        raise InputError(wrong)
    trial = state.rehearsal()
    trial.apply(next_entry(entry.row, state.dataset, state.head))
    return trial


def folded(ledger: Ledger) -> LedgerState:
    """What all entries add up to, by the fold alone."""
    state = LedgerState(ledger.dataset)
    for row in ledger.store.after(ledger.dataset, 0):
        state.apply(next_entry(row, ledger.dataset, state.head))
    return state


def alike(found: LedgerState, truth: LedgerState) -> None:
    """To the last digit as it is printed, and for every key."""
    assert canonical(checkpoint_content(found)) == canonical(checkpoint_content(truth))
    for name, reserved in found.reserved.items():
        costs = [run.cost.get(name, 0) for run in truth.runs.values() if run.status in ("reserved", "started")]
        assert Fraction(reserved) == sum(map(Fraction, costs))
    for key in (*KEYS, *truth.runs):
        assert found.runs.get(key) == truth.runs.get(key), key
    for amount in ("0", "1E-300", "0.1", "0.5", "1"):
        cost = {"epsilon": Decimal(amount), "delta": Decimal(0)}
        assert found.fits(cost) == truth.fits(cost)


def begin_alike(ledger: Ledger, truth: LedgerState) -> None:
    """By the start of their keys, as whoever walks over all of them."""
    for start in STARTS:
        assert list(ledger.runs_beginning(start)) == [run for run in truth.runs.values() if run.key.startswith(start)], start


def step(ledger: Ledger, what: str, key: str, amount: str) -> str:
    """One request, whatever comes of it: what it was answered."""
    now = ledger.now
    try:
        if what in ("spend", "reserve"):
            return str(charge(ledger, key, amount, what).repeated)
        if what == "brief":
            return str(charge(ledger, key, amount, "reserve", expires=time_after(NOW, days=4)).repeated)
        if what == "count":
            return str(ledger.count(key, f"answers {amount[:3]}", 1, 3))
        if what == "amend":
            cap = 0.5 + float(amount)
            return str(ledger.amend(cap, "a reason", "the board", acknowledged=True, unseen=key in "abc").repeated)
        if what.startswith("late"):
            ledger.now = lambda: time_after(NOW, days=len(amount))
        if what == "late":
            return str(charge(ledger, f"late {key}", amount).repeated)
        if what.endswith("void"):
            return str(ledger.void(key, "a reason").repeated)
        return str((ledger.start(key) if what == "start" else ledger.commit(key, "it ran")).repeated)
    except DpcliError as error:
        return f"{type(error).__name__}: {error}"
    finally:
        ledger.now = now


class Counting:
    """A store that counts the rows it gives."""

    def __init__(self, inner: Store) -> None:
        self.inner, self.rows = inner, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def after(self, *asked: Any) -> Any:
        found = self.inner.after(*asked)
        self.rows += len(found)
        return found

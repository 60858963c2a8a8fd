"""Tests of the store in a file: it reads under its lock, acknowledges after the commit, and creates only where nothing exists."""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from dpcli.base.errors import Denied, InputError, LedgerError
from dpcli.ledger import amounts
from dpcli.ledger.filters.currencies import ApproxFilter
from dpcli.ledger.ledger import Ledger
from dpcli.ledger.stores import sqlite
from dpcli.ledger.stores.places import init, open_dataset, open_ledger
from dpcli.ledger.stores.sqlite import SqliteStore
from tests.ledger.filters.setting import DATASET, charge, run, terms


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "ledger.db")


@pytest.fixture
def ledger(path: str) -> Ledger:
    return init(path, DATASET, terms())


def spent(path: str) -> Decimal:
    return open_ledger(path, DATASET).state().spent["epsilon"]


def test_the_lock_is_taken_before_the_first_look(ledger: Ledger, path: str) -> None:
    second = SqliteStore(path, seconds=0.05)
    with ledger.store.writing(DATASET), pytest.raises(LedgerError, match="locked"), second.writing(DATASET):
        pass


def test_what_was_read_before_the_lock_is_read_again_under_it(ledger: Ledger, path: str) -> None:
    other = open_ledger(path, DATASET)
    inner = ledger.store.writing

    def late(dataset: str) -> Any:
        ledger.store.writing = inner  # type: ignore[method-assign]
        charge(other, "theirs", "0.7")
        return inner(dataset)

    ledger.store.writing = late  # type: ignore[method-assign]
    with pytest.raises(Denied):
        charge(ledger, "ours", "0.7")
    assert spent(path) == Decimal("0.7")


def test_a_small_charge_beside_a_large_one_counts(path: str) -> None:
    ledger = init(path, DATASET, terms(2.0))
    charge(ledger, "large", "1")
    charge(ledger, "small", "1E-30")
    assert spent(path) == Decimal("1.000000000000000000000000000001")


class Failing:
    """A connection on which one statement fails, as on a disk that fills up."""

    def __init__(self, connection: Any, statement: str) -> None:
        self.connection, self.statement = connection, statement

    def __getattr__(self, name: str) -> Any:
        return getattr(self.connection, name)

    def execute(self, statement: str, *values: Any) -> Any:
        if statement == self.statement:
            raise sqlite3.OperationalError("disk I/O error")
        return self.connection.execute(statement, *values)


def test_nothing_is_acknowledged_before_the_commit(ledger: Ledger, path: str) -> None:
    charge(ledger, "first")
    assert spent(path) == Decimal("0.01")
    store = ledger.store
    assert isinstance(store, SqliteStore)
    whole = store.connection
    store.connection = Failing(whole, "COMMIT")
    with pytest.raises(LedgerError):
        charge(ledger, "second")
    store.connection = whole
    assert list(ledger.state().runs) == ["first"]
    assert not charge(ledger, "second").repeated
    assert spent(path) == Decimal("0.02")


def test_a_cap_changes_by_an_entry_alone(ledger: Ledger, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    receipt = ledger.amend(0.5, "too much was promised", "the board", acknowledged=True)
    assert receipt.entry is not None and receipt.entry.kind == "amend"
    monkeypatch.setattr(ApproxFilter, "caps", lambda self, epsilon, delta: {"epsilon": "9", "delta": "9"})
    after = open_ledger(path, DATASET)
    assert after.state().caps["epsilon"] == Decimal("0.5")
    with pytest.raises(Denied):
        charge(after, "key", "0.6")


def test_an_amendment_needs_an_approver(ledger: Ledger) -> None:
    for why, approver in (("a reason", " "), ("", "the board")):
        with pytest.raises(InputError, match="--reason, --approver"):
            ledger.amend(2.0, why, approver)


def test_the_first_cap_is_what_the_opening_says(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    init(path, DATASET, terms())
    monkeypatch.setattr(ApproxFilter, "caps", lambda self, epsilon, delta: {"epsilon": "9", "delta": "9"})
    assert open_ledger(path, DATASET).state().caps["epsilon"] == 1


def test_an_expired_reservation_counts_and_cannot_be_voided(path: str) -> None:
    ledger = init(path, DATASET, terms())
    ledger.now = lambda: "2026-01-01T00:00:00Z"
    ledger.reserve(run(0.25), "key", expires="2026-01-02T00:00:00Z")
    ledger.now = lambda: "2026-01-02T00:00:00Z"
    with pytest.raises(LedgerError, match="it counts in full"):
        ledger.void("key", "a reason")
    assert spent(path) >= Decimal("0.25")


def test_a_name_without_a_cap_is_above_it() -> None:
    assert amounts.exceeded({"rho": Decimal("1e-9")}, {"epsilon": Decimal(1)}) == "rho"


def test_delta_counts_too(ledger: Ledger) -> None:
    with pytest.raises(Denied):
        ledger.spend(run(0.01), "key", delta=1e-9)


def test_a_race_for_the_place_of_a_new_ledger_has_one_winner(path: str) -> None:
    def fill(store: SqliteStore) -> None:
        open_dataset(store, DATASET, terms())
        with suppress(RecursionError):
            init(path, "theirs", terms())

    with pytest.raises(LedgerError, match="expected a new path, found an existing file"):
        sqlite.create(path, fill)
    assert open_ledger(path).dataset == "theirs"
    assert os.listdir(os.path.dirname(path)) == ["ledger.db"]


def test_a_connection_makes_no_file(path: str) -> None:
    with pytest.raises(sqlite3.OperationalError):
        sqlite.connect(path, 1.0).execute("SELECT 1")
    assert not os.path.exists(path)


def test_a_denial_leaves_the_ledger_open_to_others(ledger: Ledger, path: str) -> None:
    with pytest.raises(Denied):
        charge(ledger, "too much", "2")
    other = Ledger(SqliteStore(path, seconds=0.05), DATASET)
    assert not charge(other, "fits").repeated
    assert not charge(ledger, "fits as well").repeated

"""What each planted bug of the ledger would break, in one small test of its own: see tests/planted/ledger_plants.py."""

from __future__ import annotations

import os
import sqlite3
import stat
import threading
from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcli.base.errors import Denied, InputError, LedgerError
from dpcli.ledger import amounts, chain
from dpcli.ledger.filters.currencies import ApproxFilter
from dpcli.ledger.ledger import Ledger, open_dataset
from dpcli.ledger.state import LedgerState
from dpcli.ledger.stores import sqlite, sqlite_file
from dpcli.ledger.stores.places import init, open_ledger
from dpcli.ledger.stores.sqlite import SqliteStore
from dpcli.ledger.verify import anchor_of, verify
from tests.cases import of_each
from tests.ledger.setting import DATASET, charge, run, terms

TENTH = "0.1"


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "ledger.db")


@pytest.fixture
def ledger(path: str) -> Ledger:
    return init(path, DATASET, terms())


def spent(path: str) -> Decimal:
    """As somebody else reads it."""
    return open_ledger(path, DATASET).state().spent["epsilon"]


# --- the six


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


def test_a_key_is_charged_once(ledger: Ledger, path: str) -> None:
    assert not charge(ledger, "key").repeated
    assert charge(ledger, "key").repeated
    assert charge(open_ledger(path, DATASET), "key").repeated
    assert spent(path) == Decimal("0.01")


def test_a_key_with_another_body_is_a_conflict(ledger: Ledger) -> None:
    charge(ledger, "key")
    with pytest.raises(LedgerError, match="a new run needs a key of its own"):
        charge(ledger, "key", kind="reserve")


def test_ten_tenths_are_one(ledger: Ledger, path: str) -> None:
    for i in range(10):
        charge(ledger, f"key {i}", TENTH)
    assert spent(path) == 1
    with pytest.raises(Denied):
        charge(ledger, "one more", "1e-300")


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


def test_the_first_cap_is_what_the_opening_says(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    init(path, DATASET, terms())
    monkeypatch.setattr(ApproxFilter, "caps", lambda self, epsilon, delta: {"epsilon": "9", "delta": "9"})
    assert open_ledger(path, DATASET).state().caps["epsilon"] == 1


# --- reservations


def test_a_started_run_cannot_be_voided(ledger: Ledger) -> None:
    charge(ledger, "key", kind="reserve")
    ledger.start("key")
    with pytest.raises(LedgerError, match="before any noise was drawn, found one that is started"):
        ledger.void("key", "a reason")


def test_an_expired_reservation_counts_and_cannot_be_voided(path: str) -> None:
    ledger = init(path, DATASET, terms())
    ledger.now = lambda: "2026-01-01T00:00:00Z"
    ledger.reserve(run(0.25), "key", expires="2026-01-02T00:00:00Z")
    ledger.now = lambda: "2026-01-02T00:00:00Z"
    with pytest.raises(LedgerError, match="it counts in full"):
        ledger.void("key", "a reason")
    assert spent(path) >= Decimal("0.25")


def test_a_void_gives_back_what_was_reserved_and_no_more(ledger: Ledger, path: str) -> None:
    charge(ledger, "kept", TENTH, kind="reserve")
    charge(ledger, "given back", "0.2", kind="reserve")
    ledger.void("given back", "a reason")
    ledger.void("given back", "a reason")
    assert spent(path) == Decimal("0.1")
    with pytest.raises(LedgerError, match="found one whose reservation was voided"):
        charge(ledger, "given back", "0.2", kind="reserve")


def test_a_void_needs_a_reason(ledger: Ledger) -> None:
    charge(ledger, "key", kind="reserve")
    with pytest.raises(InputError, match="--reason"):
        ledger.void("key", " ")


def test_an_amendment_needs_an_approver(ledger: Ledger) -> None:
    for why, approver in (("a reason", " "), ("", "the board")):
        with pytest.raises(InputError, match="--reason and --approver"):
            ledger.amend(2.0, why, approver)


# --- amounts


@given(st.floats(0.0, 1e308))
def test_a_cost_is_never_written_below_itself(x: float) -> None:
    assert Decimal(amounts.written(x)) >= amounts.stated(x)
    assert Decimal(amounts.written_down(x)) <= Decimal(x)


def test_a_name_without_a_cap_is_above_it() -> None:
    assert amounts.exceeded({"rho": Decimal("1e-9")}, {"epsilon": Decimal(1)}) == "rho"


def test_delta_counts_too(ledger: Ledger) -> None:
    with pytest.raises(Denied):
        ledger.spend(run(0.01), "key", delta=1e-9)


# --- the chain, row by row


def rows(ledger: Ledger) -> list[chain.StoredRow]:
    for i in range(3):
        charge(ledger, f"key {i}")
    return list(ledger.store.after(DATASET, 0))


def refolded(found: list[chain.StoredRow]) -> LedgerState:
    state = LedgerState(DATASET)
    for row in found:
        state.apply(chain.opened(row, DATASET, state.head))
    return state


@of_each(
    "change, message",
    [
        (lambda r: [*r[:2], chain.StoredRow(3, r[2].body.replace("0.01", "0.00"), r[2].hash), r[3]], "does not match its hash"),
        (lambda r: [*r[:2], r[3]], "missing from the chain"),
        (lambda r: [r[0], r[2], r[1], r[3]], "missing from the chain"),
        (lambda r: [*r[:2], resealed(r[2], previous="f" * 64)], "does not follow the entry before it"),
        (lambda r: [*r[:2], resealed(r[2], seq=4)], "its content belongs elsewhere"),
        (lambda r: [*r[:2], resealed(r[2], dataset="other")], "its content belongs elsewhere"),
        (lambda r: [*r[:3], resealed(r[3], key="key 0")], "charges the key 'key 0' again"),
        (lambda r: [*r[:3], resealed(r[3], cost={"epsilon": "0.981", "delta": "0"})], "overspends the cap"),
        (lambda r: [*r[:3], resealed(r[3], kind="void", key="key 0")], "void of a run that is committed"),
        (lambda r: [*r[:2], chain.StoredRow(3, r[2].body + " ", chain.digest(r[2].body + " "))], "its content belongs elsewhere"),
    ],
)
def test_a_changed_chain_is_refused(
    change: Callable[[list[chain.StoredRow]], list[chain.StoredRow]], message: str, ledger: Ledger
) -> None:
    whole = rows(ledger)  # the same ones for each change
    assert refolded(whole).spent["epsilon"] == Decimal("0.03")
    with pytest.raises(LedgerError, match=message):
        refolded(change(whole))


def resealed(row: chain.StoredRow, **changes: object) -> chain.StoredRow:
    """A row with another content and the hash that fits it."""
    import json

    body = chain.canonical(json.loads(row.body) | changes)
    return chain.StoredRow(row.seq, body, chain.digest(body))


def test_an_anchor_misses_what_a_backup_lacks(ledger: Ledger, path: str, tmp_path: Path) -> None:
    charge(ledger, "kept")
    ledger.store.close()
    backup = Path(path).read_bytes()
    ledger = open_ledger(path, DATASET)
    charge(ledger, "lost")
    anchor = anchor_of(ledger)
    ledger.store.close()
    Path(path).write_bytes(backup)
    restored = open_ledger(path, DATASET)
    with pytest.raises(LedgerError, match="restored from an old backup"):
        verify(restored, anchor)
    charge(restored, "another")
    with pytest.raises(LedgerError, match="another history was put in its place"):
        verify(restored, anchor)


def test_data_has_one_ledger_whatever_it_is_called(path: str) -> None:
    from dataclasses import replace

    init(path, DATASET, replace(terms(), fingerprint="f" * 64))
    with pytest.raises(LedgerError, match="found the fingerprint of dataset"):
        init(path, "renamed", replace(terms(), fingerprint="f" * 64))
    assert open_ledger(path).store.datasets() == (DATASET,)


def test_a_run_under_another_relation_is_not_added_up(path: str) -> None:
    from dataclasses import replace

    other = init(path, DATASET, replace(terms(), adjacency="replace-one"))
    with pytest.raises(InputError, match="DP103"):
        other.spend(run(), "key")


# --- the file


def test_a_new_ledger_is_for_its_owner_alone(ledger: Ledger, path: str) -> None:
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600


def test_a_race_for_the_place_of_a_new_ledger_has_one_winner(path: str) -> None:
    def fill(store: SqliteStore) -> None:
        open_dataset(store, DATASET, terms())
        with suppress(RecursionError):
            init(path, "theirs", terms())

    with pytest.raises(LedgerError, match="expected no file, found one"):
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


def test_mounts_decide_what_is_a_network_file_system(monkeypatch: pytest.MonkeyPatch) -> None:
    mounts = "none / ext4 rw 0 0\nserver:/x /data nfs4 rw 0 0\nlocal /data/fast\\040disk xfs rw 0 0\nhost /home fuse.sshfs rw 0 0\n"
    monkeypatch.setattr(Path, "read_text", lambda self, **_: mounts)
    found = [
        sqlite_file.network_file_system(place) for place in ("/data/l.db", "/data/fast disk/l.db", "/database/l.db", "/home/l.db")
    ]
    assert found == ["nfs4", None, None, "fuse.sshfs"]


def test_writers_in_threads_reach_the_cap_exactly(ledger: Ledger, path: str) -> None:
    def spend(name: int) -> None:
        mine = open_ledger(path, DATASET)
        with suppress(Denied):
            for i in range(99):
                charge(mine, f"{name}-{i}", "0.05")

    threads = [threading.Thread(target=spend, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert spent(path) == 1

"""No command waits for ever: each that opens a ledger, against whatever keeps a database or a file from answering."""

from __future__ import annotations

import os
import socket
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from dpcli.errors import LedgerError
from dpcli.ledger.budget import budget
from dpcli.ledger.stores import postgres, postgres_patience, sqlite
from dpcli.ledger.stores.places import init, open_ledger
from tests.cli.test_ledger_closed import ALL, called, marks
from tests.ledger.conftest import OWNER, Database
from tests.ledger.freezing import SOON, Freezes
from tests.ledger.setting import DATASET, charge, run, terms

LOCK, ANSWER, CONNECT = 0.3, 1.0, 1  # seconds
LOOKS_AWAY = {("doctor",)}  # what it finds is a line of its report


class StartsUp(Freezes):
    """Passes on until a connection stands, and nothing after that."""

    def pass_on(self, one: socket.socket, other: socket.socket) -> None:
        with suppress(OSError):
            while data := one.recv(65536):
                while self.frozen.is_set():
                    time.sleep(0.02)
                other.sendall(data)
                if data.endswith(b"Z\0\0\0\5I"):
                    self.frozen.set()


@contextmanager
def silent(database: Database, folder: Path) -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"postgresql://user@127.0.0.1:{server.getsockname()[1]}/db?connect_timeout={CONNECT}"


@contextmanager
def starts_up(database: Database, folder: Path) -> Iterator[str]:
    StartsUp(folder, database.cluster.folder).start()
    yield replace(database.cluster, folder=str(folder)).url(database.name, OWNER)


@contextmanager
def locked_rows(database: Database, folder: Path) -> Iterator[str]:
    with database.cluster.connect(database.name) as connection:
        connection.execute("BEGIN")
        connection.execute("LOCK dpcli.dataset, dpcli.entry, dpcli.format")
        yield database.url


@contextmanager
def full(database: Database, folder: Path) -> Iterator[str]:
    with ExitStack() as stack:
        with suppress(Exception):
            while True:
                stack.enter_context(closing(database.cluster.connect(database.name)))
        yield database.url


@contextmanager
def nobody(database: Database, folder: Path) -> Iterator[str]:
    yield f"postgresql://user@no-such-host.invalid/db?connect_timeout={CONNECT}"


@contextmanager
def locked_file(database: Database, folder: Path) -> Iterator[str]:
    init(str(folder / "l.db"), DATASET, terms()).close()
    with closing(sqlite3.connect(folder / "l.db", isolation_level=None)) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        yield str(folder / "l.db")


@contextmanager
def pipe(database: Database, folder: Path) -> Iterator[str]:
    os.mkfifo(folder / "l.db")
    yield str(folder / "l.db")


@contextmanager
def pipe_beside(database: Database, folder: Path) -> Iterator[str]:
    """SQLite would open it as the journal of a transaction that was cut short."""
    init(str(folder / "l.db"), DATASET, terms()).close()
    os.mkfifo(folder / "l.db-journal")
    yield str(folder / "l.db")


HURDLES = (silent, starts_up, locked_rows, full, nobody, locked_file, pipe, pipe_beside)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same limits, shorter."""
    monkeypatch.setattr(postgres_patience.Limits, "answer", property(lambda limits: ANSWER))
    monkeypatch.setattr(postgres.PostgresStore.__init__, "__defaults__", (LOCK, False, ANSWER))
    monkeypatch.setattr(postgres.create, "__defaults__", (LOCK, ANSWER))
    monkeypatch.setattr(sqlite.SqliteStore.__init__, "__defaults__", (sqlite.connect, LOCK, False))


@pytest.fixture(params=HURDLES, ids=[hurdle.__name__ for hurdle in HURDLES])
def hindered(request: pytest.FixtureRequest, database: Database, tmp_path: Path) -> Iterator[str]:
    init(database.url, DATASET, terms()).close()
    request.getfixturevalue("impatient")  # now: what is prepared may take its time
    with request.param(database, tmp_path) as url:
        yield url


@pytest.mark.sampled(12)
@pytest.mark.parametrize("words", [pytest.param(words, id=" ".join(words), marks=marks(words)) for words in ALL])
def test_every_command_ends_with_a_word(words: tuple[str, ...], hindered: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("work")
    began = time.monotonic()
    done = called(words, folder, hindered)
    assert time.monotonic() - began < SOON
    assert done.code == (0 if words in LOOKS_AWAY else 4), done


CALLS: dict[str, Callable[[str], object]] = {
    "budget, spend": lambda url: budget(url, DATASET).spend(run(), "key"),
    "budget, reserve": lambda url: budget(url, DATASET).reserve(run(), "key"),
    "open_ledger": lambda url: charge(open_ledger(url, DATASET), "key"),
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("call", CALLS)
def test_every_call_from_python_ends_with_a_word(call: str, hindered: str) -> None:
    began = time.monotonic()
    with pytest.raises(LedgerError):
        CALLS[call](hindered)
    assert time.monotonic() - began < SOON


@pytest.mark.parametrize("kind", ["symbolic link", "directory"])
@pytest.mark.parametrize("end", ["-journal", "-wal", "-shm"])
def test_what_lies_beside_a_file_is_a_file(end: str, kind: str, tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    init(str(path), DATASET, terms()).close()
    beside = Path(f"{path}{end}")
    beside.mkdir() if kind == "directory" else beside.symlink_to("/dev/null")
    with pytest.raises(LedgerError, match=f"expected nothing but a journal beside it, found a {kind}"):
        open_ledger(str(path), DATASET)


def test_nobody_waits_for_who_does_not_say_who_holds_a_row(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server answers that the row is locked, and then nothing more."""
    init(database.url, DATASET, terms()).close()
    between = Freezes(tmp_path, database.cluster.folder)
    between.start()
    through = replace(database.cluster, folder=str(tmp_path)).url(database.name, OWNER)
    monkeypatch.setattr(postgres_patience.Limits, "answer", property(lambda limits: 2.0))
    monkeypatch.setattr(postgres_patience, "OWN_NAMES", "SELECT pg_catalog.pg_sleep(3600)")
    with database.cluster.connect(database.name) as connection:
        connection.execute("BEGIN")
        connection.execute("SELECT FROM dpcli.dataset FOR UPDATE")
        ledger = open_ledger(through, DATASET)
        ledger.store._limits = postgres_patience.Limits(0.3)  # type: ignore[attr-defined]
        began = time.monotonic()
        with pytest.raises(LedgerError, match="locked by another writer for too long"):
            charge(ledger, "key")
        assert time.monotonic() - began < SOON
    ledger.close()

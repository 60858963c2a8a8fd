"""Tests that no command waits forever if a database or file does not answer: every command that opens a ledger, every obstacle."""

from __future__ import annotations

import os
import signal
import socket
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from dpcli.base.errors import LedgerError
from dpcli.ledger.budget import budget
from dpcli.ledger.stores import postgres, postgres_connection, sqlite
from dpcli.ledger.stores.places import init, open_ledger
from tests.ledger.conftest import Database
from tests.ledger.every_command import ALL, called
from tests.ledger.filters.setting import DATASET, charge, run, terms
from tests.ledger.postgres.proxy import Proxy
from tests.waiting import PATIENCE

LOCK, ANSWER, CONNECT = 0.3, 1.0, 1  # seconds
CODES = {("doctor",): 0, ("pmixed", "predict"): 2}  # the ledger is a line of its report; no fit is there, which is asked for first


@contextmanager
def silent(database: Database, folder: Path) -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"postgresql://user@127.0.0.1:{server.getsockname()[1]}/db?connect_timeout={CONNECT}"


@contextmanager
def starts_up(database: Database, folder: Path) -> Iterator[str]:
    """Passes on until a connection stands, and nothing after that."""
    yield Proxy(folder, database, freeze_when_ready=True).url


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


HURDLES = (locked_rows, starts_up, silent, full, nobody, locked_file, pipe)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_connection.Limits, "answer", property(lambda limits: ANSWER))
    monkeypatch.setattr(postgres.PostgresStore.__init__, "__defaults__", (LOCK, False, ANSWER))
    monkeypatch.setattr(postgres.create, "__defaults__", (LOCK, ANSWER))
    monkeypatch.setattr(sqlite.SqliteStore.__init__, "__defaults__", (sqlite.connect, LOCK, False))


CALLS: dict[str, Callable[[str], object]] = {
    "budget, spend": lambda url: budget(url, DATASET).spend(run(), "key"),
    "budget, reserve": lambda url: budget(url, DATASET).reserve(run(), "key"),
    "open_ledger": lambda url: charge(open_ledger(url, DATASET), "key"),
}
ASKED = [*CALLS, *(words for words in ALL if words[0] not in ("train", "sweep") or find_spec("torch") is not None)]


@contextmanager
def ending(asked: object) -> Iterator[None]:
    """Whatever waits for ever in the block is interrupted, after minutes."""

    def stop(*_: object) -> None:
        pytest.fail(f"{asked} waits for ever")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, PATIENCE)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def shares() -> Iterator[Any]:
    """Each hurdle with one of what is asked, in a quick run; with its share of all, in a long one; with all."""
    for i, hurdle in enumerate(HURDLES):
        share = ASKED[i :: len(HURDLES)]
        for name, asked, marks in (
            ("one", share[:1], ()),
            ("share", share, pytest.mark.long),
            ("all", ASKED, pytest.mark.nightly),
        ):
            yield pytest.param(hurdle, asked, id=f"{hurdle.__name__}-{name}", marks=marks)


@pytest.mark.sampled(1, 1)
@pytest.mark.parametrize(("hurdle", "asked"), list(shares()))
def test_every_command_and_every_call_from_python_ends_with_a_word(
    hurdle: Any, asked: list[Any], database: Database, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    init(database.url, DATASET, terms()).close()
    request.getfixturevalue("impatient")  # now: what is prepared may take its time
    for number, one in enumerate(asked):
        (between := tmp_path / f"{number}").mkdir()
        (work := tmp_path / f"work {number}").mkdir()
        with hurdle(database, between) as url, ending(one):
            if one in CALLS:
                with pytest.raises(LedgerError):
                    CALLS[one](url)
                continue
            done = called(one, work, url)
        assert done.code == CODES.get(one, 4), (one, done)


def test_everything_is_asked_and_every_hurdle_is_met() -> None:
    """A long test run asks everything once; a quick one has every hurdle, and both commands and calls."""
    quick, long = ([case.values for case in shares() if case.id.endswith(name)] for name in ("one", "share"))
    assert [one for i in range(len(ASKED)) for one in [dict(long)[HURDLES[i % len(HURDLES)]][i // len(HURDLES)]]] == ASKED
    assert {hurdle for hurdle, _ in quick} == set(HURDLES) and len(ASKED) > 2 * len(HURDLES)
    assert {one in CALLS for _, asked in quick for one in asked} == {True, False}


@pytest.mark.nightly
@pytest.mark.long
def test_a_server_that_does_not_name_the_holder_of_a_lock_is_not_waited_for(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server reports that the row is locked, and then answers no further query."""
    init(database.url, DATASET, terms()).close()
    through = Proxy(tmp_path, database).url
    monkeypatch.setattr(postgres_connection.Limits, "answer", property(lambda limits: 2.0))
    monkeypatch.setattr(postgres_connection, "SET_SEARCH_PATH", "SELECT pg_catalog.pg_sleep(3600)")
    with database.cluster.connect(database.name) as connection:
        connection.execute("BEGIN")
        connection.execute("SELECT FROM dpcli.dataset FOR UPDATE")
        ledger = open_ledger(through, DATASET)
        ledger.store._limits = postgres_connection.Limits(0.3)  # type: ignore[attr-defined]
        with ending("a charge"), pytest.raises(LedgerError, match="locked by another writer for too long"):
            charge(ledger, "key")
    ledger.close()

"""Every wait for the database has an end, and says who is in the way."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from dpcli.base.errors import LedgerError
from dpcli.ledger.ledger import Ledger, open_dataset
from dpcli.ledger.stores import postgres_connection
from dpcli.ledger.stores.places import init, open_store
from dpcli.ledger.stores.postgres import BUSY_SECONDS, PostgresStore, create
from dpcli.ledger.verify import verify
from tests.cases import of_each
from tests.ledger.conftest import Database
from tests.ledger.filters.setting import DATASET, charge, terms
from tests.ledger.postgres.proxy import Proxy

ASKED: dict[str, Callable[[Ledger], object]] = {
    "read": lambda ledger: ledger.entries(),
    "names": lambda ledger: ledger.store.datasets(),
    "who": lambda ledger: ledger.store.who,
    "time": lambda ledger: ledger.store.now(),
    "spend": lambda ledger: charge(ledger, "run"),
    "verify": verify,
    "schema": lambda ledger: ledger.store.schema(),
    "check": lambda ledger: ledger.store.check(),
    "open": lambda ledger: open_dataset(ledger.store, "another", terms()),
}


@pytest.mark.long
@pytest.mark.sampled(0, 1)
@pytest.mark.parametrize("asked", ASKED)
def test_a_frozen_connection_is_given_up(database: Database, tmp_path: Path, asked: str, monkeypatch: pytest.MonkeyPatch) -> None:
    init(database.url, DATASET, terms()).store.close()
    between = Proxy(tmp_path, database)
    ledger = Ledger(PostgresStore(between.url), DATASET)
    between.frozen.set()
    monkeypatch.setattr(postgres_connection.Limits, "answer", property(lambda limits: 1.0))
    with pytest.raises(LedgerError, match="the server has not answered for 1 s"):
        ASKED[asked](ledger)


@pytest.mark.nightly
@pytest.mark.long
def test_a_server_that_takes_connections_and_says_nothing(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import psycopg

    connect, limits = psycopg.connect, list[object]()
    monkeypatch.setattr(psycopg, "connect", lambda *url, **given: limits.append(given["connect_timeout"]) or connect(*url, **given))
    url = Proxy(tmp_path, database, frozen=True).url + "&connect_timeout=1"
    for ask in (lambda: open_store(url), lambda: init(url, DATASET, terms())):
        with pytest.raises(LedgerError, match="cannot connect"):
            ask()
    assert limits and set(limits) == {1}


@pytest.mark.parametrize("number", [0x6470636C, 0])
def test_a_lock_that_anybody_can_take_stops_nobody(database: Database, number: int) -> None:
    nick = database.cluster.login("nick")
    with database.cluster.connect(database.name, nick) as connection:
        connection.execute("SELECT pg_advisory_lock(%s)", (number,))
        init(database.url, DATASET, terms()).store.close()
        charge(Ledger(PostgresStore(database.url), DATASET), "run")


@pytest.mark.nightly
@pytest.mark.long
@of_each("milliseconds", [0, -1, 1, 2**31 - 1])
def test_a_spender_who_holds_a_dataset_is_named_and_stops_no_reader(database: Database, milliseconds: int) -> None:
    held = f"held for {milliseconds}"
    init(database.url, held, terms()).store.close()
    sam = database.cluster.login("sam", "dpcli_spender")
    with closing(database.cluster.connect(database.name, sam)) as connection:
        connection.execute("BEGIN")
        connection.execute("SELECT dpcli.hold(%s, %s)", (held, milliseconds))
        assert connection.execute("SHOW lock_timeout").fetchone() not in [("0",), ("-1",)]
        connection.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
        writer = Ledger(PostgresStore(database.url, 0.3), held)
        number = connection.info.backend_pid
        with pytest.raises(LedgerError, match=rf"held by sam \(server process {number}\)"):
            charge(writer, "run")
        assert len(writer.entries()) == 1
        assert verify(writer).problems == ()
        init(database.url, f"second of {milliseconds}", terms()).store.close()
        database.cluster.run(f"SELECT pg_terminate_backend({number}, 5000)")  # as the message says
    charge(writer, "run")


def test_a_writer_that_stops_is_ended_before_those_who_wait_give_up(database: Database) -> None:
    init(database.url, DATASET, terms()).store.close()
    with closing(PostgresStore(database.url)) as store, store.writing(DATASET) as tail:
        (limit,) = tail.connection.execute("SHOW idle_in_transaction_session_timeout").fetchone()
    assert limit.endswith("s") and 0 < int(limit[:-1]) < BUSY_SECONDS


@pytest.mark.long
def test_an_opening_that_somebody_holds_up_ends(database: Database) -> None:
    init(database.url, DATASET, terms()).store.close()
    ada = database.cluster.login("ada", "dpcli_admin")
    with database.cluster.connect(database.name, ada) as connection:
        connection.execute("BEGIN")
        connection.execute("SELECT dpcli.hold('no such dataset', 1)")
        with pytest.raises(LedgerError, match=r"locked by another writer for too long.*held by ada"):
            create(database.url, lambda store: open_dataset(store, "second", terms()) and None, seconds=0.3)


@pytest.mark.long
def test_a_schema_that_somebody_is_making_is_waited_for_and_no_longer(bare: Database) -> None:
    with bare.cluster.connect(bare.name) as connection:
        connection.execute("BEGIN")
        connection.execute("CREATE SCHEMA dpcli")
        with pytest.raises(LedgerError, match="locked by another writer for too long"):
            create(bare.url, lambda store: open_dataset(store, DATASET, terms()) and None, seconds=0.3)
        connection.execute("ROLLBACK")
    shown: list[object] = []
    create(bare.url, lambda store: shown.append(store.connection.execute("SHOW lock_timeout").fetchone()), seconds=0.3)
    assert shown == [("300ms",)]
    init(bare.url, DATASET, terms()).store.close()


@pytest.mark.long
def test_a_reservation_is_moved_by_its_maker_or_an_administrator(database: Database) -> None:
    init(database.url, DATASET, terms()).store.close()
    people = {
        name: database.cluster.login(name, role)
        for name, role in (("sam", "dpcli_spender"), ("mia", "dpcli_spender"), ("ada", "dpcli_admin"))
    }
    ledgers = {name: Ledger(PostgresStore(database.cluster.url(database.name, name)), DATASET) for name in people}
    for move in ("start", "commit", "void"):
        one, two = f"one to {move}", f"two to {move}"
        for key in (one, two):
            charge(ledgers["sam"], key, kind="reserve")
        with pytest.raises(LedgerError, match="that reservation is of sam"):
            getattr(ledgers["mia"], move)(one, "I would like to")
        with pytest.raises(Exception, match="--reason"):
            getattr(ledgers["ada"], move)(one, "")
        assert getattr(ledgers["ada"], move)(one, "sam is on leave").entry.content["who"] == "ada", move
        assert not getattr(ledgers["sam"], move)(two, "mine").repeated


WARNS = """
CREATE FUNCTION public.warns() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE WARNING 'no standby has it'; RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER warns AFTER INSERT ON dpcli.entry DEFERRABLE {when} FOR EACH ROW EXECUTE FUNCTION public.warns()
"""


MOMENTS = (("INITIALLY DEFERRED", False), ("INITIALLY IMMEDIATE", True))


@pytest.mark.long
@of_each("when, acknowledged, heard", [(*moment, heard) for moment in MOMENTS for heard in ("notice", "error")])
def test_a_commit_with_a_warning_is_not_acknowledged(database: Database, when: str, acknowledged: bool, heard: str) -> None:
    """A server that stops waiting for its standby (a statement's time is over, somebody cancels) commits, and warns: whatever a setting
    says of warnings."""
    init(database.url, f"{when}, {heard}", terms()).store.close()
    ledger = Ledger(PostgresStore(f"{database.url}&options=-c%20client_min_messages%3D{heard}"), f"{when}, {heard}")
    with database.cluster.connect(database.name) as owner:
        owner.execute(WARNS.format(when=when))
    try:
        if acknowledged:  # a warning before the commit is none about it
            assert not charge(ledger, "a").repeated
        else:
            with pytest.raises(LedgerError, match=r"no standby has it.*may be written or not"):
                charge(ledger, "a")
        assert charge(ledger, "a").repeated  # the same key finds out
    finally:
        database.cluster.run("DROP FUNCTION public.warns CASCADE", database=database.name)

"""Tests that every wait for the database ends, with a message that names the login that holds the lock."""

from __future__ import annotations

import json
import os
import random
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from dpcli.base.errors import Denied, InputError, LedgerError
from dpcli.ledger.chain import Head, StoredRow, digest, is_sealed_again, seal
from dpcli.ledger.filters.filter import Cost
from dpcli.ledger.ledger import Ledger
from dpcli.ledger.requests import Charge
from dpcli.ledger.stores import postgres_connection
from dpcli.ledger.stores.places import init, open_dataset, open_store
from dpcli.ledger.stores.postgres import PostgresStore, create
from dpcli.ledger.verify import verify
from tests.cases import of_each
from tests.ledger.conftest import Database
from tests.ledger.deaths_and_damage.deaths import Deadly
from tests.ledger.filters.setting import DATASET, TABLES, charge, terms
from tests.ledger.postgres.cluster import OWNER
from tests.ledger.postgres.proxy import Proxy
from tests.ledger.spenders import started
from tests.waiting import until

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


SHORT = "CREATE OR REPLACE FUNCTION dpcli.patience() RETURNS integer LANGUAGE sql IMMUTABLE AS 'SELECT 250'"


def appended(connection: Any, ledger: Ledger, key: str) -> None:
    """Append a valid charge in an open transaction, as a login does who knows SQL."""
    content = {"kind": "spend", "key": key, "pipeline": TABLES, "delta": "0.0", "cost": {"epsilon": "0.1"}, "detail": ""}
    who = connection.info.user
    row = seal({**ledger._with_signature(content), "who": who}, ledger.dataset, ledger.state().head).row
    connection.execute("BEGIN")
    connection.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
    connection.execute("SAVEPOINT one")
    connection.execute("SELECT dpcli.append(%s, %s, %s, %s)", (ledger.dataset, row.seq, row.body, row.hash))
    connection.execute("RELEASE one")


def stopped(url: str, key: str) -> int:
    """A process that stops as SIGSTOP stops it, with an entry ready to be sent."""
    child = started(lambda: charge(Ledger(Deadly(open_store(url), "about to commit", signal.SIGSTOP), DATASET), key) and None)
    os.waitpid(child, os.WUNTRACED)
    return child


def test_a_client_that_stops_before_it_appends_blocks_nobody(database: Database) -> None:
    init(database.url, DATASET, terms()).store.close()
    child = stopped(database.url, "stopped")
    try:
        with Ledger(PostgresStore(database.url, 0.3), DATASET) as ledger:
            charge(ledger, "a")
            os.kill(child, signal.SIGCONT)  # it finds that the chain has moved, and tries again
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
            assert list(ledger.state().runs) == [ledger.own_key("a"), ledger.own_key("stopped")]
    finally:
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)


@pytest.mark.long
def test_a_slow_writer_appends_after_the_fast_ones(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its first attempt succeeds, unless the others wrote about its run or spent its budget."""
    init(database.url, DATASET, terms()).store.close()
    others, slow, tried = Ledger(PostgresStore(database.url, 0.3), DATASET), PostgresStore(database.url), list[int]()
    before: list[Callable[[], object]] = [lambda: None]
    append = slow._append

    def late(dataset: str, rows: Any) -> Any:
        tried.append(1)
        before.pop()() if before else None
        return append(dataset, rows)

    monkeypatch.setattr(slow, "_append", late)
    book = Ledger(slow, DATASET)

    def attempts(meanwhile: Callable[[], object], own: Callable[[], object]) -> int:
        before[:], tried[:] = [meanwhile], []
        own()
        assert book.state().head == others.state().head
        return len(tried)

    assert attempts(lambda: [charge(others, f"other {i}") for i in range(3)], lambda: charge(book, "slow")) == 1
    assert attempts(lambda: charge(others, "same"), lambda: charge(book, "same").repeated or 1 / 0) == 1
    assert attempts(lambda: charge(others, "ä\U0001f600 1"), lambda: charge(book, "long ä\U0001f600", kind="reserve")) == 1
    assert attempts(lambda: charge(others, "other"), lambda: book.start("long ä\U0001f600")) == 1
    assert (
        attempts(lambda: others.count("long ä\U0001f600", "answers", 2, 9), lambda: book.count("long ä\U0001f600", "answers", 3, 9))
        == 2
    )
    assert book.state().run("long ä\U0001f600").counts == {"answers": 5}
    assert (
        attempts(lambda: others.amend(2, "a", "board", acknowledged=True), lambda: book.amend(3, "b", "board", acknowledged=True))
        == 2
    )
    with pytest.raises(Denied, match="over the cap"):
        attempts(lambda: charge(others, "large", "2.9"), lambda: charge(book, "late", "0.9"))
    with pytest.raises(LedgerError, match="differs in"):
        attempts(lambda: charge(others, "taken"), lambda: charge(book, "taken", kind="reserve"))
    assert verify(others).problems == ()


def test_the_database_seals_as_dpcli_does(database: Database) -> None:
    """Only the number, the previous hash and the time of an entry change, however its numbers and texts are spelled."""
    seed = random.randrange(2**32)
    draw = random.Random(seed)
    with database.cluster.connect(database.name) as owner:
        for _ in range(50):
            numbers = [
                draw.choice((1e-06, 1e22, 1e16, 0.1, 5e-324, -0.0, 10**20, 1.0)) * draw.choice((1, draw.random())) for _ in range(3)
            ]
            names = ["".join(draw.choices('aZ_ é\U0001f600"\\/\x7f', k=4)) for _ in range(3)]
            nested = {"seq": 1, "when": "then", **dict(zip(names, numbers, strict=True))}
            row = seal({"when": "now", **nested, "pipeline": [nested, True, None]}, "ä", Head(4, "f" * 64)).row
            (body,) = owner.execute("SELECT dpcli.sealed_again(%s, 77, %s)", (row.body, "a" * 64)).fetchone()
            assert is_sealed_again(row, StoredRow(77, body, digest(body))), (seed, row.body, body)
            content = json.loads(body)
            assert (content["seq"], content["previous"]) == (77, "a" * 64) and content["when"] != "now", seed


@pytest.mark.long
def test_no_output_is_said_to_be_unseen_if_a_charge_was_faster(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once there is a charge, raising the cap needs a statement about outputs, also if it came in between."""
    init(database.url, DATASET, terms()).store.close()
    admin, writer = (Ledger(PostgresStore(database.url), DATASET) for _ in range(2))
    append, before = admin.store._append, [lambda: charge(writer, "first")]
    monkeypatch.setattr(admin.store, "_append", lambda *given: (before and before.pop()(), append(*given))[1])
    with pytest.raises(InputError, match="--no-output-seen"):
        admin.amend(2.0, "more", "board")
    before.append(lambda: charge(writer, "second"))
    assert admin.amend(2.0, "more", "board", unseen=True).state.guaranteed == 2.0 and len(writer.entries()) == 4


@pytest.mark.long
def test_a_batch_holds_up_others_for_a_while_at_most(database: Database) -> None:
    """Slow checks come before the lock. Those under the lock have a time limit, whose error is not retried."""
    init(database.url, DATASET, terms()).store.close()
    sam, writer = database.cluster.login("sam", "dpcli_spender"), Ledger(PostgresStore(database.url), DATASET)
    with closing(database.cluster.connect(database.name, sam)) as connection:
        appended(connection, writer, "sam's")
        body = seal({"kind": "other"}, DATASET, Head(1, "f" * 64)).row.body
        with database.cluster.connect(database.name, sam) as other, pytest.raises(Exception, match="expected a known kind"):
            other.execute("SELECT dpcli.append_all(%s, 2, %s, %s, 1)", (DATASET, [body], [digest(body)]))
        connection.execute("ROLLBACK")
    with database.cluster.connect(database.name) as owner:
        (text,) = owner.execute("SELECT pg_get_functiondef('dpcli.append_all'::regproc)").fetchone()
        owner.execute(text.replace("interval '25 seconds'", "interval '0 seconds'"))
    with pytest.raises(LedgerError, match="over the time: 1 entries"):
        charge(writer, "a")
    assert len(writer.entries()) == 1


SLOW = "CREATE OR REPLACE FUNCTION dpcli.every() RETURNS bigint LANGUAGE sql AS 'SELECT 256::bigint FROM pg_sleep(0.02)'"
WRITING = "SELECT count(*) FROM pg_locks WHERE mode = 'RowExclusiveLock' AND relation = 'dpcli.dataset'::regclass"


@pytest.mark.nightly
@pytest.mark.long
def test_a_long_batch_is_waited_for_and_not_ended(database: Database) -> None:
    with database.cluster.connect(database.name) as owner, ThreadPoolExecutor(1) as pool:
        owner.execute(SHORT)
        owner.execute(SLOW)
        init(database.url, DATASET, terms()).store.close()
        book, writer = (Ledger(PostgresStore(database.url), DATASET) for _ in range(2))
        cost = Cost({"epsilon": "0.001", "delta": "0"}, "stated")
        requests = [(Charge("spend", f"run {i}", TABLES, 0.0, cost, book.who), f"run {i}") for i in range(50)]
        batch = pool.submit(book.append_all, requests)
        assert until(lambda: owner.execute(WRITING).fetchone()[0])
        assert not charge(writer, "after").repeated
        assert len(batch.result()) == 50 and verify(writer).entries == 52


@pytest.mark.long
def test_a_transaction_that_stays_open_after_an_append_is_ended(database: Database) -> None:
    import psycopg

    with database.cluster.connect(database.name) as owner:
        owner.execute(SHORT)
    init(database.url, DATASET, terms()).store.close()
    sam, writer = database.cluster.login("sam", "dpcli_spender"), Ledger(PostgresStore(database.url), DATASET)
    granted = f"GRANT pg_signal_backend TO {OWNER}"
    database.cluster.run(granted)
    try:
        with closing(database.cluster.connect(database.name, sam)) as connection:
            appended(connection, writer, "sam's")
            assert not charge(writer, "a").repeated
            assert [run.key for run in writer.state().runs.values()] == [writer.own_key("a")]
            with pytest.raises(psycopg.OperationalError):
                connection.execute("COMMIT")
    finally:
        database.cluster.run(granted.replace("GRANT", "REVOKE").replace(" TO ", " FROM "))
    assert verify(writer).entries == 2


@pytest.mark.nightly
@pytest.mark.long
def test_a_transaction_that_stays_open_after_a_long_statement_is_ended(database: Database) -> None:
    """Also by writers who began to wait while its statement was still appending."""
    with database.cluster.connect(database.name) as owner:
        owner.execute(SHORT)
    init(database.url, DATASET, terms()).store.close()
    sam, writer = database.cluster.login("sam", "dpcli_spender"), Ledger(PostgresStore(database.url), DATASET)
    writer.state()
    with database.cluster.connect(database.name) as owner:
        owner.execute(SLOW.replace("0.02", "1"))
        granted = f"GRANT pg_signal_backend TO {OWNER}"
        database.cluster.run(granted)
        try:
            with closing(database.cluster.connect(database.name, sam)) as connection, ThreadPoolExecutor(1) as pool:
                append = pool.submit(appended, connection, Ledger(PostgresStore(database.url), DATASET), "sam's")
                assert until(lambda: owner.execute(WRITING).fetchone()[0])
                assert not charge(writer, "a").repeated
                append.result()
        finally:
            database.cluster.run(granted.replace("GRANT", "REVOKE").replace(" TO ", " FROM "))
    assert [run.key for run in writer.state().runs.values()] == [writer.own_key("a")]


@pytest.mark.long
@pytest.mark.parametrize("short_wait", [False, True])
def test_a_transaction_that_stays_open_is_named_to_whoever_may_not_wait(database: Database, short_wait: bool) -> None:
    """It is not ended by a writer with a short wait, or without the right to end it."""
    if not short_wait:
        with database.cluster.connect(database.name) as owner:
            owner.execute(SHORT)
    init(database.url, DATASET, terms()).store.close()
    sam, writer = database.cluster.login("sam", "dpcli_spender"), Ledger(PostgresStore(database.url, 0.3), DATASET)
    with closing(database.cluster.connect(database.name, sam)) as connection:
        appended(connection, writer, "sam's")
        number = connection.info.backend_pid
        with pytest.raises(LedgerError, match=rf"locked by another writer for too long.*held by sam \(server process {number}\)"):
            charge(writer, "a")
        assert len(writer.entries()) == 1
        assert verify(writer).entries == 1
        init(database.url, "second", terms()).store.close()
        connection.execute("COMMIT")
    charge(writer, "a")
    assert len(writer.entries()) == 3


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


@pytest.mark.long
@of_each("when, heard", [(f"INITIALLY {when}", heard) for when in ("DEFERRED", "IMMEDIATE") for heard in ("notice", "error")])
def test_a_commit_with_a_warning_is_not_acknowledged(database: Database, when: str, heard: str) -> None:
    """A server that stops waiting for its standby commits with a warning, whatever level of messages the client sees."""
    init(database.url, f"{when}, {heard}", terms()).store.close()
    ledger = Ledger(PostgresStore(f"{database.url}&options=-c%20client_min_messages%3D{heard}"), f"{when}, {heard}")
    with database.cluster.connect(database.name) as owner:
        owner.execute(WARNS.format(when=when))
    try:
        with pytest.raises(LedgerError, match=r"no standby has it.*may be written or not"):
            charge(ledger, "a")
        assert charge(ledger, "a").repeated  # the same key finds out
    finally:
        database.cluster.run("DROP FUNCTION public.warns CASCADE", database=database.name)

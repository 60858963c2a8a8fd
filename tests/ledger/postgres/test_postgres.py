"""Tests of the ledger in PostgreSQL: errors of the connection, the server and the database, and their messages."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from dpcli.base.errors import InputError, LedgerError
from dpcli.gate.gate_terms import ledger_conditions
from dpcli.ledger.ledger import Ledger
from dpcli.ledger.stores import postgres_connection
from dpcli.ledger.stores.places import init, open_dataset, open_store
from dpcli.ledger.stores.postgres import PostgresStore, create
from dpcli.ledger.verify import verify
from tests.command import dpcli
from tests.ledger.conftest import OWNER, Database
from tests.ledger.filters.setting import DATASET, charge, run, terms
from tests.ledger.postgres.cluster import Cluster, missing, running
from tests.waiting import until

SECRET = "s3cret-äß%/word"


@pytest.fixture
def ledger(database: Database) -> Iterator[Ledger]:
    """A ledger with a cap of 1, opened by its owner."""
    found = init(database.url, DATASET, terms())
    yield found
    found.store.close()


def other(database: Database, seconds: float = 30.0) -> Ledger:
    return Ledger(PostgresStore(database.url, seconds), DATASET)


@contextmanager
def setting(database: Database, text: str) -> Iterator[None]:
    database.cluster.run(f"ALTER DATABASE {database.name} SET {text}")
    yield
    database.cluster.run(f"ALTER DATABASE {database.name} RESET ALL")


def refusal(action: Callable[[], object]) -> str:
    """The message of the LedgerError that the action ends in."""
    with pytest.raises(LedgerError) as caught:
        action()
    assert caught.value.exit_code == 4
    assert "s3cret" not in "".join(traceback.format_exception(caught.value))
    return str(caught.value)


# No ledger.


def test_an_empty_database_is_no_ledger(bare: Database) -> None:
    assert refusal(lambda: open_store(bare.url)) == (
        f"postgresql://{OWNER}@{bare.cluster.folder}/{bare.name}: "
        "no ledger here (the database has no schema dpcli); dpcli budget init opens one"
    )


def test_a_schema_of_that_name_that_is_no_ledger(bare: Database) -> None:
    bare.cluster.run(f"CREATE SCHEMA dpcli AUTHORIZATION {OWNER}", database=bare.name)
    assert "not a ledger of this version" in refusal(lambda: open_store(bare.url))


def test_a_ledger_of_a_later_version(database: Database, ledger: Ledger) -> None:
    database.cluster.run("INSERT INTO dpcli.format VALUES (99)", database=database.name)
    assert refusal(lambda: open_store(database.url)).endswith("written by a later version of dpcli: upgrade to read it")
    assert "later version" in refusal(lambda: init(database.url, "second", terms()))


def test_no_server(database: Database, tmp_path: Path) -> None:
    assert "cannot connect: " in refusal(lambda: open_store(f"postgresql://somebody@/ledger?host={tmp_path}"))


def test_no_database_and_no_user(cluster: Cluster) -> None:
    assert refusal(lambda: open_store(cluster.url("nothing"))).endswith("the server has no database with that name")
    assert refusal(lambda: open_store(cluster.url("postgres", "nobody at all"))).endswith("the server has no such user")


def test_a_failure_while_opening_leaves_no_schema(bare: Database) -> None:
    def fail(store: PostgresStore) -> None:
        open_dataset(store, DATASET, terms())
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        create(bare.url, fail)
    assert "no schema dpcli" in refusal(lambda: open_store(bare.url))


def test_many_may_open_the_first_ledger_at_once(bare: Database) -> None:
    names = ("a", "b", "c")
    with ThreadPoolExecutor(len(names)) as pool:
        opened = list(pool.map(lambda name: init(bare.url, name, terms()).dataset, names))
    assert opened == list(names)
    assert open_store(bare.url).datasets() == names


@pytest.mark.parametrize("name", ["half \ud800 of it", "null \0 inside"], ids=ascii)
def test_a_name_that_no_database_holds(ledger: Ledger, name: str) -> None:
    assert "a name " in refusal(lambda: ledger.store.after(name, 0))


def test_a_database_in_another_encoding(cluster: Cluster) -> None:
    cluster.run("CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0")
    try:
        assert "expected a database in UTF8, found LATIN1" in refusal(lambda: init(cluster.url("latin"), DATASET, terms()))
    finally:
        cluster.drop("latin")


def test_without_psycopg(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "psycopg"]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(InputError, match=r"pip install 'dpcli\[postgres\]'"):
        open_store("postgresql://localhost/ledger")


# Passwords.


@pytest.fixture
def locked_in(database: Database, ledger: Ledger) -> str:
    """A URL whose user has to show a password."""
    name = database.cluster.login("with_password", "dpcli_spender")
    database.cluster.run(f"ALTER ROLE {name} PASSWORD '{SECRET}'")
    return database.cluster.url(database.name, name, SECRET)


def test_a_password_is_nowhere_to_be_seen(locked_in: str, database: Database) -> None:
    store = PostgresStore(locked_in)
    found = Ledger(store, DATASET)
    charge(found, "run")
    seen = [store.place, repr(store), repr(vars(store)), repr(store.connection), found.who, *store.check(), store.schema()]
    seen += [row.body for row in store.after(DATASET, 0)]
    database.cluster.run("ALTER ROLE with_password CONNECTION LIMIT 0")
    store.close()
    seen.append(refusal(lambda: store.after(DATASET, 0)))
    database.cluster.run("ALTER ROLE with_password CONNECTION LIMIT -1")
    assert not [text for text in seen if "s3cret" in text]


def test_a_wrong_password_is_not_quoted(locked_in: str, database: Database) -> None:
    wrong = database.cluster.url(database.name, "with_password", f"{SECRET}-other")
    message = refusal(lambda: open_store(wrong))
    assert message.endswith("authentication failed: check the user and PGPASSWORD")
    assert "s3cret" not in message


def test_what_the_client_library_says_is_quoted_without_a_password() -> None:
    settings = {"host": "h", "password": "s3cret", "sslpassword": "s3cret.too"}
    error = postgres_connection.unreachable("here", OSError("could not use s3cret.too\n or s3cret at h"), settings)
    assert str(error) == "here: cannot connect: could not use *** or *** at h"


def test_a_password_from_the_environment(locked_in: str, database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = database.cluster.url(database.name, "with_password")
    assert "authentication failed" in refusal(lambda: open_store(plain))
    monkeypatch.setenv("PGPASSWORD", SECRET)
    assert open_store(plain).datasets() == (DATASET,)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://u:s3cret@word@host/db",
        "postgresql://u:s3cret@host:port/db",
        "postgresql://h/db?pasword=s3cret",
        "postgresql://u%3As3cret@localhost/led",
        "postgresql://u:s3cret/word@localhost/led",
    ],
)
def test_a_url_that_cannot_be_read_is_not_quoted(url: str) -> None:
    pytest.importorskip("psycopg", reason="psycopg reads the URL")
    with pytest.raises((InputError, LedgerError)) as caught:
        open_store(url)
    assert "s3cret" not in str(caught.value)
    assert "word" not in str(caught.value).replace("password", "").replace("PASSWORD", "")


# Writing.


def test_a_server_that_is_read_only(database: Database, ledger: Ledger) -> None:
    with setting(database, "default_transaction_read_only = on"):
        reader = other(database)
        assert len(reader.entries()) == 1
        assert "read-only" in refusal(lambda: charge(reader, "run"))


@contextmanager
def locked(database: Database, dataset: str) -> Iterator[int]:
    """A dataset that the owner of its tables has locked by hand, with the process that holds it."""
    with database.cluster.connect(database.name, OWNER) as connection:
        connection.execute("BEGIN")
        connection.execute("SELECT FROM dpcli.dataset WHERE name = %s FOR UPDATE", (dataset,))
        yield connection.info.backend_pid
        connection.execute("ROLLBACK")


@pytest.mark.long
def test_a_dataset_that_is_locked_for_too_long(database: Database, ledger: Ledger) -> None:
    hasty = other(database, seconds=0.2)
    with locked(database, DATASET) as process:
        assert refusal(lambda: charge(hasty, "run")).endswith(
            f"locked by another writer for too long; nothing was written; held by {OWNER} (server process "
            f"{process}); an administrator of the server can end it: SELECT pg_terminate_backend({process})"
        )
    charge(hasty, "run")


def test_datasets_do_not_lock_each_other(database: Database, ledger: Ledger) -> None:
    init(database.url, "second", terms())
    hasty = Ledger(PostgresStore(database.url, 0.2), "second")
    with locked(database, DATASET):
        charge(hasty, "run")


# Notes the settings under which each entry is written.
NOTES = """
CREATE FUNCTION public.notes() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN
  PERFORM set_config('tests.noted', current_setting('synchronous_commit') || ', ' || current_setting('transaction_isolation'), false);
  RETURN NEW;
END $$;
CREATE TRIGGER notes BEFORE INSERT ON dpcli.entry FOR EACH ROW EXECUTE FUNCTION public.notes()
"""


def noted(database: Database, found: Ledger) -> str:
    """The settings under which a charge is written."""
    with database.cluster.connect(database.name) as owner:
        owner.execute(NOTES)
    try:
        charge(found, "noted")
        (text,) = found.store.connection.execute("SHOW tests.noted").fetchone()
        return str(text)
    finally:
        database.cluster.run("DROP FUNCTION public.notes CASCADE", database=database.name)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("text", "expected"),
    [("synchronous_commit = off", "on, read committed"), ("default_transaction_isolation = serializable", "on, serializable")],
)
def test_settings_of_the_database_do_not_matter(database: Database, ledger: Ledger, text: str, expected: str) -> None:
    with setting(database, text):
        found = other(database)
        assert noted(database, found) == expected
        charge(found, "run")
        charge(ledger, "other")
        charge(found, "third")


def test_a_stronger_commit_is_left_alone(database: Database, ledger: Ledger) -> None:
    with setting(database, "synchronous_commit = remote_apply"):
        assert noted(database, other(database)) == "remote_apply, read committed"


def test_a_server_that_does_not_sync_takes_no_entry(database: Database, ledger: Ledger) -> None:
    database.cluster.run("ALTER SYSTEM SET fsync = off", "SELECT pg_reload_conf()")
    try:
        assert until(
            lambda: other(database).store.check() == ("the server runs with fsync off: commits may not survive a power failure",)
        )
        assert "the server runs with fsync off" in refusal(lambda: charge(other(database), "run"))
    finally:
        database.cluster.run("ALTER SYSTEM RESET fsync", "SELECT pg_reload_conf()")
    assert until(lambda: other(database).store.check() == ())
    charge(other(database), "run")


# Connections that are lost.


def kill(ledger: Ledger, database: Database) -> None:
    """End the ledger's connection from the server's side."""
    number = ledger.store.connection.info.backend_pid
    database.cluster.run(f"SELECT pg_terminate_backend({number}, 5000)")


def test_a_connection_lost_between_two_requests_is_opened_again(database: Database, ledger: Ledger) -> None:
    charge(ledger, "first")
    kill(ledger, database)
    assert "nothing more was written, and earlier entries remain valid" in refusal(lambda: charge(ledger, "second"))
    assert not charge(ledger, "second").repeated


@pytest.mark.long
def test_what_was_acknowledged_survives_a_crash_of_the_server() -> None:
    reason = missing()
    if reason is not None:
        pytest.skip(reason)
    with running() as cluster:
        url = cluster.url(cluster.database())
        found = init(url, DATASET, terms())
        heads = [charge(found, f"run {i}").state.head.hash for i in range(5)]
        os.kill(found.store.connection.info.backend_pid, signal.SIGKILL)  # the server then ends all others, and recovers
        assert "lost" in refusal(lambda: charge(found, "during"))
        ready = "ready to accept connections"  # a connection of before it has ended all others would be lost as well
        assert until(lambda: Path(cluster.folder, "log").read_text().count(ready) == 2 and answers(found))
        assert [entry.row.hash for entry in found.entries()][1:] == heads
        assert not charge(found, "during").repeated
        found.store.close()


def answers(ledger: Ledger) -> bool:
    try:
        return ledger.store.datasets() == (DATASET,)
    except LedgerError:
        return False


def test_errors_that_nobody_can_cause_here(database: Database) -> None:
    import psycopg.errors

    expected = {
        psycopg.errors.DiskFull: "the server's disk is full; nothing was written",
        psycopg.errors.DataCorrupted: "the server's data are damaged",
        psycopg.errors.DeadlockDetected: "another writer was faster",
        psycopg.errors.AdminShutdown: "the connection was lost: nothing is acknowledged",
        psycopg.errors.TooManyConnections: "the server accepts no more connections",
        psycopg.errors.FeatureNotSupported: "the server says nothing (SQLSTATE 0A000)",
    }
    for error, text in expected.items():
        with pytest.raises(LedgerError) as caught, postgres_connection.explain_errors("here"):
            raise error
        assert str(caught.value).startswith(f"here: {text}")


@pytest.mark.long
def test_an_end_that_was_cut_off_is_found_by_the_database_itself(database: Database, ledger: Ledger) -> None:
    charge(ledger, "run", "0.9")
    database.by_force("DELETE FROM entry WHERE seq = 2")
    found = other(database)
    assert found.store.check() == (f'dataset "{DATASET}": its entries end at 1, the chain that was written ends at 2',)
    assert "its entries end at 1" in refusal(lambda: verify(found))
    for asked in (lambda: charge(found, "again", "0.9"), other(database).state, other(database).entries):
        assert "its entries end before entry 2, which was written" in refusal(asked)
    (answer,) = ledger_conditions([(run(0.01), 1)], database.url, DATASET)
    assert answer.verdict == "error" and dpcli("budget", "show", database.url).code == 4
    init(database.url, "another", replace(terms(), fingerprint="f" * 64)).store.close()  # which it is not the affair of


# The cluster itself.

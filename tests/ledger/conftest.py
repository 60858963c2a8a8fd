"""Ledgers to examine: the same questions for a file and for a database."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pytest

from tests.ledger.cluster import Cluster, missing, running

OWNER = "ledger_owner"  # no superuser: what the owner may not do by himself must work all the same
GUARDED = ("dpcli.entry", "dpcli.dataset")


class Place(Protocol):
    """Where a ledger may be opened, and a way around its guards."""

    url: str

    def by_hand(self, statement: str) -> None:
        """Run a statement on the table `entry` as whoever owns the database."""
        ...

    def by_force(self, statement: str) -> None:
        """The same, with every guard taken away first."""
        ...


@dataclass(frozen=True)
class File:
    """A ledger in a file; names of tables are as they stand."""

    url: str

    def by_hand(self, statement: str) -> None:
        with closing(sqlite3.connect(self.url)) as connection, connection:
            connection.execute(statement)

    def by_force(self, statement: str) -> None:
        with closing(sqlite3.connect(self.url)) as connection, connection:
            for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
                connection.execute(f"DROP TRIGGER {name}")
            connection.execute(statement)


@dataclass(frozen=True)
class Database:
    """A ledger in a database of a cluster, opened by a user who owns nothing else."""

    cluster: Cluster
    name: str

    @property
    def url(self) -> str:
        return self.cluster.url(self.name, OWNER)

    def by_hand(self, statement: str) -> None:
        self.cluster.run("SET search_path = dpcli", statement, database=self.name)

    def by_force(self, statement: str) -> None:
        off = [f"ALTER TABLE {table} DISABLE TRIGGER ALL" for table in GUARDED]
        self.cluster.run("SET search_path = dpcli", *off, statement, database=self.name)


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A server of our own, started when first asked for."""
    reason = missing()
    if reason is not None:
        pytest.skip(reason)
    with running() as found:
        found.run(f"CREATE ROLE {OWNER} LOGIN CREATEROLE")
        yield found


@contextmanager
def made(cluster: Cluster) -> Iterator[Database]:
    """A new database, in which the owner of ledgers may make one."""
    name = cluster.database()
    cluster.run(f"GRANT CREATE ON DATABASE {name} TO {OWNER}")
    yield Database(cluster, name)
    cluster.drop(name)


@pytest.fixture(scope="session")
def used_again(cluster: Cluster) -> Iterator[Database]:
    """One database for most tests: to make one takes longer than most of them."""
    with made(cluster) as found:
        yield found


@pytest.fixture
def database(used_again: Database) -> Iterator[Database]:
    """A database without a ledger, which nobody else uses meanwhile."""
    yield used_again
    others = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    used_again.cluster.run(others, "DROP SCHEMA IF EXISTS dpcli CASCADE", database=used_again.name)


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """A place without a ledger."""
    if request.param == "sqlite":
        return File(str(tmp_path / "ledger.db"))
    found: Place = request.getfixturevalue("database")
    return found

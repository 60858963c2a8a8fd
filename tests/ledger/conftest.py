"""Fixtures: ledgers in a file and in a PostgreSQL database (`Place`), so that a test runs on both."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import pytest

from dpcli.ledger.stores import postgres
from tests.ledger.postgres.cluster import OWNER, Cluster

GUARDED = ("dpcli.entry", "dpcli.dataset")
NEVER = [f"ALTER TABLE dpcli.{table} %s TRIGGER never" for table in ("entry", "dataset", "checkpoint")]
EMPTIED = (
    *(statement % "DISABLE" for statement in NEVER),
    "TRUNCATE dpcli.entry, dpcli.dataset, dpcli.checkpoint, dpcli.copying",
    *(statement % "ENABLE ALWAYS" for statement in NEVER),
)
# Each row of the catalogue that says something of the schema, and the transaction that wrote it.
WRITTEN = """
WITH class AS (SELECT oid, xmin FROM pg_class WHERE relnamespace = 'dpcli'::regnamespace)
SELECT 'class', oid, xmin::text FROM class
UNION ALL SELECT 'schema', oid, xmin::text FROM pg_namespace WHERE nspname = 'dpcli'
UNION ALL SELECT 'function', oid, xmin::text FROM pg_proc WHERE pronamespace = 'dpcli'::regnamespace
UNION ALL SELECT 'constraint', oid, xmin::text FROM pg_constraint WHERE connamespace = 'dpcli'::regnamespace
UNION ALL SELECT 'trigger', t.oid, t.xmin::text FROM pg_trigger t JOIN class ON class.oid = tgrelid
UNION ALL SELECT 'policy', p.oid, p.xmin::text FROM pg_policy p JOIN class ON class.oid = polrelid
UNION ALL SELECT 'rule', r.oid, r.xmin::text FROM pg_rewrite r JOIN class ON class.oid = ev_class
UNION ALL SELECT 'column', attrelid, a.xmin::text FROM pg_attribute a JOIN class ON class.oid = attrelid
UNION ALL SELECT 'version', version, xmin::text FROM dpcli.format
ORDER BY 1, 2, 3
"""
OTHERS = (
    "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
)


class Place(Protocol):
    """A place for a ledger, with ways to change its rows without dpcli."""

    url: str

    def by_hand(self, statement: str) -> None:
        """Run a statement on the table `entry` as the owner of the database."""
        ...

    def by_force(self, statement: str) -> None:
        """Run a statement on the table `entry` after all guards were removed."""
        ...


@dataclass(frozen=True)
class File:
    """A place for a ledger in a file."""

    url: str

    def by_hand(self, statement: str) -> None:
        with closing(sqlite3.connect(self.url)) as connection, connection:
            connection.execute(statement)

    def by_force(self, statement: str) -> None:
        with closing(sqlite3.connect(self.url)) as connection, connection:
            for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
                connection.execute(f"DROP TRIGGER {name}")
            connection.execute(statement)

    def by_force_and_guarded(self, statement: str) -> None:
        """Run a statement without guards, and restore them."""
        with closing(sqlite3.connect(self.url)) as connection:
            guards = connection.execute("SELECT sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        self.by_force(statement)
        for (guard,) in guards:
            self.by_hand(guard)


@dataclass(frozen=True)
class Database:
    """A ledger in a database of a cluster, opened by a user who owns nothing else. installed: `WRITTEN`, of a new one."""

    cluster: Cluster
    name: str
    installed: list[object] = field(default_factory=list)

    @property
    def url(self) -> str:
        return self.cluster.url(self.name, OWNER)

    def by_hand(self, statement: str) -> None:
        self.cluster.run("SET search_path = dpcli", statement, database=self.name)

    def by_force(self, statement: str) -> None:
        off = [f"ALTER TABLE {table} DISABLE TRIGGER ALL" for table in GUARDED]
        self.cluster.run("SET search_path = dpcli", *off, statement, database=self.name)

    by_force_and_guarded = by_force  # functions of the database keep the number of the last entry, not guards

    def without_schema(self) -> None:
        self.cluster.run(OTHERS, "DROP SCHEMA IF EXISTS dpcli CASCADE", database=self.name)

    def without_datasets(self) -> None:
        """Leave the schema of a ledger, and no entry. It is made again only where it was changed, which takes longer than most tests."""
        import psycopg

        with self.cluster.connect(self.name) as connection:
            connection.execute(OTHERS)
            try:
                untouched = connection.execute(WRITTEN).fetchall() == self.installed
            except psycopg.Error:  # there is no such schema
                untouched = False
            if not untouched:
                connection.execute("DROP SCHEMA IF EXISTS dpcli CASCADE")
                postgres.create(self.url, lambda store: None)
            connection.execute("; ".join(EMPTIED))
            self.installed[:] = connection.execute(WRITTEN).fetchall()


@contextmanager
def made(cluster: Cluster) -> Iterator[Database]:
    """A new database, in which the owner of ledgers may make one."""
    name = cluster.database()
    cluster.run(f"GRANT CREATE ON DATABASE {name} TO {OWNER}")
    yield Database(cluster, name)
    cluster.drop(name)


@contextmanager
def installed(cluster: Cluster) -> Iterator[Database]:
    """A new database with the schema of a ledger, which `without_datasets` makes fit for the next test."""
    with made(cluster) as database:
        database.without_datasets()
        yield database


@pytest.fixture(scope="session")
def used_again(cluster: Cluster) -> Iterator[Database]:
    """One database for most tests, because creating one takes longer than most of them."""
    with installed(cluster) as database:
        yield database


@pytest.fixture
def database(used_again: Database) -> Iterator[Database]:
    """A database with the schema of a ledger and without a dataset. No other test uses it meanwhile."""
    yield used_again
    used_again.without_datasets()


@pytest.fixture
def bare(database: Database) -> Database:
    """A database without the schema of a ledger."""
    database.without_schema()
    return database


# For what a store itself does: in a quick run on both. What the ledger does is the same code, whatever keeps its rows.
ON_BOTH = pytest.mark.parametrize("place", ["sqlite", "postgres"], indirect=True)


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.long)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "sqlite":
        return File(str(tmp_path / "ledger.db"))
    found: Place = request.getfixturevalue("database")
    return found

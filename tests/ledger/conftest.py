"""Fixtures of the ledger's tests: places for a ledger, in a file and in a PostgreSQL database, so that a test runs on both.

`File` and `Database` are a `Place`, with which a test can change the rows of a ledger without dpcli. Most tests share one database, which
is emptied after each of them. *Guards* are triggers that refuse such changes.
"""

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

GUARDED = ("dpcli.entry", "dpcli.dataset")  # tables with guards
# Statements that empty the tables of a ledger, with the trigger `never`, which refuses this, switched off meanwhile.
NEVER = [f"ALTER TABLE dpcli.{table} %s TRIGGER never" for table in ("entry", "dataset", "checkpoint")]
EMPTIED = (
    *(statement % "DISABLE" for statement in NEVER),
    "TRUNCATE dpcli.entry, dpcli.dataset, dpcli.checkpoint, dpcli.copying",
    *(statement % "ENABLE ALWAYS" for statement in NEVER),
)
# A query of PostgreSQL's catalogue for all parts of a ledger's schema, each with the transaction that wrote it. Equal answers mean that no
# test has changed the schema.
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
# A statement that ends the other connections to the database.
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
    """A place for a ledger in a database of a server, opened by a user who owns nothing else.

    installed: The answer to `WRITTEN` when the schema was new.
    """

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
        """Empty the ledger but keep its schema. A schema that a test has changed is made again, which takes longer than most tests."""
        import psycopg

        with self.cluster.connect(self.name) as connection:
            connection.execute(OTHERS)
            try:
                is_unchanged = connection.execute(WRITTEN).fetchall() == self.installed
            except psycopg.Error:  # there is no such schema
                is_unchanged = False
            if not is_unchanged:
                connection.execute("DROP SCHEMA IF EXISTS dpcli CASCADE")
                postgres.create(self.url, lambda store: None)
            connection.execute("; ".join(EMPTIED))
            self.installed[:] = connection.execute(WRITTEN).fetchall()


@contextmanager
def made(cluster: Cluster) -> Iterator[Database]:
    """Make a new database, in which the role OWNER may make a ledger, and remove it at the end."""
    name = cluster.database()
    cluster.run(f"GRANT CREATE ON DATABASE {name} TO {OWNER}")
    yield Database(cluster, name)
    cluster.drop(name)


@contextmanager
def installed(cluster: Cluster) -> Iterator[Database]:
    """Make a new database with the schema of a ledger. `without_datasets` empties it between tests."""
    with made(cluster) as database:
        database.without_datasets()
        yield database


@pytest.fixture(scope="session")
def shared_database(cluster: Cluster) -> Iterator[Database]:
    """Make one database for most tests, as making a database takes longer than most of them."""
    with installed(cluster) as database:
        yield database


@pytest.fixture
def database(shared_database: Database) -> Iterator[Database]:
    """Return a database with the schema of a ledger and without a dataset. No other test uses it at the same time."""
    yield shared_database
    shared_database.without_datasets()


@pytest.fixture
def bare(database: Database) -> Database:
    """Return a database without the schema of a ledger."""
    database.without_schema()
    return database


# For tests of the stores themselves, which run on both in a quick run. Other code of the ledger is the same for both.
ON_BOTH = pytest.mark.parametrize("place", ["sqlite", "postgres"], indirect=True)


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.long)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "sqlite":
        return File(str(tmp_path / "ledger.db"))
    result: Place = request.getfixturevalue("database")
    return result

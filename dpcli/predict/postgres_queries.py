"""The count of a session's answers in a PostgreSQL database, which processes on several machines, or copies of a folder, can share.

A *session* is everything that one charge pays for. Each of its answers is counted before it is drawn; query_counts.py says why, and
sqlite_queries.py is the same count in a local file. The *place* of a count is postgresql://...#name, where the name is unique for each
session in the database. The counts have their own schema (postgres_queries.sql), whose trigger refuses a smaller count. The row of a count
is locked before it is read. A commit is acknowledged only when it is durable.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from dpcli.base.errors import InputError, LedgerError
from dpcli.ledger.stores.postgres import connection_function
from dpcli.ledger.stores.postgres_connection import MEANINGS as LEDGER_MEANINGS
from dpcli.ledger.stores.postgres_connection import Limits, ServerSchema, bounded_transaction, driver, place_of, settings_of
from dpcli.predict.query_counts import ANSWERS, BUSY_SECONDS, LOST, NOTHING_WRITTEN, UNSURE, CountState, require_count

ATTEMPTS = 5  # number of attempts to make a count, which another process may be making at the same time; arbitrary
NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
MISSING = f"there is no count of queries with this name, although fitting makes one; {LOST}"  # LOST: no more answers
DENIED = (
    "permission denied: {text}; expected USAGE on the schema dpcli_queries and SELECT, INSERT, UPDATE on its table budget; the first "
    "count in a database needs CREATE on the database"
)
MEANINGS = {  # messages by the beginning of the error's SQLSTATE
    **LEDGER_MEANINGS,
    "42501": DENIED,
    "42P01": "its tables are not those of a count of queries: {text}",
    "42883": "its functions are not those of a count of queries: {text}",
    "XX": f"the server found its own data damaged ({{text}}): {LOST}",
}
SCHEMA = ServerSchema("dpcli_queries", MEANINGS, UNSURE)  # UNSURE ends the message if a commit gets no answer
# With 'off' or 'local', a failure of the server or of its standby may undo an acknowledged commit.
SET_DURABLE = (
    "SELECT pg_catalog.set_config('synchronous_commit', 'on', true) "
    "WHERE pg_catalog.current_setting('synchronous_commit') IN ('off', 'local')"
)
UNSAFE_SETTINGS = (
    "SELECT name FROM pg_catalog.pg_settings WHERE name IN ('fsync', 'full_page_writes') AND setting = 'off' ORDER BY name"
)
INSTALLED = "SELECT FROM pg_catalog.pg_namespace WHERE nspname = 'dpcli_queries'"
READ = "SELECT identity, total, taken FROM dpcli_queries.budget WHERE name = %s"
WRITE = "UPDATE dpcli_queries.budget SET taken = %s WHERE name = %s AND taken = %s"
ADD = "INSERT INTO dpcli_queries.budget VALUES (%s, %s, %s, 0) ON CONFLICT (name) DO NOTHING"


class PostgresQueries:
    """A count of answers in a PostgreSQL database. The arguments are the same as for `open_queries`, with `url` as the place."""

    def __init__(
        self, url: str, identity: str, total: int, new: bool = False, seconds: float = BUSY_SECONDS, counted_noun: str = ANSWERS
    ) -> None:
        address, self._name = split_name(url)
        settings = settings_of(address)
        self._server, self._seconds = place_of(settings), seconds  # the URL without its password, for messages
        self._place = f"{self._server}#{self._name}"
        self._identity, self.total, self._counted_noun = identity, total, counted_noun
        self._connect = connection_function(address, settings, self._server)
        if new:
            self._make()
        self.taken()

    def taken(self) -> int:
        with self._transaction() as connection:
            return self._count(connection).taken

    def take(self, count: int = 1) -> int:
        require_count(count)
        with self._transaction() as connection:
            current = self._count(connection, lock=True)
            taken = current.after(count, self._place, self._counted_noun)
            if connection.execute(WRITE, (taken, self._name, current.taken)).rowcount != 1:
                raise LedgerError(f"{self._place}: the count could not be written: its definitions were changed")
        return current.taken + 1

    def _count(self, connection: Any, lock: bool = False) -> CountState:
        """Return the state of the count, locked until the end of the transaction if `lock` is set.

        Raises LedgerError if there is no count, or it belongs to another session.
        """
        if connection.execute(INSTALLED).fetchone() is None:
            raise LedgerError(f"{self._place}: {MISSING}")
        query = f"{READ} FOR UPDATE" if lock else READ
        row = connection.execute(query, (self._name,)).fetchone()
        if row is None:
            raise LedgerError(f"{self._place}: {MISSING}")
        count = CountState(*row)
        count.refuse_other(self._identity, self.total, self._place)
        return count

    def _make(self) -> None:
        """Make the schema and the row in one transaction. If another process does so at the same time, try again."""
        for _ in range(ATTEMPTS):
            with suppress(_Raced):
                with self._transaction() as connection:
                    self._add(connection)
                return
        raise LedgerError(f"{self._place}: other processes kept making a count here at the same time; {NOTHING_WRITTEN}")

    def _add(self, connection: Any) -> None:
        """Make the schema and the row, unless they exist. Raises _Raced if another process is making them."""
        errors = driver().errors
        try:
            if connection.execute(INSTALLED).fetchone() is None:
                connection.execute(Path(__file__).with_name("postgres_queries.sql").read_text(encoding="utf-8"))
            connection.execute(ADD, (self._name, self._identity, self.total))
        except (errors.UniqueViolation, errors.DuplicateSchema, errors.DuplicateTable, errors.DuplicateObject) as error:
            raise _Raced from error

    @contextmanager
    def _transaction(self) -> Iterator[Any]:
        """Open a new connection (forks would share an open one) and a transaction with bounded waits and a durable commit.

        Raises LedgerError if a setting of the server could lose a commit, and for every error of the server.
        """
        with closing(self._connect()) as connection, bounded_transaction(connection, self._place, Limits(self._seconds), SCHEMA):
            connection.execute(SET_DURABLE)
            unsafe = connection.execute(UNSAFE_SETTINGS).fetchone()
            if unsafe:
                raise LedgerError(
                    f"{self._place}: the server runs with {unsafe[0]} off: a count may not survive a power failure; {NOTHING_WRITTEN}"
                )
            yield connection


class _Raced(Exception):
    """Another process made the schema at the same time."""


def split_name(url: str) -> tuple[str, str]:
    """Return a URL without its name, and the name: ".../database#a" -> (".../database", "a").

    Raises InputError if there is no valid name. It quotes no part of the URL, which may hold a password.
    """
    address, _, name = url.rpartition("#")
    if not address or NAME.fullmatch(name) is None:
        raise InputError(
            "expected postgresql://user@host/database#name: the #name of the count is missing, or has characters other than letters, "
            "digits, ., _ and -; write a # in a password as %23"
        )
    return address, name

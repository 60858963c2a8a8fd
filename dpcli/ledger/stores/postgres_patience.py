"""Every wait for a server has an end: its own limits, and ours where it does not even answer.

A server that is stopped, or a network that swallows packets, keeps no limit of its own; then the socket is shut from this side.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from dpcli.base.errors import LedgerError
from dpcli.ledger.stores.postgres_errors import MEANINGS, driver, explained
from dpcli.ledger.stores.store import NOTHING, UNSURE

CONNECT_SECONDS = 10
WORK = 60.0
HELD = "; held by "
# Names are looked for in pg_catalog alone: in a schema where others may write, somebody may have put a function that fits better.
OWN_NAMES = "SELECT pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true)"
# A commit that its standby has not is told by a warning alone, which a setting of the database, the login or the URL may hold back.
LIMITS = (
    f"{OWN_NAMES}, pg_catalog.set_config('client_min_messages', 'warning', true), "
    "pg_catalog.set_config('statement_timeout', %s, true), pg_catalog.set_config('lock_timeout', %s, true)"
)
# Whoever holds a row of the ledger in a transaction that does not end: everybody may see the name and the process.
HOLDERS = (
    "SELECT DISTINCT a.usename, a.pid FROM pg_catalog.pg_locks l JOIN pg_catalog.pg_stat_activity a ON a.pid = l.pid "
    "JOIN pg_catalog.pg_class c ON c.oid = l.relation JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace "
    "WHERE n.nspname = %s AND c.relname IN ('dataset', 'format', 'entry', 'budget') AND l.granted AND a.pid <> pg_catalog.pg_backend_pid() "
    "AND a.datname = pg_catalog.current_database() AND l.mode IN ('RowShareLock', 'RowExclusiveLock', 'AccessExclusiveLock') "
    "ORDER BY a.pid"
)


@dataclass(frozen=True, slots=True)
class Limits:
    """How long to wait, from the time that a writer may wait for its turn: for a lock, for a statement, and for any answer at all."""

    lock: float
    work: float = WORK  # seconds for a transaction, beside its waiting for the lock

    @property
    def statement(self) -> float:
        """Seconds for one statement; it may wait for a lock first."""
        return self.lock + 30.0

    @property
    def answer(self) -> float:
        """Seconds for a transaction, after which the socket is shut."""
        return self.lock + self.work


@dataclass(frozen=True, slots=True)
class Kept:
    """What is kept where, for messages: in which schema, what the server's errors mean, what somebody knows who got no answer."""

    schema: str
    meanings: Mapping[str, str]
    unsure: str


LEDGER = Kept("dpcli", MEANINGS, UNSURE)


@contextmanager
def bounded(connection: Any, place: str, limits: Limits, kept: Kept = LEDGER, writes: bool = True) -> Iterator[None]:
    """A transaction whose every wait ends, and whose names are the server's own.

    writes: whether it may write something. Raises LedgerError, naming who is in the way, if any; where the server does not answer, it
    says whether something may have been written, which only a commit does.
    """
    known = [NOTHING]
    try:
        with (
            _confirmed(connection, place, kept.unsure) as warned,
            explained(place, kept.meanings, lambda: known[-1]),
            _patient(connection, place, limits.answer, known),
            connection.transaction(),
        ):
            connection.execute(LIMITS, (_milliseconds(limits.statement), _milliseconds(limits.lock)))
            yield
            warned.clear()  # what comes now is about the commit
            known[:] = [kept.unsure if writes else NOTHING]
    except LedgerError as error:
        if not _locked(error):
            raise
        held = "" if HELD in str(error) else _holders(connection, place, limits, kept.schema)
        raise LedgerError(f"{error}{held}") from error.__context__


@contextmanager
def _confirmed(connection: Any, place: str, unsure: str) -> Iterator[list[str]]:
    """Raises LedgerError where the server warns about a commit: it gave up waiting for its standby, and the entry may be lost with it."""
    warned: list[str] = []

    def note(found: Any) -> None:
        if found.severity_nonlocalized == "WARNING":
            warned.append(str(found.message_primary))

    connection.add_notice_handler(note)
    try:
        yield warned
    finally:
        connection.remove_notice_handler(note)
    if warned:
        raise LedgerError(f"{place}: the server committed with a warning ({warned[0]}): {unsure}")


def _locked(error: BaseException | None) -> bool:
    """Whether it came of a lock that was not to be had."""
    while error is not None and not isinstance(error, driver().errors.LockNotAvailable):
        error = error.__context__
    return error is not None


def _milliseconds(seconds: float) -> str:
    return str(max(1, round(1000.0 * seconds)))


@contextmanager
def _patient(connection: Any, place: str, seconds: float, known: Sequence[str] = (NOTHING,)) -> Iterator[None]:
    """Shuts the connection's socket when the time is over, so that whoever waits for it goes on with an error."""
    descriptor, over = os.dup(connection.fileno()), threading.Event()

    def shut() -> None:
        over.set()
        with suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as end:
            end.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(seconds, shut)
    timer.daemon = True
    timer.start()
    try:
        yield
    except driver().Error:
        if over.is_set():
            raise LedgerError(f"{place}: the server has not answered for {seconds:g} s: {known[-1]}") from None
        raise
    finally:
        timer.cancel()
        timer.join()
        os.close(descriptor)


def _holders(connection: Any, place: str, limits: Limits, schema: str) -> str:
    """Who holds the rows, for a message; nothing where nobody does any more, or nobody says."""
    with suppress(Exception):
        with _patient(connection, place, limits.answer), connection.transaction():
            connection.execute(OWN_NAMES)
            found = connection.execute(HOLDERS, (schema,)).fetchall()
        if found:
            names = ", ".join(f"{name} (server process {number})" for name, number in found)
            return f"{HELD}{names}; an administrator of the server ends that: SELECT pg_terminate_backend({found[0][1]})"
    return ""

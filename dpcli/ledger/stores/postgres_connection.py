"""Connections to PostgreSQL with bounded waits, and with error messages that never contain a password.

postgres.py, which keeps a ledger's entries, calls this module, and so do the counts of predictions (predict/postgres_queries.py) and the
tables of releases (release/engines/postgres_engine.py). A writer must learn whether its entry was written: a charge that is lost, or made
twice, would be wrong. So errors of psycopg become a LedgerError. After a commit without an answer, or with a warning, its message says that
the entry may be written or not; the same request, repeated under its key, is then charged once. The server's own timeouts do not help if
the server is stopped or the network drops packets, so a timer shuts the socket. In a transaction, names are looked up in pg_catalog only,
because another role may have made functions of the same names. `place` is the name of the database in messages.
"""

from __future__ import annotations

import os
import re
import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from dpcli.base.errors import InputError, LedgerError
from dpcli.ledger.stores.store import NOTHING, UNSURE, HeadMoved

LOST = "the connection was lost: {unsure}"
NOT_TEXT = "a name contains a null character; nothing was written"
NUL = "cannot contain NUL (0x00) bytes"  # end of the message of psycopg about a null character
# Messages by the beginning of the SQLSTATE (https://www.postgresql.org/docs/current/errcodes-appendix.html). The first match counts, so
# longer codes come first. dpcli's own SQL functions raise codes that begin with DPL. {text} is the server's message, which names objects
# and contains no values. {unsure} states whether something may have been written.
CHAIN_HAS_GROWN = "DPL03"  # the chain has grown since the writer read it
SERIALIZATION = "40001"  # the chain has grown since the statement began, at a stricter isolation level than READ COMMITTED
MEANINGS = {
    CHAIN_HAS_GROWN: "another writer was faster; nothing was written: try again",
    "DPL01": "refused by the database: {text}; nothing was written",
    "DPL02": "permission denied: {text}; nothing was written",
    "25006": "read-only: a standby, or default_transaction_read_only is set; nothing was written",
    "42501": "permission denied: {text}; reading needs the role dpcli_viewer, charging dpcli_spender, and everything else dpcli_admin",
    "53100": "the server's disk is full; nothing was written",
    "53300": "the server accepts no more connections; nothing was written",
    "55P03": "locked by another writer for too long; nothing was written",
    "57014": "the server took too long and was stopped (statement_timeout); nothing was written",
    "23505": "somebody else wrote it at the same moment, or the data are registered under another name, or the name belongs to a dataset "
    "that this login may not see; nothing was written",
    "40": "another writer was faster; nothing was written: try again",
    "42P01": "not a ledger of this version: {text}",
    "42883": "not a ledger of this version: {text}",
    "08": LOST,
    "25P03": LOST,
    "57P": LOST,
    "22": "refused by the database: a value of the entry is invalid ({text}); nothing was written",
    "23": "refused by its own rules; nothing was written",
    "53": "the server has run out of a resource ({text}); nothing was written",
    "58": "the server's disk cannot be read or written ({text}); nothing is acknowledged",
    "XX": "the server's data are damaged ({text}): restore a backup, and compare it with an anchor (dpcli budget verify --anchor)",
}
# Messages for failed connections. There is no SQLSTATE, so patterns match the text of the server or client library. Other texts are quoted.
REFUSALS = (
    (
        r"password authentication failed|no password supplied|authentication failed",
        "authentication failed: check the user and PGPASSWORD",
    ),
    (r"no pg_hba.conf entry", "the server does not accept this user from this machine (pg_hba.conf)"),
    (r"database .* does not exist", "the server has no database with that name"),
    (r"role .* does not exist", "the server has no such user"),
    (r"permission denied for database", "permission denied: this user may not connect to that database"),
    (r"too many (clients|connections)|remaining connection slots", "the server accepts no more connections"),
    (r"starting up|shutting down|recovery mode", "the server is starting or stopping: try again"),
)
# Longest times in seconds. They are arbitrary, and affect only waiting, because an error says what is certain about the entry.
CONNECT_SECONDS = 10  # for a connection, unless the URL states connect_timeout
WORK_SECONDS = 60.0  # for a transaction, without its wait for a lock
STATEMENT_SECONDS = 30.0  # for one statement, without its wait for a lock
HELD_BY = "; held by "  # begins the part of a message that names the holder of a lock
# Names are looked up in pg_catalog only. Otherwise another login could define a better matching function in a schema that it can write.
SET_SEARCH_PATH = "SELECT pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true)"
# If a standby does not confirm a commit, the server only warns. The level of messages is set: another level may suppress warnings.
SET_LIMITS = (
    f"{SET_SEARCH_PATH}, pg_catalog.set_config('client_min_messages', 'warning', true), "
    "pg_catalog.set_config('statement_timeout', %s, true), pg_catalog.set_config('lock_timeout', %s, true)"
)
# The logins that hold a row of the ledger in an open transaction. Every login may see their names and processes.
LOCK_HOLDERS = (
    "SELECT DISTINCT a.usename, a.pid FROM pg_catalog.pg_locks l JOIN pg_catalog.pg_stat_activity a ON a.pid = l.pid "
    "JOIN pg_catalog.pg_class c ON c.oid = l.relation JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace "
    "WHERE n.nspname = %s AND c.relname IN ('dataset', 'format', 'entry', 'budget') AND l.granted AND a.pid <> pg_catalog.pg_backend_pid() "
    "AND a.datname = pg_catalog.current_database() AND l.mode IN ('RowShareLock', 'RowExclusiveLock', 'AccessExclusiveLock') "
    "ORDER BY a.pid"
)


@dataclass(frozen=True, slots=True)
class Limits:
    """The longest waits in seconds, for a lock and for the rest of a transaction."""

    lock: float
    work: float = WORK_SECONDS

    @property
    def statement(self) -> float:
        """The longest time of one statement in seconds, including its wait for a lock."""
        return self.lock + STATEMENT_SECONDS

    @property
    def answer(self) -> float:
        """The longest time of a transaction in seconds, after which the socket is shut."""
        return self.lock + self.work


@dataclass(frozen=True, slots=True)
class ServerSchema:
    """The schema of an application's tables on a server, with the messages for its errors.

    Attributes:
        meanings: Messages by the beginning of the SQLSTATE.
        unsure: The part of a message that states what is certain if a commit gets no answer.
    """

    schema: str
    meanings: Mapping[str, str]
    unsure: str


LEDGER = ServerSchema("dpcli", MEANINGS, UNSURE)


def driver() -> Any:
    """Return psycopg, which is imported by the first call. Raises InputError if it is not installed."""
    try:
        import psycopg
        import psycopg.conninfo
    except ImportError:
        raise InputError("a ledger in PostgreSQL needs psycopg: pip install 'dpcli[postgres]'") from None
    return psycopg


def settings_of(url: str) -> dict[str, Any]:
    """Return the parameters of a URL.

    Raises InputError if the URL cannot be parsed. The message does not quote it, because it may contain a password.
    """
    expected = "expected postgresql://user@host:port/database (put a password in PGPASSWORD or ~/.pgpass)"
    try:
        settings: dict[str, Any] = driver().conninfo.conninfo_to_dict(url)
    except driver().Error:
        raise InputError(f"{expected}, found a URL that cannot be read") from None
    # A reserved character in a user or a password ends this part of the URL too early. So the rest of a password could become a host.
    if any("@" in str(settings.get(name, "")) for name in ("host", "dbname", "port")):
        raise InputError(f"{expected}, found a second @: write %40 for @ in a user or a password")
    if ":" in str(settings.get("user", "")) or not all(port.isdigit() for port in str(settings.get("port", "0")).split(",")):
        raise InputError(f"{expected}, found : or / in a user or a password: write %3A and %2F")
    return settings


def place_of(settings: dict[str, Any]) -> str:
    """Return the URL of the database for messages, with only the user, host, port and name."""
    user = f"{settings['user']}@" if settings.get("user") else ""
    port = f":{settings['port']}" if settings.get("port") else ""
    return f"postgresql://{user}{settings.get('host', '')}{port}/{settings.get('dbname', '')}"


@contextmanager
def explain_errors(
    place: str, meanings: Mapping[str, str] = MEANINGS, unsure: Callable[[], str] = lambda: UNSURE
) -> Iterator[None]:
    """Turn every error of psycopg into a LedgerError.

    Args:
        meanings: Messages by the beginning of the SQLSTATE.
        unsure: Function that returns the part of the message that states what is certain. It is called if the server gives no answer.
    """
    psycopg = driver()
    try:
        yield
    except UnicodeEncodeError:
        raise LedgerError(f"{place}: a name is not Unicode; nothing was written") from None
    except psycopg.Error as error:
        kind = HeadMoved if error.sqlstate in (CHAIN_HAS_GROWN, SERIALIZATION) else LedgerError
        raise kind(f"{place}: {_meaning_of(error, meanings, unsure())}") from None


def unreachable(place: str, error: Exception, settings: dict[str, Any]) -> LedgerError:
    """Return the error for a failed connection, with every password in its text replaced by ***."""
    text = " ".join(str(error).split())
    meaning = next((meaning for pattern, meaning in REFUSALS if re.search(pattern, text)), None)
    return LedgerError(f"{place}: {meaning or f'cannot connect: {_without_passwords(text, settings)}'}")


def _without_passwords(text: str, settings: dict[str, Any]) -> str:
    """Return a text with every password of the connection, as it is and as in a URL, replaced by ***."""
    passwords = [str(value) for name, value in settings.items() if value and ("password" in name or name == "passfile")]
    spellings: list[str] = []
    for password in sorted(passwords, key=len, reverse=True):  # the longest first, because one may be a part of another
        spellings += [password, quote(password, safe="")]
    return re.sub("|".join(map(re.escape, spellings)), "***", text) if spellings else text


def _meaning_of(error: Any, meanings: Mapping[str, str], unsure: str) -> str:
    """Return the message for an error of psycopg, by its SQLSTATE. `unsure` says what is certain if the server gave no answer."""
    state = error.sqlstate or ""
    if not state:  # the server did not answer, or the statement was not sent
        return NOT_TEXT if str(error).endswith(NUL) else meanings["08"].format(unsure=unsure)
    meaning = next(
        (text for start, text in meanings.items() if state.startswith(start)), "the server says {text} (SQLSTATE {state})"
    )
    text = (error.diag.message_primary or "nothing").removeprefix("permission denied ")  # the meanings of such errors begin with it
    return meaning.format(text=text, state=state, unsure=unsure)


@contextmanager
def bounded_transaction(
    connection: Any, place: str, limits: Limits, schema: ServerSchema = LEDGER, writes: bool = True
) -> Iterator[None]:
    """Open a transaction with bounded waits, in which names are looked up in pg_catalog only. `writes` says whether it may write.

    Raises:
        LedgerError: The transaction failed. After a lock timeout the message names the login that holds the lock. If the server does not
            answer, the message says whether something may have been written, which is possible only during the commit.
    """
    # The last item states what is certain if the server does not answer now. It is a list, because the commit comes after `yield`.
    certainty = [NOTHING]
    with (
        _name_holders(connection, place, limits, schema.schema),
        _refuse_warnings(connection, place, schema.unsure) as warnings,
        explain_errors(place, schema.meanings, lambda: certainty[-1]),
        _with_deadline(connection, place, limits.answer, certainty),
        connection.transaction(),
    ):
        connection.execute(SET_LIMITS, (_milliseconds(limits.statement), _milliseconds(limits.lock)))
        yield
        warnings.clear()  # only warnings that the commit causes are refused
        certainty[:] = [schema.unsure if writes else NOTHING]


@contextmanager
def bounded_statement(connection: Any, place: str, limits: Limits) -> Iterator[None]:
    """Run one statement of the ledger outside of a transaction. The statement commits, and limits its own wait for a lock.

    Any warning is refused, because it may be about the commit.

    Raises:
        LedgerError: As `bounded_transaction`. If the server does not answer, the statement may have written.
    """
    with (
        _name_holders(connection, place, limits, LEDGER.schema),
        _refuse_warnings(connection, place, UNSURE),
        explain_errors(place),
        _with_deadline(connection, place, limits.answer, (UNSURE,)),
    ):
        yield


@contextmanager
def _name_holders(connection: Any, place: str, limits: Limits, schema: str) -> Iterator[None]:
    """Add to the error of a lock timeout the logins that hold the lock."""
    try:
        yield
    except LedgerError as error:
        if not _is_lock_timeout(error):
            raise
        # An error that passes a savepoint and then its transaction has the names already.
        holders = "" if HELD_BY in str(error) else _holder_words(connection, place, limits, schema)
        raise LedgerError(f"{error}{holders}") from error.__context__


@contextmanager
def _refuse_warnings(connection: Any, place: str, unsure: str) -> Iterator[list[str]]:
    """Raise LedgerError if the server warns about a commit. It may have stopped waiting for its standby, and could lose the entry."""
    warnings: list[str] = []

    def add_warning(notice: Any) -> None:
        if notice.severity_nonlocalized == "WARNING":
            warnings.append(str(notice.message_primary))

    connection.add_notice_handler(add_warning)
    try:
        yield warnings
    finally:
        connection.remove_notice_handler(add_warning)
    if warnings:
        raise LedgerError(f"{place}: the server committed with a warning ({warnings[0]}): {unsure}")


def _is_lock_timeout(error: BaseException | None) -> bool:
    """Return whether an error, or one from which it was made, is the lock timeout of the server."""
    while error is not None and not isinstance(error, driver().errors.LockNotAvailable):
        error = error.__context__
    return error is not None


def _milliseconds(seconds: float) -> str:
    return str(max(1, round(1000.0 * seconds)))  # 0 would mean no limit


@contextmanager
def _with_deadline(connection: Any, place: str, seconds: float, certainty: Sequence[str] = (NOTHING,)) -> Iterator[None]:
    """Shut the connection's socket after `seconds`, so that a wait for the server ends with an error.

    The last item of `certainty` when the error is raised becomes a part of its message.
    """
    descriptor, is_over = os.dup(connection.fileno()), threading.Event()

    def shut() -> None:
        is_over.set()
        with suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as end:
            end.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(seconds, shut)
    timer.daemon = True
    timer.start()
    try:
        yield
    except driver().Error:
        if is_over.is_set():
            raise LedgerError(f"{place}: the server has not answered for {seconds:g} s: {certainty[-1]}") from None
        raise
    finally:
        timer.cancel()
        timer.join()
        os.close(descriptor)


def _holder_words(connection: Any, place: str, limits: Limits, schema: str) -> str:
    """Return the logins that hold the rows, in words; "" if no login holds them any more, or if the server does not answer."""
    with suppress(Exception):  # the names are only an addition to the message of another error
        with _with_deadline(connection, place, limits.answer), connection.transaction():
            connection.execute(SET_SEARCH_PATH)
            rows = connection.execute(LOCK_HOLDERS, (schema,)).fetchall()
        if rows:
            names = ", ".join(f"{login} (server process {process})" for login, process in rows)
            _, first_process = rows[0]
            return f"{HELD_BY}{names}; an administrator of the server can end it: SELECT pg_terminate_backend({first_process})"
    return ""

"""What PostgreSQL's errors mean to the one who keeps the ledger: messages of our own, and never a password in one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

from dpcli.base.errors import InputError, LedgerError
from dpcli.base.lazy import load
from dpcli.ledger.stores.store import UNSURE

LOST = "the connection was lost: {unsure}"
NOT_TEXT = "expected names without a null character, found one; nothing was written"
NUL = "cannot contain NUL (0x00) bytes"
# By SQLSTATE or its first two characters (https://www.postgresql.org/docs/current/errcodes-appendix.html), the longer first.
# DPL01 and DPL02 are raised by dpcli's own functions. {text} is the server's message, which names objects and holds no values; {unsure} is
# what somebody knows who has no answer.
MEANINGS = {
    "DPL01": "refused by the database: {text}; nothing was written",
    "DPL02": "permission denied: {text}; nothing was written",
    "25006": "read-only: a standby, or default_transaction_read_only is set; nothing was written",
    "42501": "permission denied: {text}; one of the roles dpcli_viewer, dpcli_spender and dpcli_admin is needed",
    "53100": "the server's disk is full; nothing was written",
    "53300": "the server takes no more connections; nothing was written",
    "55P03": "locked by another writer for too long; nothing was written",
    "57014": "the server took too long and was stopped (statement_timeout); nothing was written",
    "23505": "written by somebody else at the same moment, or the same data under a second name, or a name that is taken by a dataset "
    "which this login may not see; nothing was written",
    "40": "another writer came in between; nothing was written: try again",
    "42P01": "not a ledger of this version: {text}",
    "42883": "not a ledger of this version: {text}",
    "08": LOST,
    "25P03": LOST,
    "57P": LOST,
    "22": "refused by the database: the entry is not what it expects ({text}); nothing was written",
    "23": "refused by its own rules; nothing was written",
    "53": "the server has run out of something ({text}); nothing was written",
    "58": "the server's disk cannot be read or written ({text}); nothing is acknowledged",
    "XX": "the server found its own data damaged ({text}): restore a backup, and compare with an anchor (dpcli budget verify --anchor)",
}
# Where no connection came about there is no SQLSTATE, but the server's text or the client library's; what is not known here is quoted.
REFUSALS = (
    (
        r"password authentication failed|no password supplied|authentication failed",
        "authentication failed: check the user and PGPASSWORD",
    ),
    (r"no pg_hba.conf entry", "the server lets nobody in from here as this user (pg_hba.conf)"),
    (r"database .* does not exist", "the server has no database of that name"),
    (r"role .* does not exist", "the server has no such user"),
    (r"permission denied for database", "permission denied: this user may not connect to that database"),
    (r"too many (clients|connections)|remaining connection slots", "the server takes no more connections"),
    (r"starting up|shutting down|recovery mode", "the server is starting or stopping: try again"),
)


def driver() -> Any:
    """psycopg, imported when the first URL is opened. Raises InputError where it is not installed."""
    try:
        return load("dpcli.ledger.stores.postgres_driver:psycopg")
    except ImportError:
        raise InputError("expected psycopg for a ledger in PostgreSQL, found none: pip install 'dpcli[postgres]'") from None


def settings_of(url: str) -> dict[str, Any]:
    """The parameters in a URL. Raises InputError, which quotes nothing of it, where it cannot be read."""
    expected = "expected postgresql://user@host:port/database (a password belongs in PGPASSWORD or ~/.pgpass)"
    try:
        found: dict[str, Any] = driver().conninfo.conninfo_to_dict(url)
    except driver().Error:
        raise InputError(f"{expected}, found a URL that cannot be read") from None
    if any("@" in str(found.get(name, "")) for name in ("host", "dbname", "port")):
        raise InputError(f"{expected}, found a second @: in a user or a password it is written %40")
    if ":" in str(found.get("user", "")) or not all(port.isdigit() for port in str(found.get("port", "0")).split(",")):
        raise InputError(f"{expected}, found a URL whose password is read as something else: : and / in it are written %3A and %2F")
    return found


def place_of(settings: dict[str, Any]) -> str:
    """The database as messages call it: user, host, port and name, nothing else."""
    user = f"{settings['user']}@" if settings.get("user") else ""
    port = f":{settings['port']}" if settings.get("port") else ""
    return f"postgresql://{user}{settings.get('host', '')}{port}/{settings.get('dbname', '')}"


@contextmanager
def explained(place: str, meanings: Mapping[str, str] = MEANINGS, unsure: Callable[[], str] = lambda: UNSURE) -> Iterator[None]:
    """Turns every error of psycopg into a LedgerError. unsure: what somebody knows who has no answer now."""
    psycopg = driver()
    try:
        yield
    except UnicodeEncodeError:
        raise LedgerError(f"{place}: expected names in Unicode, found one that is not; nothing was written") from None
    except psycopg.Error as error:
        raise LedgerError(f"{place}: {_meaning(error, meanings, unsure())}") from None


def unreachable(place: str, error: Exception, settings: dict[str, Any]) -> LedgerError:
    """The error for a connection that did not come about."""
    text = " ".join(str(error).split())
    known = next((meaning for pattern, meaning in REFUSALS if re.search(pattern, text)), None)
    secrets = sorted(
        (str(value) for name, value in settings.items() if ("password" in name or name == "passfile") and value),
        key=len,
        reverse=True,
    )
    secrets = [part for each in secrets for part in dict.fromkeys((each, quote(each, safe="")))]
    quoted = re.sub("|".join(map(re.escape, secrets)), "***", text) if secrets else text
    return LedgerError(f"{place}: {known or f'cannot connect: {quoted}'}")


def _meaning(error: Any, meanings: Mapping[str, str], unsure: str) -> str:
    state = error.sqlstate or ""
    if not state:  # the server did not answer, or was not asked
        return NOT_TEXT if str(error).endswith(NUL) else meanings["08"].format(unsure=unsure)
    meaning = next(
        (text for start, text in meanings.items() if state.startswith(start)), "the server says {text} (SQLSTATE {state})"
    )
    text = (error.diag.message_primary or "nothing").removeprefix("permission denied ")
    return meaning.format(text=text, state=state, unsure=unsure)

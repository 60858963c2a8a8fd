"""The schema of a ledger in PostgreSQL: made once, with the roles that may use it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dpcli.errors import LedgerError

VERSION = 1
OLDEST = 130000
# Each role may also do what the one before it may.
ROLES = ("dpcli_viewer", "dpcli_spender", "dpcli_admin")
LOCK = 0x6470636C


def found_version(connection: Any) -> int | None:
    """The version of the schema, None where there is none."""
    if connection.execute("SELECT FROM pg_catalog.pg_namespace WHERE nspname = 'dpcli'").fetchone() is None:
        return None
    version: int = connection.execute("SELECT max(version) FROM dpcli.format").fetchone()[0]
    return version


def install(connection: Any, place: str) -> None:
    """Schema and roles, inside the caller's transaction; nothing where they are there. Raises LedgerError where they cannot be made."""
    connection.execute("SELECT pg_catalog.pg_advisory_xact_lock(%s)", (LOCK,))
    version = found_version(connection)
    if version is None:
        _refuse_server(connection, place)
        _make_roles(connection, place)
        _make_schema(connection, place)
    elif version > VERSION:
        raise LedgerError(f"{place}: written by a later version of dpcli: upgrade to read it")


def _refuse_server(connection: Any, place: str) -> None:
    if connection.info.server_version < OLDEST:
        raise LedgerError(f"{place}: expected PostgreSQL 13 or later, found {connection.info.parameter_status('server_version')}")
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        raise LedgerError(f"{place}: expected a database in UTF8, found {encoding}: createdb --encoding UTF8 --template template0")


def _make_roles(connection: Any, place: str) -> None:
    from psycopg.errors import InsufficientPrivilege

    try:
        for role in ROLES:
            if connection.execute("SELECT FROM pg_catalog.pg_roles WHERE rolname = %s", (role,)).fetchone() is None:
                connection.execute(f"CREATE ROLE {role} NOLOGIN")
        for role, member in ((ROLES[0], ROLES[1]), (ROLES[1], ROLES[2]), (ROLES[2], None)):
            name = member or connection.execute("SELECT session_user::text").fetchone()[0]
            if not connection.execute("SELECT pg_catalog.pg_has_role(%s::name, %s::name, 'MEMBER')", (name, role)).fetchone()[0]:
                connection.execute(f"GRANT {role} TO {member or 'SESSION_USER'}")
    except InsufficientPrivilege as error:
        raise LedgerError(
            f"{place}: expected a user who may create roles, found one who may not ({error.diag.message_primary}); an administrator runs: "
            "CREATE ROLE dpcli_viewer; CREATE ROLE dpcli_spender IN ROLE dpcli_viewer; CREATE ROLE dpcli_admin IN ROLE dpcli_spender; "
            "and GRANT dpcli_admin to this user"
        ) from None


def _make_schema(connection: Any, place: str) -> None:
    from psycopg.errors import InsufficientPrivilege

    try:
        connection.execute(Path(__file__).with_name("postgres.sql").read_text(encoding="utf-8"))
    except InsufficientPrivilege as error:
        raise LedgerError(
            f"{place}: expected a user who may create a schema, found one who may not ({error.diag.message_primary}): "
            "an administrator runs GRANT CREATE ON DATABASE"
        ) from None

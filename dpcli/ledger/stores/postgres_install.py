"""Installation and upgrade of the ledger's schema and roles in PostgreSQL.

`dpcli budget init` or `copy` installs them in a database without a ledger, and `dpcli budget upgrade` replaces the functions of an earlier
version of dpcli; postgres.py calls `install` and `renew` for them. The *definitions* are the tables and functions in the .sql files of this
folder. The rules of entries (dpcli/ledger/grammar.py) are inserted into them as JSON, so that the server checks an entry by the rules of
the dpcli that installed it. `place` is the name of the database in messages, without a password.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dpcli.base.errors import LedgerError
from dpcli.file.toml.confusables import letters
from dpcli.ledger.chain import canonical
from dpcli.ledger.grammar import rules

# The version number of the definitions. It must grow when they change, because every dataset records it with their hash.
VERSION = 8
OLDEST_READ = 7  # oldest version of the definitions that dpcli reads, which dpcli 0.1.0 made
OLDEST_SERVER = 130000  # oldest accepted server, PostgreSQL 13, in the notation of libpq
# Each role includes the rights of the role before it.
ROLES = ("dpcli_viewer", "dpcli_spender", "dpcli_admin")
ATTEMPTS = 5  # number of attempts to create the schema while other logins create it too; arbitrary: a failed one writes nothing
REPLACED_FILES = ("postgres_moving.sql", "postgres_functions.sql")  # files whose definitions every upgrade replaces


def installed_version(connection: Any) -> int | None:
    """Return the version of the schema; None if the database has no schema dpcli."""
    if connection.execute("SELECT FROM pg_catalog.pg_namespace WHERE nspname = 'dpcli'").fetchone() is None:
        return None
    version: int = connection.execute("SELECT max(version) FROM dpcli.format").fetchone()[0]
    return version


class CreatedByOther(Exception):
    """Raised if another login created the schema or a role at the same moment."""


def install(connection: Any, place: str) -> int:
    """Create the schema and the roles if they are missing, in the caller's transaction, and return the version of the schema.

    No lock is taken that another login could hold. If two logins create the schema at once, the unique indexes of the catalogue let only
    one succeed.

    Raises:
        LedgerError: The user may not create the schema or the roles, the server is too old, or a later dpcli made the schema.
        CreatedByOther: Another login has created the schema or a role at the same moment.
    """
    from psycopg import errors

    version = installed_version(connection)
    if version is not None:
        if version > VERSION:
            raise LedgerError(f"{place}: written by a later version of dpcli: upgrade to read it")
        return version
    _refuse_server(connection, place)
    try:
        _execute(connection, place, "CREATE SCHEMA dpcli")
        _create_roles(connection, place)
        _execute(connection, place, *map(definitions, ("postgres.sql", *REPLACED_FILES)))
    except (errors.UniqueViolation, errors.DuplicateSchema, errors.DuplicateObject):
        raise CreatedByOther from None
    except errors.InternalError_ as error:
        if "concurrently updated" in str(error):  # another login has changed the same object of the catalogue
            raise CreatedByOther from None
        raise
    return VERSION


def renew(connection: Any, place: str) -> int:
    """Replace the functions of an older ledger, in the caller's transaction, and return the new version. Entries do not change.

    A second upgrade at the same moment waits for the first one, and then changes nothing.
    """
    _execute(connection, place, "SELECT FROM dpcli.format FOR UPDATE")
    version = installed_version(connection)
    if version == VERSION:
        return VERSION
    _execute(connection, place, *map(definitions, REPLACED_FILES), f"INSERT INTO dpcli.format VALUES ({VERSION})")
    return VERSION


def definitions(name: str) -> str:
    """Return a file of SQL definitions, with the rules of the grammar and the table of confusable letters inserted."""
    text = Path(__file__).with_name(name).read_text(encoding="utf-8")
    return text.replace("{rules}", canonical(rules())).replace("{letters}", canonical(letters()))


def _refuse_server(connection: Any, place: str) -> None:
    """Check the version and the encoding of the server. Raises LedgerError if dpcli does not support one of them."""
    if connection.info.server_version < OLDEST_SERVER:
        raise LedgerError(f"{place}: expected PostgreSQL 13 or later, found {connection.info.parameter_status('server_version')}")
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        raise LedgerError(f"{place}: expected a database in UTF8, found {encoding}: createdb --encoding UTF8 --template template0")


def _create_roles(connection: Any, place: str) -> None:
    """Create the missing roles, and grant the last role to the user. Raises LedgerError if the user may not do this."""
    from psycopg.errors import InsufficientPrivilege

    try:
        for role in ROLES:
            if connection.execute("SELECT FROM pg_catalog.pg_roles WHERE rolname = %s", (role,)).fetchone() is None:
                connection.execute(f"CREATE ROLE {role} NOLOGIN")
        viewer, spender, admin = ROLES
        for role, member in ((viewer, spender), (spender, admin), (admin, None)):  # None is the user
            name = member or connection.execute("SELECT session_user::text").fetchone()[0]
            if not connection.execute("SELECT pg_catalog.pg_has_role(%s::name, %s::name, 'MEMBER')", (name, role)).fetchone()[0]:
                connection.execute(f"GRANT {role} TO {member or 'SESSION_USER'}")
    except InsufficientPrivilege as error:
        raise LedgerError(
            f"{place}: expected a user who may create roles ({error.diag.message_primary}); ask an administrator to run: "
            "CREATE ROLE dpcli_viewer; CREATE ROLE dpcli_spender IN ROLE dpcli_viewer; CREATE ROLE dpcli_admin IN ROLE dpcli_spender; "
            "and GRANT dpcli_admin to this user"
        ) from None


def _execute(connection: Any, place: str, *statements: str) -> None:
    """Execute statements that create definitions. Raises LedgerError if the user may not do this."""
    from psycopg.errors import InsufficientPrivilege

    try:
        for statement in statements:
            connection.execute(statement)
    except InsufficientPrivilege as error:
        raise LedgerError(
            f"{place}: expected the owner of the schema dpcli, or a user who may create it "
            f"({error.diag.message_primary}): ask an administrator to run GRANT CREATE ON DATABASE"
        ) from None

"""The count of a session's answers in an SQLite file on a local disk, which is the default for a session without a ledger.

A *session* is everything that one charge pays for. Each of its answers is counted before it is drawn; query_counts.py says why, and
prediction_session.py opens the count (`open_queries`). The count is as durable as the ledger: it uses a rollback journal with
synchronous = EXTRA, and BEGIN IMMEDIATE before the first read. Every request opens the file again, so that forked processes share no
connection, and no request writes to a file that has been replaced.

A copy of the file would be a second budget. It is refused because it has another inode or is on another machine. Some copies cannot be
detected: a virtual machine or disk that is copied or restored as a whole, containers that share a machine id, and a file whose content is
restored to an earlier state. A count in a ledger or in PostgreSQL has none of these gaps.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dpcli.base.errors import LedgerError
from dpcli.base.extras import require_posix
from dpcli.ledger.stores.sqlite import MEANINGS as LEDGER_MEANINGS
from dpcli.ledger.stores.sqlite import SETTINGS, connect, sync_folder
from dpcli.ledger.stores.sqlite_file import FileWords, network_file_system, refuse_kind
from dpcli.predict.query_counts import ANSWERS, BUSY_SECONDS, LOST, NOTHING_WRITTEN, CountState, require_count

APPLICATION = 0x64706371  # "dpcq", the application id in the header of the file
VERSION = 1  # version of SCHEMA, in the header of the file
WORDS = FileWords("the count of queries", f"an empty file has no count: {LOST}")  # LOST: no more answers without a new charge
DAMAGED = f"damaged: {LOST}"
MEANINGS = {  # messages by the beginning of the error's name in SQLite
    **LEDGER_MEANINGS,
    "SQLITE_CORRUPT": DAMAGED,
    "SQLITE_NOTADB": DAMAGED,
    "SQLITE_ERROR": DAMAGED,
    "SQLITE_CONSTRAINT": f"refused by its own rules; {NOTHING_WRITTEN}",
}
COLUMNS = ("identity", "total", "taken", "machine", "inode", "path")
SCHEMA = (
    """CREATE TABLE budget (
  one INTEGER PRIMARY KEY CHECK (one = 1), identity TEXT NOT NULL, total INTEGER NOT NULL CHECK (typeof(total) = 'integer' AND total >= 1),
  taken INTEGER NOT NULL CHECK (typeof(taken) = 'integer' AND taken BETWEEN 0 AND total), machine TEXT NOT NULL, inode TEXT NOT NULL,
  path TEXT NOT NULL, digest TEXT NOT NULL
)""",
    "CREATE TRIGGER count_never_goes_back BEFORE UPDATE ON budget WHEN NEW.taken < OLD.taken OR NEW.identity <> OLD.identity "
    "OR NEW.total <> OLD.total BEGIN SELECT RAISE(ABORT, 'the count never goes back'); END",
    "CREATE TRIGGER count_never_goes BEFORE DELETE ON budget BEGIN SELECT RAISE(ABORT, 'the count is never removed'); END",
)
READ = f"SELECT {', '.join(COLUMNS)}, digest FROM budget"
INSERT = f"INSERT INTO budget VALUES (1{', ?' * len(COLUMNS)}, ?)"
WRITE = f"UPDATE budget SET {', '.join(f'{name} = ?' for name in COLUMNS)}, digest = ?"
MACHINE_ID = "/etc/machine-id"


def hashed_machine_id() -> str:
    """Return a hash of this machine's id, or of its name if it has no id. The id itself should not be published."""
    try:
        name = Path(MACHINE_ID).read_text(errors="replace").strip()
    except OSError:
        name = ""
    # The key makes the hash differ from other programs' hashes of the id. With a new key, existing counts would be refused as copies.
    return hashlib.blake2b((name or os.uname().nodename).encode(), key=b"dpcli machine 1", digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True)
class FileIdentity:
    """The hashed machine id, the inode, and the absolute path without links of a file."""

    machine: str
    inode: int
    path: str

    @classmethod
    def of(cls, path: str) -> FileIdentity:
        """Return the identity of the file at `path`. Raises OSError if there is no file."""
        return cls(hashed_machine_id(), os.stat(path).st_ino, os.path.realpath(path))

    def refuse_copy(self, known: FileIdentity) -> None:
        """Raise LedgerError unless this is the file with the identity `known`, at the same path or renamed."""
        if self.machine != known.machine:
            difference = "on another machine"
        elif self.inode != known.inode:
            difference = "another file"
        elif self.path != known.path and os.path.lexists(known.path):
            difference = "a file under another name, and something is at the first path"
        else:
            return
        raise LedgerError(
            f"{self.path}: a copy of {known.path} ({difference}): two copies would grant every answer twice. Use the first, or, if "
            "it no longer exists and this is its latest state, add --moved"
        )


@dataclass(frozen=True, slots=True)
class Row:
    """The content of the file: the count, and the identity of the file when it was last written."""

    count: CountState
    identity: FileIdentity

    def values(self) -> tuple[str | int, ...]:
        """Return the values of the columns, with a hash of all of them. SQLite itself would not notice a flipped bit in a number."""
        count, file = self.count, self.identity
        content = (count.identity, count.total, count.taken, file.machine, str(file.inode), file.path)
        return (*content, hashlib.sha256(json.dumps(content).encode()).hexdigest())


class SqliteQueries:
    """The count in the file at `path`, which must exist: only `create` makes such a file. The arguments are the same as for `open_queries`.

    Raises LedgerError if the count cannot be relied on.
    """

    def __init__(
        self, path: str, identity: str, total: int, moved: bool = False, seconds: float = BUSY_SECONDS, counted_noun: str = ANSWERS
    ) -> None:
        self._path, self._identity, self.total, self._seconds, self._counted_noun = path, identity, total, seconds, counted_noun
        with self._locked_row(moved) as (connection, row):
            if moved:  # The row now has the identity of the file at its new place, so that later requests accept it.
                _write(connection, row)

    def taken(self) -> int:
        with self._locked_row() as (_, row):
            return row.count.taken

    def take(self, count: int = 1) -> int:
        require_count(count)
        with self._locked_row() as (connection, row):
            count_after = replace(row.count, taken=row.count.after(count, self._path, self._counted_noun))
            _write(connection, replace(row, count=count_after))
        return row.count.taken + 1

    @contextmanager
    def _locked_row(self, moved: bool = False) -> Iterator[tuple[Any, Row]]:
        """Yield the connection and the row under an exclusive lock. The block ends with a durable commit; an error rolls back.

        The row has the present identity of the file. If `moved` is set, the stored identity may differ from it.
        """
        refuse_path(self._path)
        with sqlite_errors(self._path), closing(connect(self._path, self._seconds)) as connection:
            _prepare(connection, self._path)
            connection.execute("BEGIN IMMEDIATE")
            try:
                row = _read(connection, self._path)
                row.count.refuse_other(self._identity, self.total, self._path)
                identity = FileIdentity.of(self._path)
                if not moved:
                    identity.refuse_copy(row.identity)
                yield connection, replace(row, identity=identity)
                connection.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
                raise


def refuse_path(path: str) -> None:
    """Raise LedgerError unless the path is a private, regular file on a local disk, without a write-ahead log next to it."""
    try:
        info = os.lstat(path)
    except FileNotFoundError:
        raise LedgerError(f"{path}: there is no count of queries here, although fitting makes one; {LOST}") from None
    except (OSError, ValueError) as error:  # ValueError is raised for a null character in the path.
        raise LedgerError(f"{path}: cannot be read: {getattr(error, 'strerror', error)}") from None
    refuse_kind(path, info, WORDS)  # a link, a file with several names, an empty file, or one that others may write
    if os.path.lexists(f"{path}-wal"):  # SQLite might read it as a part of the count, which has none itself
        raise LedgerError(
            f"{path}: expected no write-ahead log next to it, found {path}-wal, which belongs to another file: move it away"
        )
    _refuse_network(path)


def _refuse_network(path: str) -> None:
    """Raise LedgerError if the path is on a network file system."""
    network = network_file_system(path)
    if network is not None:
        raise LedgerError(
            f"{path}: on a network file system ({network}), whose locks do not exclude a second machine (DP409): set a path on a "
            "local disk, or a PostgreSQL database"
        )


def _prepare(connection: Any, path: str) -> None:
    """Set up the connection. Raises LedgerError if the database is not a count, or a later version of dpcli wrote it."""
    for setting in SETTINGS:  # the same pragmas as for a ledger's file
        answer = connection.execute(setting).fetchall()
        if "journal_mode" in setting and answer != [("delete",)]:
            raise LedgerError(f"{path}: expected a rollback journal, found {answer}: another program uses it in WAL mode")
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if application != APPLICATION:
        raise LedgerError(f"{path}: an SQLite database, but not a count of queries; {NOTHING_WRITTEN}")
    if version > VERSION:
        raise LedgerError(f"{path}: written by a later version of dpcli: upgrade to read it")


def _read(connection: Any, path: str) -> Row:
    """Return the row. Raises LedgerError if the file or the row is damaged."""
    if connection.execute("PRAGMA quick_check(1)").fetchall() != [("ok",)]:
        raise LedgerError(f"{path}: {DAMAGED}")
    rows = connection.execute(READ).fetchall()
    try:
        (stored,) = rows
        identity, total, taken, machine, inode, place, _digest = stored
        row = Row(CountState(identity, total, taken), FileIdentity(machine, int(inode), place))
        is_sound = stored == row.values()  # the last value is the digest of the others
    except (ValueError, TypeError):
        is_sound = False
    if not is_sound:
        raise LedgerError(f"{path}: {DAMAGED}")
    return row


def _write(connection: Any, row: Row) -> None:
    if connection.execute(WRITE, row.values()).rowcount != 1:
        raise sqlite3.IntegrityError("no row")


@contextmanager
def sqlite_errors(path: str) -> Iterator[None]:
    """Turn every error of SQLite into a LedgerError."""
    try:
        yield
    except (sqlite3.Error, UnicodeDecodeError) as error:
        name = getattr(error, "sqlite_errorname", None) or "SQLITE_CORRUPT"  # The error for a text that is not UTF-8 has no name.
        meaning = next((text for start, text in MEANINGS.items() if name.startswith(start)), f"{name}: {error}")
        raise LedgerError(f"{path}: {meaning}") from None
    except OSError as error:
        raise LedgerError(f"{path}: cannot be read: {error.strerror}") from None


def create(path: str, identity: str, total: int, seconds: float = BUSY_SECONDS) -> None:
    """Make a file with a count of 0 and mode 0600, atomically; do nothing if a file exists."""
    folder, name = os.path.split(os.path.abspath(path))
    try:
        with _locked_folder(folder, path, seconds):
            if not os.path.lexists(path):
                draft = os.path.join(folder, f".{name}.{os.urandom(8).hex()}.new")
                _create(path, draft, CountState(identity, total, 0))
                sync_folder(folder)
    except OSError as error:
        raise LedgerError(f"{path}: cannot be created: {error.strerror}") from None


def _create(path: str, draft: str, count: CountState) -> None:
    """Write the file at `draft`, and link it to `path`. The draft is removed. Raises LedgerError if another count left files here."""
    _refuse_network(os.path.dirname(os.path.abspath(path)))
    leftover = next((path + end for end in ("-journal", "-wal") if os.path.lexists(path + end)), None)
    if leftover is not None:
        raise LedgerError(f"{path}: expected no leftover of another count, found {leftover}: a count was removed from here; {LOST}")
    os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    try:
        with sqlite_errors(path), closing(connect(draft, BUSY_SECONDS)) as connection:
            for setting in SETTINGS:
                connection.execute(setting)
            file = replace(FileIdentity.of(draft), path=os.path.realpath(path))
            for statement in ("BEGIN", *SCHEMA, f"PRAGMA application_id = {APPLICATION}", f"PRAGMA user_version = {VERSION}"):
                connection.execute(statement)
            connection.execute(INSERT, Row(count, file).values())
            connection.execute("COMMIT")
        os.link(draft, path)
    finally:
        os.unlink(draft)


@contextmanager
def _locked_folder(folder: str, path: str, seconds: float) -> Iterator[None]:
    """Lock the folder within the block, as several processes may make a count in it at the same time."""
    require_posix(f"{path}: a count in a file")
    import fcntl

    descriptor = os.open(folder, os.O_RDONLY)
    end = time.monotonic() + seconds
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > end:
                    raise LedgerError(f"{path}: its folder was locked by another process for too long; {NOTHING_WRITTEN}") from None
                time.sleep(0.01)  # seconds until the next attempt; arbitrary
        yield
    finally:
        os.close(descriptor)

"""A ledger store in one SQLite file. store.py explains the methods, and sqlite_file.py has the tables.

The file has the *rows* of one or more datasets: the entries of a ledger as texts, each with its number and its hash. places.py opens or
creates the store. A *checkpoint* is a stored sum of the entries up to one of them (dpcli/ledger/checkpoint.py).

For durability the file has a rollback journal with synchronous = EXTRA, which also syncs the directory after the journal is removed. With
FULL, the removed journal can reappear after a power failure and undo an acknowledged commit. (A write-ahead log with FULL is as durable,
but only since SQLite 3.51.3.)

There is one writer at a time, because BEGIN IMMEDIATE takes the lock before the first read.

Source: https://www.sqlite.org/pragma.html#pragma_synchronous,
https://www.sqlite.org/atomiccommit.html.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from dpcli.base.errors import LedgerError
from dpcli.base.extras import require_posix
from dpcli.ledger.chain import StoredRow, stated_dataset, utc_now
from dpcli.ledger.stores.sqlite_file import (
    APPLICATION,
    CUT_OFF,
    DEFINITIONS,
    KEY,
    SCHEMA,
    VERSION,
    key_in_entry,
    network_file_system,
    require_ledger_file,
    schema_of,
)
from dpcli.ledger.stores.store import NOT_READ_BACK, StoredCheckpoint, error_after_write

# The longest wait for the lock of another process, in seconds. It is arbitrary, because nothing is written before the lock is taken.
BUSY_SECONDS = 30.0
SETTINGS = (
    "PRAGMA journal_mode = DELETE",
    "PRAGMA synchronous = EXTRA",
    "PRAGMA fullfsync = ON",  # on macOS, fsync alone does not empty the cache of the disk
    "PRAGMA trusted_schema = OFF",  # definitions that someone put into the file may call only functions marked innocuous
    "PRAGMA cell_size_check = ON",  # notices some damage of a page when it is read
)
# The datasets whose first entry is not entry 1. Such an entry may be the last entry of another dataset, moved to another name.
STRAY_ENTRIES = "SELECT dataset, min(seq), body FROM entry GROUP BY dataset HAVING min(seq) <> 1"
NOT_TEXT = "Could not decode"  # start of the message of sqlite3 about text that is not UTF-8
ROWS_AFTER = "SELECT seq, body, hash FROM entry WHERE dataset = ? AND seq > ? ORDER BY seq LIMIT ?"
NO_LIMIT = -1  # a value for LIMIT that returns all rows
MOST_FAULTS = 20  # number of faults after which a check of the file stops; arbitrary: one fault is enough to refuse the file
# INDEXED BY lets a query fail if the file lacks the index, where SQLite would read every row.
ROWS_OF_KEY = f"SELECT seq, body, hash FROM entry INDEXED BY entry_by_key WHERE dataset = ? AND {KEY} = ? ORDER BY seq"
ROWS_OF_PREFIX = (
    f"SELECT seq, body, hash FROM entry INDEXED BY entry_by_key WHERE dataset = ? AND {KEY} >= ? AND {KEY} < ? ORDER BY seq"
)
NEW_CHECKPOINT = (
    "INSERT INTO checkpoint VALUES (?, ?, ?) ON CONFLICT (dataset) DO UPDATE SET body = excluded.body, digest = excluded.digest"
)
Connect = Callable[[str, float], Any]  # opens a connection to a path, which waits some seconds for a lock; tests pass others
# Messages for SQLite's errors, by the start of their names.
MEANINGS = {
    "SQLITE_BUSY": "locked by another process for too long; nothing was written",
    "SQLITE_LOCKED": "locked by another process for too long; nothing was written",
    "SQLITE_FULL": "the disk is full; nothing was written",
    "SQLITE_READONLY": "read-only: it cannot be written, or its last transaction cannot be rolled back; nothing was written",
    "SQLITE_CORRUPT": "damaged: restore it from a backup and compare with an anchor (dpcli budget verify --anchor)",
    "SQLITE_NOTADB": "damaged: its header is not the header of a database; restore it from a backup",
    "SQLITE_IOERR": "the disk cannot be read or written; nothing is acknowledged",
    "SQLITE_CANTOPEN": "cannot be opened",
    "SQLITE_PERM": "permission denied",
    "SQLITE_AUTH": "permission denied",
    "SQLITE_ERROR": "damaged, or made before dpcli 0.1.0: it does not have the tables of a ledger; restore it from a backup",
    "SQLITE_CONSTRAINT": "refused by its own rules; nothing was written",
}

_OPENING = threading.Lock()  # taken by whoever reads or changes _OPEN: a set that changes while it is read raises RuntimeError
# The open stores of this process. Their headers are not read again, because closing a second descriptor of a file would drop its locks.
_OPEN: weakref.WeakSet[SqliteStore] = weakref.WeakSet()


def connect(path: str, seconds: float) -> sqlite3.Connection:
    """Return a connection to an existing file, without automatic transactions. It waits up to `seconds` for a lock."""
    return sqlite3.connect(f"file:{quote(os.fsencode(path))}?mode=rw", uri=True, timeout=seconds, isolation_level=None)


@dataclass(frozen=True, slots=True)
class SqliteTail:
    """The entries of one dataset, which are read and appended under the lock of a writer."""

    connection: Any
    dataset: str
    new: list[StoredRow] = field(default_factory=list)

    def after(self, seq: int) -> Sequence[StoredRow]:
        return self.page(seq, NO_LIMIT)

    def page(self, seq: int, most: int) -> Sequence[StoredRow]:
        """Return up to `most` entries after entry `seq`. Raises LedgerError if the last entries, or their number, are missing."""
        end = self._end()  # read before the rows, so that an entry that is appended in between cannot seem missing
        rows = self.rows(ROWS_AFTER, seq, most)
        if len(rows) == most:  # there may be further rows
            return rows
        by_hand = "the ledger is damaged, or was changed by hand"
        if end > seq and all(row.seq != end for row in rows):
            raise LedgerError(f'dataset "{self.dataset}": its entries end before entry {end}, which was written: {by_hand}')
        # `end` may be 0 because the dataset was created between the two reads. Then a second look finds its number.
        if rows and not end and not self._end():
            raise LedgerError(f'dataset "{self.dataset}": it has entries, but the number of its last entry is missing: {by_hand}')
        return rows

    def rows(self, statement: str, *values: object) -> list[StoredRow]:
        """Return the rows of a query whose first parameter is the dataset. Raises sqlite3.DataError if a value has a wrong type."""
        rows = self.connection.execute(statement, (self.dataset, *values)).fetchall()
        if any(tuple(map(type, row)) != (int, str, str) for row in rows):
            raise sqlite3.DataError(NOT_TEXT)
        return [StoredRow(*row) for row in rows]

    def _end(self) -> int:
        """Return the number of the last entry, as the table `head` states it; 0 if the table does not have the dataset."""
        row = self.connection.execute("SELECT seq FROM head WHERE dataset = ?", (self.dataset,)).fetchone()
        return int(row[0]) if row else 0

    def put_checkpoint(self, checkpoint: StoredCheckpoint) -> None:
        self.connection.execute(NEW_CHECKPOINT, (self.dataset, checkpoint.body, checkpoint.digest))

    def append(self, row: StoredRow) -> None:
        self._insert(row)
        if self.after(row.seq - 1) != [row]:  # definitions that someone changed may drop or alter a row
            raise LedgerError(f'dataset "{self.dataset}": {NOT_READ_BACK}')
        self.new.append(row)

    def append_copied(self, row: StoredRow) -> None:
        self._insert(row)  # copying.py reads all copied rows back at the end

    def _insert(self, row: StoredRow) -> None:
        self.connection.execute("INSERT INTO entry VALUES (?, ?, ?, ?)", (self.dataset, row.seq, row.body, row.hash))


class SqliteStore:
    """A store in an existing file. The function `create` makes a new file.

    Args:
        connect: A function that opens a connection.
        seconds: Longest wait for the lock of another process.
        trusted: Whether this process has just created the file, so that no check is needed.
    """

    hides = False  # a file has no logins from which datasets could be hidden
    scopes_keys = False  # nor logins that could have keys of their own
    who: str | None = None  # nor a login that signs entries
    version = DEFINITIONS
    outdated = ""  # the definitions of a file are never reported as those of an earlier version

    def __init__(self, path: str, connect: Connect = connect, seconds: float = BUSY_SECONDS, trusted: bool = False) -> None:
        require_posix(f"{path}: a ledger in a file")
        self._path = path
        self._strays: tuple[tuple[str, int, object], ...] = ()  # the rows of STRAY_ENTRIES: dataset, number and text
        self.wrote = False
        with _OPENING:
            # The size that the header of the file states; 0 if it was not read.
            self._stated_size = 0 if trusted else require_ledger_file(path, is_open=any(store.holds(path) for store in _OPEN))
            self._file = _identity(path)
            _OPEN.add(self)
        with self._explain_errors():
            self.connection = connect(path, seconds)
        weakref.finalize(self, _close_quietly, self.connection)  # closes the connection if `close` is never called
        try:
            self._prepare(trusted)
        except BaseException:
            self.close()
            raise

    def _prepare(self, trusted: bool) -> None:
        """Apply the settings to the connection and, unless the file is trusted, check it for damage."""
        with self._explain_errors():
            for setting in SETTINGS:
                answer = self.connection.execute(setting).fetchall()
                if "journal_mode" in setting and answer != [("delete",)]:
                    raise LedgerError(
                        f"{self._path}: expected a rollback journal, found {answer}: another program has opened it in WAL mode"
                    )
            self.connection.execute("BEGIN")
            if not trusted:
                self._refuse_damaged()
            self.connection.execute("COMMIT")

    def _refuse_damaged(self) -> None:
        """Check the file for damage. One flipped bit can hide the last entries, although the chain before them stays valid.

        If there is a checkpoint, only the length of the file is checked, because a full check of a long file would slow down each opening.
        The table `head` then reveals a hidden or moved last entry. `verify` reads every page.

        Raises LedgerError if the file is damaged.
        """
        ((size,),) = self.connection.execute("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size").fetchall()
        if _size(self._path) < size:
            raise LedgerError(f"{self._path}: {CUT_OFF}")
        if self.connection.execute("SELECT EXISTS (SELECT 1 FROM checkpoint)").fetchone()[0]:
            return
        if self.connection.execute("PRAGMA quick_check(1)").fetchall() != [("ok",)]:
            raise LedgerError(f"{self._path}: {MEANINGS['SQLITE_CORRUPT']}")
        self._strays = tuple(self.connection.execute(STRAY_ENTRIES).fetchall())

    def _refuse_strays(self, dataset: str) -> None:
        """Check that no entry of the dataset was moved to another name. Raises LedgerError if an entry was.

        A stray entry whose text does not name a dataset may belong to any dataset.
        """
        for name, seq, body in self._strays:
            if stated_dataset(body) in (dataset, None) or name == dataset:
                raise LedgerError(
                    f'dataset "{name}", entry 1: missing from the chain (entry {seq} comes next): the ledger was changed by hand'
                )

    @property
    def place(self) -> str:
        return self._path

    @property
    def address(self) -> str:
        return os.path.realpath(self._path)

    @property
    def identity(self) -> tuple[object, ...]:
        return self._file or (self._path,)  # the device and the inode of the file, unless it was removed before it was opened

    def now(self) -> str:
        return utc_now()

    def holds(self, path: str) -> bool:
        """Return whether `path` is the file of this store."""
        return self._file is not None and self._file == _identity(path)

    def datasets(self) -> tuple[str, ...]:
        with self._explain_errors():
            return tuple(name for (name,) in self.connection.execute("SELECT dataset FROM head ORDER BY dataset").fetchall())

    def after(self, dataset: str, seq: int, most: int | None = None) -> Sequence[StoredRow]:
        self._refuse_strays(dataset)
        with self._explain_errors():
            return self._tail(dataset).page(seq, NO_LIMIT if most is None else most)

    def _tail(self, dataset: str) -> SqliteTail:
        return SqliteTail(self.connection, dataset)

    def rows_of_key(self, dataset: str, key: str) -> Sequence[StoredRow]:
        with self._explain_errors():
            return self._tail(dataset).rows(ROWS_OF_KEY, key_in_entry(key))

    def rows_of_prefix(self, dataset: str, prefix: str) -> Sequence[StoredRow]:
        least = key_in_entry(prefix)
        first_beyond = f"{least[:-1]}{chr(ord(least[-1]) + 1)}"  # the smallest text above all texts that begin with `least`
        with self._explain_errors():
            return self._tail(dataset).rows(ROWS_OF_PREFIX, least, first_beyond)

    def checkpoint(self, dataset: str) -> StoredCheckpoint | None:
        with self._explain_errors():
            row = self.connection.execute("SELECT body, digest FROM checkpoint WHERE dataset = ?", (dataset,)).fetchone()
        return StoredCheckpoint(*map(str, row)) if row else None

    @contextmanager
    def writing(self, dataset: str) -> Iterator[SqliteTail]:
        self._refuse_strays(dataset)
        network = network_file_system(self._path)
        if network is not None:
            raise LedgerError(
                f"{self._path}: on a network file system ({network}), where locks do not exclude other machines; nothing was written "
                "(DP409): keep it on a local disk, or use PostgreSQL"
            )
        with self._explain_errors():
            self.connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._tail(dataset)
                self.connection.execute("COMMIT")
                self.wrote = True
            except BaseException:
                with suppress(Exception):
                    self.connection.execute("ROLLBACK")
                raise

    def schema(self) -> str:
        with self._explain_errors():
            return schema_of(self.connection)

    def check(self, dataset: str | None = None) -> tuple[str, ...]:
        with self._explain_errors():
            faults = tuple(text for (text,) in self.connection.execute(f"PRAGMA integrity_check({MOST_FAULTS})").fetchall())
        return () if faults == ("ok",) else faults

    def close(self) -> None:
        self.connection.close()
        with _OPENING:
            _OPEN.discard(self)

    @contextmanager
    def _explain_errors(self) -> Iterator[None]:
        """Turn every error of SQLite into a LedgerError with a message for the user."""
        try:
            yield
        except (sqlite3.Error, UnicodeDecodeError) as error:
            name = getattr(error, "sqlite_errorname", "") or ""
            if isinstance(error, UnicodeDecodeError) or str(error).startswith(NOT_TEXT):
                name = "SQLITE_CORRUPT"
            meaning = next((text for start, text in MEANINGS.items() if name.startswith(start)), f"{name or 'SQLite'}: {error}")
            if name.startswith("SQLITE_CORRUPT") and _size(self._path) < self._stated_size:
                meaning = CUT_OFF
            failure = LedgerError(f"{self._path}: {meaning}")
            raise (error_after_write(failure) if self.wrote else failure) from None


def create(path: str, fill: Callable[[SqliteStore], None], connect: Connect = connect) -> None:
    """Create a new ledger at `path`, and call `fill`, which writes to it. If anything fails, no file is left.

    The file is written under a temporary name in the same folder, synced, and then linked to its final name. The link fails if the name is
    taken. The mode of the file is 0600.

    Raises LedgerError if the path is taken, or the file cannot be created.
    """
    require_posix(f"{path}: a ledger in a file")
    folder, name = os.path.split(os.path.abspath(path))
    if os.path.lexists(path):
        raise LedgerError(f"{path}: expected a new path, found an existing file")
    for leftover in (f"{path}-journal", f"{path}-wal"):
        if os.path.lexists(leftover):
            raise LedgerError(
                f"{path}: expected no leftover of another ledger, found {leftover}, which SQLite would apply to the new ledger"
            )
    # The temporary name is random, because processes in two containers can have the same process id. It matches DRAFT (sqlite_file.py), by
    # which the draft of an interrupted command is recognised.
    draft = os.path.join(folder, f".{name}.{os.urandom(8).hex()}.new")
    try:
        os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        try:
            _try_link(draft)
            _fill(draft, fill, connect)
            os.link(draft, path)
        finally:
            os.unlink(draft)
        sync_folder(folder)
    except FileExistsError:
        raise LedgerError(f"{path}: expected a new path, found an existing file") from None
    except OSError as error:
        raise LedgerError(f"{path}: cannot be created: {error.strerror}") from None


def _try_link(draft: str) -> None:
    """Check that the file system supports hard links. Raises LedgerError if not.

    `create` calls this before `fill`. A move to a new file (copying.py) closes the dataset at its origin within `fill`. If the link to the
    final name failed afterwards, nobody could charge the dataset until the move is repeated.
    """
    other = f"{draft[: -len('.new')]}.link"
    try:
        os.link(draft, other)
    except OSError as error:
        raise LedgerError(
            f"{os.path.dirname(draft)}: a new ledger needs a file system with hard links, and this one refuses them "
            f"({error.strerror}); nothing was written"
        ) from None
    os.unlink(other)


def _fill(draft: str, fill: Callable[[SqliteStore], None], connect: Connect) -> None:
    """Make the tables of a ledger in the empty file `draft`, mark it as a ledger, and call `fill`."""
    store = SqliteStore(draft, connect, trusted=True)
    try:
        marks = (f"PRAGMA application_id = {APPLICATION}", f"PRAGMA user_version = {VERSION}")
        with store._explain_errors():
            for statement in ("BEGIN", *SCHEMA, *marks, "COMMIT"):
                store.connection.execute(statement)
        fill(store)
    finally:
        store.close()


def _close_quietly(connection: Any) -> None:
    with suppress(Exception):  # SQLite raises an error in any other thread than the one that opened the connection
        connection.close()


def _identity(path: str) -> tuple[int, int] | None:
    """Return the device and the inode of a file; None if it does not exist."""
    try:
        info = os.stat(path)
    except OSError:
        return None
    return info.st_dev, info.st_ino


def _size(path: str) -> int:
    """Return the size of a file in bytes; 0 if it does not exist."""
    return os.stat(path).st_size if os.path.exists(path) else 0


def sync_folder(folder: str) -> None:
    """Sync a folder, so that a new name in the folder is durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

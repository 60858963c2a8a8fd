"""The file of a ledger: the checks before a path is opened as a ledger, and the definitions of its tables.

sqlite.py reads and writes the entries of the ledger, which are the rows of the file. Each fault of a path has its own message, because a
user who sees "no ledger here" may open a new one, with a new budget. The checks write nothing.

The table `entry` contains the entries. A trigger keeps the number of the last entry in `head`, so that a reader notices if damage hides the
last entries. The index `entry_by_key` finds the entries of a run by its *key*, the name of the run. The table `checkpoint` holds stored
sums of the entries (dpcli.ledger.checkpoint).
"""

from __future__ import annotations

import json
import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpcli.base.errors import LedgerError

MAGIC = b"SQLite format 3\0"  # the first bytes of every SQLite database
HEADER_SIZE = 100  # bytes of the header of every SQLite database
# Positions in the header (https://www.sqlite.org/fileformat2.html), each with the number of its bytes.
PAGE_SIZE_AT, WRITE_VERSION_AT, PAGE_COUNT_AT, USER_VERSION_AT, APPLICATION_AT = (16, 2), (18, 1), (28, 4), (60, 4), (68, 4)
APPLICATION = 0x6470636C  # "dpcl", the application_id that distinguishes a ledger from other SQLite databases
VERSION = 1  # user_version of the file; a later format has a larger number
CUT_OFF = "the file was cut off: it has fewer pages than its header states; restore it from a backup"
DRAFT = re.compile(r"\..*\.[0-9a-f]{16}\.new", re.DOTALL)  # the name of a ledger that is being made (stores.sqlite.create)
# The types of network file systems, as /proc/self/mounts names them.
NETWORK = frozenset(
    {
        "nfs", "nfs4", "cifs", "smb", "smb2", "smb3", "smbfs", "ncpfs", "afs", "fuse.sshfs", "sshfs", "ceph", "fuse.ceph", "lustre",
        "glusterfs", "fuse.glusterfs", "beegfs", "gpfs", "ocfs2", "gfs2", "davfs", "fuse.davfs2", "fuse.s3fs", "fuse.gcsfuse",
        "fuse.rclone",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class FileWords:
    """The words of messages about a file: the noun for it, and the message for an empty file."""

    noun: str
    empty: str


LEDGER_WORDS = FileWords(
    "the ledger", "an empty file is not a ledger: restore it from a backup, or remove it and run dpcli budget init"
)


def require_ledger_file(path: str, is_open: bool = False) -> int:
    """Return the size in bytes that the header of the file states.

    The file may be shorter while another process commits, or before an interrupted transaction is rolled back. SQLite handles these cases.

    Args:
        is_open: Whether a connection of this process has the file open. Its header was then checked before. It is not read again, because
            closing another descriptor of the file would drop every lock of the process (https://www.sqlite.org/howtocorrupt.html, 2.2).
            The result is 0 in this case.

    Raises:
        LedgerError: The path is not a regular file with one name that only its owner may write, or not a ledger that this version reads.
    """
    if DRAFT.fullmatch(os.path.basename(path)):
        raise LedgerError(
            f"{path}: expected a ledger, found the temporary file of a command that was interrupted: remove the file, and repeat the "
            "command"
        )
    try:
        info = os.lstat(path)
    except FileNotFoundError:
        raise LedgerError(f"{path}: no ledger here; dpcli budget init opens one") from None
    except (OSError, ValueError) as error:  # ValueError for a null character in the path
        raise LedgerError(f"{path}: cannot be examined: {getattr(error, 'strerror', error)}") from None
    refuse_kind(path, info, LEDGER_WORDS)
    if is_open:
        return 0
    try:
        with open(path, "rb") as file:
            header = file.read(HEADER_SIZE)
    except OSError as error:
        raise LedgerError(f"{path}: cannot be read: {error.strerror}") from None
    problem = _header_problem(header)
    if problem is not None:
        raise LedgerError(f"{path}: {problem}")
    _refuse_foreign_log(path, header)
    return _stated_size(header)


def _refuse_foreign_log(path: str, header: bytes) -> None:
    """Check that there is no write-ahead log, which a ledger does not use. Raises LedgerError if there is one.

    SQLite would apply the pages of the log, which belong to another file or to an older copy.
    """
    log = f"{path}-wal"
    has_journal = _number(header, WRITE_VERSION_AT) == 1  # 2 in a file with a write-ahead log
    if has_journal and os.path.lexists(log) and os.lstat(log).st_size:
        raise LedgerError(
            f"{path}: expected only a journal next to it, found {log}, which belongs to another file or an older copy: move it away"
        )


def refuse_kind(path: str, info: os.stat_result, words: FileWords) -> None:
    """Check that a file is regular, not empty, has one name, and that only its owner may write it. Raises LedgerError if not."""
    if stat.S_ISLNK(info.st_mode):
        raise LedgerError(f"{path}: expected {words.noun} itself, found a symbolic link: state the path that it points to")
    if not stat.S_ISREG(info.st_mode):
        raise LedgerError(f"{path}: expected a regular file, found {_kind(info.st_mode)}")
    if info.st_size == 0:
        raise LedgerError(f"{path}: {words.empty}")
    if info.st_nlink > 1:
        raise LedgerError(
            f"{path}: expected a file with one name, found {info.st_nlink} (hard links): SQLite finds no journal under another name; "
            "remove the other names (a .new file next to it is left from an interrupted init)"
        )
    if info.st_mode & 0o022:  # the right to write, of the group or of others
        raise LedgerError(
            f"{path}: expected a file that only its owner may write, found mode {info.st_mode & 0o777:04o}: chmod 600"
        )


def _kind(mode: int) -> str:
    if stat.S_ISDIR(mode):
        return "a directory"
    if stat.S_ISFIFO(mode):
        return "a named pipe"
    return "a socket" if stat.S_ISSOCK(mode) else "a device"


def _number(header: bytes, place: tuple[int, int]) -> int:
    """Return the number at a position in the header, with its number of bytes."""
    start, size = place
    return int.from_bytes(header[start : start + size], "big")


def _stated_size(header: bytes) -> int:
    """Return the size of the file in bytes that a header states: the number of pages times the page size, where 1 stands for 65536."""
    page = _number(header, PAGE_SIZE_AT)
    return _number(header, PAGE_COUNT_AT) * (65536 if page == 1 else page)


def _header_problem(header: bytes) -> str | None:
    """Return why the first 100 bytes of a file are not the header of a ledger; None if they are such a header."""
    if not header.startswith(MAGIC):
        return "not a ledger: the file is not a SQLite database"
    if len(header) < HEADER_SIZE:
        return CUT_OFF
    if _number(header, APPLICATION_AT) != APPLICATION:
        return "an SQLite database, but not a ledger of dpcli"
    if _number(header, USER_VERSION_AT) > VERSION:
        return "written by a later version of dpcli: upgrade to read it"
    return None


def network_file_system(path: str) -> str | None:
    """Return the type of the network file system that contains `path`; None if the file system is local or unknown.

    The locks of network file systems are not reliable.
    """
    kind = file_system_of(path)
    return kind if kind in NETWORK else None


def file_system_of(path: str) -> str | None:
    """Return the type of the file system that contains `path`, by the longest mount point above it; None if it is unknown."""
    try:
        mounts = Path("/proc/self/mounts").read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return None
    real = os.path.realpath(path)
    kinds = {}
    for line in mounts:
        fields = line.split(" ")
        if len(fields) > 2:
            _, point, kind, *_ = fields
            kinds[_unescaped(point)] = kind  # if two file systems are mounted at one point, the later one is visible
    points_above = [point for point in kinds if real == point or real.startswith(point.rstrip("/") + "/")]
    return kinds.get(max(points_above, key=len, default=""))


def _unescaped(point: str) -> str:
    """Return a mount point with its octal escapes, such as \\040 for a blank, decoded."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), point)


# The SQL expression for the key in the canonical text of an entry (`dpcli.ledger.chain.canonical`). Names are sorted, quotation marks in
# strings are escaped, and only names of amounts can come before the key. The text before the key, ,"key":", has 8 characters. SQLite's JSON
# functions are not safe in definitions.
KEY = """CASE WHEN instr(body, ',"key":"') THEN
  substr(body, instr(body, ',"key":"') + 8, instr(body, '","kind":"') - instr(body, ',"key":"') - 8) END"""
# The definitions of the file. Their text is hashed, and the hash is written into every ledger.
SCHEMA = (
    """CREATE TABLE entry (
  dataset TEXT NOT NULL, seq INTEGER NOT NULL CHECK (seq >= 1), body TEXT NOT NULL, hash TEXT NOT NULL,
  PRIMARY KEY (dataset, seq)
) WITHOUT ROWID""",
    "CREATE TRIGGER entry_never_changes BEFORE UPDATE ON entry BEGIN SELECT RAISE(ABORT, 'entries never change'); END",
    "CREATE TRIGGER entry_never_goes BEFORE DELETE ON entry BEGIN SELECT RAISE(ABORT, 'entries are never removed'); END",
    "CREATE TABLE head (dataset TEXT PRIMARY KEY, seq INTEGER NOT NULL) WITHOUT ROWID",
    "CREATE TABLE checkpoint (dataset TEXT PRIMARY KEY, body TEXT NOT NULL, digest TEXT NOT NULL)",
    f"CREATE INDEX entry_by_key ON entry (dataset, {KEY})",
    "CREATE TRIGGER entry_is_the_last AFTER INSERT ON entry BEGIN "
    "INSERT INTO head VALUES (NEW.dataset, NEW.seq) ON CONFLICT (dataset) DO UPDATE SET seq = max(seq, NEW.seq); END",
)
DEFINITIONS = 2  # version number of the definitions, which the opening entry records


def key_in_entry(key: str) -> str:
    """Return the spelling of a key in an entry, as the SQL expression `KEY` returns it: escaped, without quotation marks."""
    return json.dumps(key)[1:-1]


def schema_of(connection: Any) -> str:
    """Return the definitions in a file, as text. The opening entry of each dataset states its hash."""
    rows = connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY name").fetchall()
    return "\n".join(str(sql) for (sql,) in rows)

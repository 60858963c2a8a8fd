"""Whether a path may be opened as a ledger: every way in which it may not has its own message, and none of them writes anything."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from dpcli.base.errors import LedgerError

MAGIC = b"SQLite format 3\0"
APPLICATION = 0x6470636C  # "dpcl": tells a ledger from any other SQLite database
VERSION = 1
CUT_OFF = "the file was cut off: it holds fewer pages than it says; restore it from a backup"
DRAFT = re.compile(r"\..*\.[0-9a-f]{16}\.new", re.DOTALL)  # the name of a ledger that is being made (stores.sqlite.create)
NETWORK = frozenset(
    {
        "nfs", "nfs4", "cifs", "smb", "smb2", "smb3", "smbfs", "ncpfs", "afs", "fuse.sshfs", "sshfs", "ceph", "fuse.ceph", "lustre",
        "glusterfs", "fuse.glusterfs", "beegfs", "gpfs", "ocfs2", "gfs2", "davfs", "fuse.davfs2", "fuse.s3fs", "fuse.gcsfuse",
        "fuse.rclone",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class FileWords:
    """What messages call a file, and what they say of an empty one."""

    noun: str
    empty: str


LEDGER_WORDS = FileWords(
    "the ledger", "an empty file is no ledger: restore it from a backup, or remove it and run dpcli budget init"
)


def refuse(path: str, held: bool = False) -> int:
    """Raise LedgerError unless `path` is a regular, private file that this version can read as a ledger; the bytes it says to hold.

    Fewer may be there while another process commits or before a transaction that was cut short is rolled back: SQLite tells. held: a
    connection of this process has it open, so that it was looked into before (0 is returned); closing another descriptor of it would
    drop every lock of the process (https://www.sqlite.org/howtocorrupt.html, 2.2).
    """
    if DRAFT.fullmatch(os.path.basename(path)):
        raise LedgerError(
            f"{path}: expected a ledger, found the draft of one, left by a command that was stopped before it had its name: remove it, and "
            "give that command again"
        )
    try:
        info = os.lstat(path)
    except FileNotFoundError:
        raise LedgerError(f"{path}: no ledger here; dpcli budget init opens one") from None
    except (OSError, ValueError) as error:  # a null character in it
        raise LedgerError(f"{path}: cannot be looked at: {getattr(error, 'strerror', error)}") from None
    refuse_kind(path, info, LEDGER_WORDS)
    _refuse_stray(path)
    if held:
        return 0
    try:
        with open(path, "rb") as file:
            header = file.read(100)
    except OSError as error:
        raise LedgerError(f"{path}: cannot be read: {error.strerror}") from None
    for wrong, message in CHECKS:
        if wrong(header):
            raise LedgerError(f"{path}: {message}")
    _refuse_foreign_log(path, header)
    return _stated_size(header)


def _refuse_stray(path: str) -> None:
    """What SQLite would open beside a ledger is a file: it waits for ever for somebody who writes into a named pipe."""
    for beside in (f"{path}-journal", f"{path}-wal", f"{path}-shm"):
        try:
            mode = os.lstat(beside).st_mode
        except OSError:  # there is none, or none any more
            continue
        if not stat.S_ISREG(mode):
            kind = "a symbolic link" if stat.S_ISLNK(mode) else _kind(mode)
            raise LedgerError(f"{path}: expected nothing but a journal beside it, found {kind} at {beside}: move it away")


def _refuse_foreign_log(path: str, header: bytes) -> None:
    """A ledger in rollback mode has no write-ahead log: SQLite would play one all the same, and its pages are of another file or time."""
    log = f"{path}-wal"
    if header[18] == 1 and os.path.lexists(log) and os.lstat(log).st_size:
        raise LedgerError(
            f"{path}: expected nothing but a journal beside it, found {log}, left by another file or an older copy: move it away"
        )


def refuse_kind(path: str, info: os.stat_result, words: FileWords) -> None:
    """Raise LedgerError unless it is a regular file with one name, not empty, which its owner alone may write."""
    if stat.S_ISLNK(info.st_mode):
        raise LedgerError(f"{path}: expected {words.noun} itself, found a symbolic link: give the path that it points to")
    if not stat.S_ISREG(info.st_mode):
        raise LedgerError(f"{path}: expected a regular file, found {_kind(info.st_mode)}")
    if info.st_size == 0:
        raise LedgerError(f"{path}: {words.empty}")
    if info.st_nlink > 1:
        raise LedgerError(
            f"{path}: expected a file with one name, found {info.st_nlink} (hard links): under the other SQLite misses its journal; "
            "remove the other names (a .new file next to it is left from an interrupted init)"
        )
    if info.st_mode & 0o022:
        raise LedgerError(
            f"{path}: expected a file that its owner alone may write, found mode {info.st_mode & 0o777:04o}: chmod 600"
        )


def _kind(mode: int) -> str:
    tests = {"a directory": stat.S_ISDIR, "a named pipe": stat.S_ISFIFO, "a socket": stat.S_ISSOCK}
    return next((name for name, test in tests.items() if test(mode)), "a device")


def _number(header: bytes, start: int, size: int) -> int:
    return int.from_bytes(header[start : start + size], "big")


def _stated_size(header: bytes) -> int:
    page = _number(header, 16, 2)
    return _number(header, 28, 4) * (65536 if page == 1 else page)


# https://www.sqlite.org/fileformat2.html: page size at 16, pages at 28, user_version at 60, application_id at 68.
CHECKS: tuple[tuple[Callable[[bytes], bool], str], ...] = (
    (lambda header: not header.startswith(MAGIC), "not a ledger: the file is not a SQLite database"),
    (lambda header: len(header) < 100, CUT_OFF),
    (lambda header: _number(header, 68, 4) != APPLICATION, "an SQLite database, but not a ledger of dpcli"),
    (lambda header: _number(header, 60, 4) > VERSION, "written by a later version of dpcli: upgrade to read it"),
)


def network_file_system(path: str) -> str | None:
    """The type of the network file system that holds `path`, whose locks SQLite cannot rely on; None on a local one or where unknown."""
    try:
        mounts = Path("/proc/self/mounts").read_text(errors="replace").splitlines()
    except OSError:
        return None
    real = os.path.realpath(path)
    kinds = {fields[1].replace("\\040", " "): fields[2] for line in mounts if len(fields := line.split()) > 2}
    holder = max((point for point in kinds if real == point or real.startswith(point.rstrip("/") + "/")), key=len, default="")
    return kinds[holder] if kinds.get(holder) in NETWORK else None

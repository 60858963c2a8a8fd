"""Whether a ledger is safe here: SQLite's build, the settings that it accepts, and the file system under the file."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from dpcli.base.errors import InputError, LedgerError
from dpcli.doctor.fact import ROOM, Fact
from dpcli.ledger.stores.places import POSTGRES, open_store, path_of
from dpcli.ledger.stores.sqlite_file import NETWORK

WAL_SINCE = (3, 51, 3)  # the first version whose write-ahead log with synchronous = FULL loses nothing either
SHARED = NETWORK | {"9p", "virtiofs"}  # the last two lie on one machine as a rule, and may be shared
MEMORY = frozenset({"tmpfs", "ramfs"})
THREADS = {0: "single-threaded", 1: "multi-threaded", 2: "multi-threaded", 3: "serialized"}


def database() -> Iterator[Fact]:
    """SQLite: its library, whether threads may share it, and whether it takes the ledger's settings."""
    try:
        import sqlite3
    except ImportError:
        yield Fact("SQLite", "Python was built without it", "fail", "install a Python with sqlite3: ledgers need it")
        return
    yield Fact("SQLite", sqlite3.sqlite_version, "ok")
    threads = sqlite3.threadsafety
    unsafe = threads == 0
    yield Fact(
        "SQLite threads", THREADS[threads], "warn" if unsafe else "ok", "use a ledger from one thread only" if unsafe else ""
    )
    yield _durability(sqlite3.sqlite_version_info)


def _durability(version: tuple[int, ...]) -> Fact:
    """The mode that ledgers use, tried on a file of its own."""
    import sqlite3

    name, later = "ledger durability", "" if version >= WAL_SINCE else "; WAL would need SQLite 3.51.3"
    try:
        with tempfile.TemporaryDirectory() as folder:
            connection = sqlite3.connect(Path(folder, "probe.sqlite"))
            try:
                (mode,) = connection.execute("PRAGMA journal_mode = DELETE").fetchone()
                connection.execute("PRAGMA synchronous = EXTRA")
                (level,) = connection.execute("PRAGMA synchronous").fetchone()
            finally:
                connection.close()
    except (OSError, sqlite3.Error) as error:
        return Fact(name, f"could not be tried: {error}", "fail", "make the folder for temporary files writable")
    if (mode, level) != ("delete", 3):
        return Fact(
            name, f"journal_mode {mode}, synchronous {level}", "fail", "install another SQLite: this one refuses the settings"
        )
    return Fact(name, f"journal_mode DELETE, synchronous EXTRA{later}", "ok")


def storage(ledger: str | None) -> Iterator[Fact]:
    """The file system of a ledger, or of the current directory. Raises InputError where its folder is not there."""
    if ledger is not None and ledger.startswith(POSTGRES):
        yield _server(ledger)
        return
    folder = _folder(ledger)
    where = "current directory" if ledger is None else "ledger's folder"
    yield _file_system(folder, where)
    free = shutil.disk_usage(folder).free
    yield Fact(
        f"free space, {where}",
        f"{free / 2**30:.1f} GiB" if free >= 2**30 else f"{free / 2**20:.0f} MiB",
        "warn" if free < ROOM else "ok",
        "make room: a ledger that cannot write refuses every spend" if free < ROOM else "",
    )
    if not os.access(folder, os.W_OK | os.X_OK):
        yield Fact(f"{where} writable", "no", "warn", "a ledger writes its journal into the same folder, which must be writable")


def _server(url: str) -> Fact:
    """A ledger in a database: whether it can be opened from here."""
    try:
        store = open_store(url)
    except LedgerError as error:
        return Fact("ledger's database", str(error), "warn", "dpcli budget --help says what a ledger in PostgreSQL needs")
    store.close()
    return Fact("ledger's database", f"{store.place} holds a ledger", "ok")


def _folder(ledger: str | None) -> Path:
    folder = Path.cwd() if ledger is None else Path(path_of(ledger)).resolve().parent
    if not folder.is_dir():
        raise InputError(f"--ledger: expected a file in a folder that exists, found no folder {folder}")
    return folder


def _file_system(folder: Path, where: str) -> Fact:
    found = mounted(folder)
    if found is None:
        return Fact(f"file system, {where}", "unknown on this system", "absent", "keep ledgers on a local disk")
    if found in SHARED:
        return Fact(
            f"file system, {where}", found, "warn", "SQLite's locks are unreliable on network file systems: use a local disk"
        )
    if found in MEMORY:
        return Fact(f"file system, {where}", found, "warn", "it is gone after a restart: keep ledgers on a disk")
    return Fact(f"file system, {where}", found, "ok")


def mounted(folder: Path, table: str | None = None) -> str | None:
    """The type of the file system that holds a folder, by the longest mount point above it; None where no table tells.

    table: in the form of /proc/mounts, which is read where it is None.
    """
    if table is None:
        try:
            table = Path("/proc/self/mounts").read_text(encoding="utf-8", errors="surrogateescape")
        except OSError:
            return None
    best, kind = -1, None
    for line in table.splitlines():
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        point = _unescaped(fields[1])
        if folder.is_relative_to(point) and len(point) >= best:  # of two at one point the later one is on top
            best, kind = len(point), fields[2]
    return kind


def _unescaped(point: str) -> str:
    """Mount points write blanks as \\040 and the like."""
    for code, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        point = point.replace(code, character)
    return point

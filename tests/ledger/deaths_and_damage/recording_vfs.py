"""SQLite on a recorded disk: a log of every change in order, and every content of the disk that a power failure may leave.

The model is the one of https://www.sqlite.org/atomiccommit.html. What was written is safe once its file was synced; until then it may be
there completely, in part, in any order, or not at all. A name (a file made, linked or removed) is safe once its directory was synced, and
until then may be as it was or as it became; syncing a file does not save its name. SQLite syncs the directory at the first sync of a new
journal, and with synchronous = EXTRA after the journal was removed.
"""

from __future__ import annotations

import itertools
import os
import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import apsw

Names = Mapping[str, bytes]  # what a disk holds


@dataclass(frozen=True, slots=True)
class Write:
    """A write of bytes at an offset, which extends the content if necessary."""

    offset: int
    data: bytes

    def on(self, content: bytes) -> bytes:
        padded = content.ljust(self.offset, b"\0")
        return padded[: self.offset] + self.data + padded[self.offset + len(self.data) :]

    def torn(self) -> tuple[Write, ...]:
        """Return the first half of the write, and the second half, as a power failure may leave only one of them."""
        half = len(self.data) // 2
        return (Write(self.offset, self.data[:half]), Write(self.offset + half, self.data[half:])) if half else ()


@dataclass(frozen=True, slots=True)
class Truncate:
    """A change of the size of a file, which cuts it off or fills it with zeros."""

    size: int

    def on(self, content: bytes) -> bytes:
        return content[: self.size].ljust(self.size, b"\0")

    def torn(self) -> tuple[Write, ...]:
        return ()


Change = Write | Truncate


@dataclass(slots=True)
class File:
    """The content of a file that is safe, and the changes since the last sync, which may be lost."""

    safe: bytes = b""
    since: list[Change] = field(default_factory=list)

    def sync(self) -> None:
        self.safe, self.since = _applied(self.safe, self.since), []

    def contents(self) -> Iterator[bytes]:
        """Yield the contents that a power failure may leave.

        Of the changes since the last sync, the disk may have all those before or after some point, all but one, only one, or a part of one.
        The last content is the safe one, with the new size.
        """
        done = self.since
        yield from (_applied(self.safe, done[:i]) for i in range(len(done) + 1))
        yield from (_applied(self.safe, done[i:]) for i in range(1, len(done)))
        yield from (_applied(self.safe, done[:i] + done[i + 1 :]) for i in range(len(done)))
        yield from (_applied(self.safe, [change]) for change in done)
        for i, change in enumerate(done):
            yield from (_applied(self.safe, [*done[:i], part]) for part in change.torn())
        whole = _applied(self.safe, done)
        yield self.safe[: len(whole)].ljust(len(whole), b"\0")


def _applied(content: bytes, changes: list[Change]) -> bytes:
    for change in changes:
        content = change.on(content)
    return content


@dataclass(slots=True)
class Disk:
    """A directory. Each name may denote one of several files (by number) after a power failure, and denotes the last of them now."""

    files: dict[int, File] = field(default_factory=dict)
    names: dict[str, list[int | None]] = field(default_factory=dict)

    def bind(self, name: str, number: int | None) -> None:
        self.names.setdefault(name, [None]).append(number)

    def sync_names(self) -> None:
        self.names = {name: meanings[-1:] for name, meanings in self.names.items()}

    def after_power_failure(self) -> Iterator[Names]:
        """Yield the contents of the directory that a power failure may leave, for each combination of names and contents of files."""
        for meaning in itertools.product(*(dict.fromkeys(meanings) for meanings in self.names.values())):
            kept = [(name, number) for name, number in zip(self.names, meaning, strict=True) if number is not None]
            held = {number: tuple(dict.fromkeys(self.files[number].contents())) for _, number in kept}
            for contents in itertools.product(*held.values()):
                content = dict(zip(held, contents, strict=True))
                yield {name: content[number] for name, number in kept}


class Event(Protocol):
    def on(self, disk: Disk) -> None: ...


@dataclass(frozen=True, slots=True)
class Named:
    """An event: a name was given to a file, or removed (None)."""

    name: str
    number: int | None

    def on(self, disk: Disk) -> None:
        if self.number is not None:
            disk.files.setdefault(self.number, File())
        disk.bind(self.name, self.number)


@dataclass(frozen=True, slots=True)
class Changed:
    """An event: the content of a file was changed."""

    number: int
    change: Change

    def on(self, disk: Disk) -> None:
        disk.files[self.number].since.append(self.change)


@dataclass(frozen=True, slots=True)
class Synced:
    """An event: a file was synced, so that its content is safe."""

    number: int

    def on(self, disk: Disk) -> None:
        disk.files[self.number].sync()


@dataclass(frozen=True, slots=True)
class NamesSynced:
    """An event: the directory was synced, so that its names are safe."""

    def on(self, disk: Disk) -> None:
        disk.sync_names()


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """An event: a caller got the answer that a ledger has `seq` entries, which must not be lost from now on."""

    seq: int

    def on(self, disk: Disk) -> None:
        pass


@dataclass(slots=True)
class Log:
    """All events in one directory, in order."""

    events: list[Event] = field(default_factory=list)
    numbers: dict[str, int] = field(default_factory=dict)
    made: int = 0

    def create(self, path: str) -> int:
        self.made += 1
        self.numbers[os.path.basename(path)] = self.made
        self.events.append(Named(os.path.basename(path), self.made))
        return self.made

    def number(self, path: str) -> int:
        return self.numbers[os.path.basename(path)]

    def link(self, old: str, new: str) -> None:
        self.numbers[os.path.basename(new)] = self.number(old)
        self.events.append(Named(os.path.basename(new), self.number(old)))

    def remove(self, path: str) -> None:
        del self.numbers[os.path.basename(path)]
        self.events.append(Named(os.path.basename(path), None))

    def acknowledge(self, seq: int) -> None:
        self.events.append(Acknowledged(seq))


class RecordingFile(apsw.VFSFile):
    """A file of the system whose changes are logged. new_journal: SQLite will sync the directory when it first syncs this file."""

    def __init__(self, log: Log, name: Any, flags: list[int]) -> None:
        path = name.filename() if hasattr(name, "filename") else name
        existed = os.path.exists(path)
        super().__init__("", name, flags)
        self._log = log
        self._number = log.number(path) if existed else log.create(path)
        self._new_journal = not existed and bool(flags[0] & apsw.SQLITE_OPEN_MAIN_JOURNAL)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        super().xWrite(data, offset)
        self._log.events.append(Changed(self._number, Write(offset, bytes(data))))

    def xTruncate(self, size: int) -> None:  # noqa: N802
        super().xTruncate(size)
        self._log.events.append(Changed(self._number, Truncate(size)))

    def xSync(self, flags: int) -> None:  # noqa: N802
        super().xSync(flags)
        self._log.events.append(Synced(self._number))
        if self._new_journal:
            self._log.events.append(NamesSynced())
            self._new_journal = False


class RecordingVFS(apsw.VFS):
    def __init__(self, name: str, log: Log) -> None:
        super().__init__(name, "")
        self._log = log

    def xOpen(self, name: Any, flags: list[int]) -> RecordingFile:  # noqa: N802
        return RecordingFile(self._log, name, flags)

    def xDelete(self, name: str, sync: bool) -> None:  # noqa: N802
        super().xDelete(name, sync)
        self._log.remove(name)
        if sync:
            self._log.events.append(NamesSynced())


class Translated:
    """An apsw connection that raises the errors of sqlite3."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    def execute(self, statement: str, values: tuple[object, ...] = ()) -> Any:
        try:
            return self._connection.execute(statement, values)
        except apsw.Error as error:
            raise sqlite3.OperationalError(str(error)) from error

    def close(self) -> None:
        self._connection.close()


class RecordingSystem:
    """`os` as dpcli.ledger.stores.sqlite uses it, with what touches names logged; everything else is the system's own."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._folders: set[int] = set()

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def open(self, path: str, flags: int, mode: int = 0o777) -> int:
        descriptor = os.open(path, flags, mode)
        if flags & os.O_CREAT:
            self._log.create(path)
        if os.path.isdir(path):
            self._folders.add(descriptor)
        return descriptor

    def fsync(self, descriptor: int) -> None:
        os.fsync(descriptor)
        assert descriptor in self._folders, "a file is synced by SQLite alone"
        self._log.events.append(NamesSynced())

    def close(self, descriptor: int) -> None:
        os.close(descriptor)
        self._folders.discard(descriptor)

    def link(self, old: str, new: str) -> None:
        os.link(old, new)
        self._log.link(old, new)

    def unlink(self, path: str) -> None:
        os.unlink(path)
        self._log.remove(path)

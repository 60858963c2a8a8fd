"""The checks of `dpcli doctor`: facts about this machine, each with a verdict and advice.

`examine` makes all of them: versions, SQLite, the file system, random numbers, the clock and git. A "fail" means that something that dpcli
needs is broken here, such as an SQLite that refuses the settings of ledgers. A risk, such as a network file system, is a "warn". What is
missing or unknown, but not needed, is "absent". A check must not break what it examines: it writes only temporary files.
"""

from __future__ import annotations

import importlib.metadata
import operator
import os
import platform
import re
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from dpcli import __version__
from dpcli.base.errors import InputError, LedgerError
from dpcli.ledger.stores.places import POSTGRES, open_store, path_of
from dpcli.ledger.stores.sqlite_file import NETWORK, file_system_of

Verdict = Literal["ok", "warn", "fail", "absent"]

LEAST_FREE = 100 * 2**20  # free bytes below which there is a warning, because a ledger may soon be unable to write; chosen by hand
# 2024-01-01 and 2100-01-01 in seconds since 1970. A correct clock lies between them.
EARLIEST, LATEST = 1_704_067_200, 4_102_444_800
DURABLE_WAL = (3, 51, 3)  # first version of SQLite whose write-ahead log with synchronous = FULL loses nothing
SHARED_FILE_SYSTEMS = NETWORK | {"9p", "virtiofs"}  # 9p and virtiofs usually belong to one machine, but machines may share them
MEMORY_FILE_SYSTEMS = frozenset({"tmpfs", "ramfs"})
# Meaning of the values of sqlite3.threadsafety.
THREADS = {0: "single-threaded", 1: "multi-threaded", 2: "multi-threaded", 3: "serialized"}

DEVELOPER_EXTRAS = frozenset({"bench", "docs", "test", "test-core"})  # extras that no command needs
COMPARISONS = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
}
# A requirement in the metadata, such as `torch>=2.4; extra == "train"`: name, conditions and extra. A condition is like `>=2.4`.
_REQUIREMENT = re.compile(
    r"(?P<name>[\w.-]+)\s*(?:\[[^]]*\])?\s*\(?(?P<conditions>[^;()]*)\)?\s*(?:;\s*extra\s*==\s*['\"](?P<extra>[\w.-]+)['\"]\s*)?"
)
_CONDITION = re.compile(r"\s*(?P<comparison>[<>=!]=|[<>])\s*(?P<limit>\d[\w.+-]*)\s*")
_NUMBERS = re.compile(r"\d+(?:\.\d+)*")


@dataclass(frozen=True, slots=True)
class Fact:
    """A property of this machine, with its value, a verdict and advice to the user; "" if there is none."""

    name: str
    value: str
    verdict: Verdict
    advice: str = ""

    @classmethod
    def of_test(cls, name: str, value: str, is_right: bool, advice: str, otherwise: Verdict = "fail") -> Fact:
        """Return a fact with the verdict "ok" if the value is right; else with the verdict `otherwise` and the advice."""
        return cls(name, value, "ok") if is_right else cls(name, value, otherwise, advice)


@dataclass(frozen=True, slots=True)
class Requirement:
    """A package and its supported versions.

    Attributes:
        conditions: Conditions on the version, such as ">=1.6,<1.7".
        extra: Extra of dpcli that needs the package; "" if dpcli itself needs it.
    """

    name: str
    conditions: str
    extra: str = ""

    def __str__(self) -> str:
        return self.name + self.conditions

    def met(self, version: str) -> bool:
        """Return whether a version meets every condition.

        An unreadable condition counts as not met. A pre-release counts as its release, and a version without leading numbers, such
        as "dev", as version 0.
        """
        for text in self.conditions.split(",") if self.conditions else ():
            condition = _CONDITION.fullmatch(text)
            if condition is None:
                return False
            compare = COMPARISONS[condition["comparison"]]
            if not compare(_numbers(version), _numbers(condition["limit"])):
                return False
        return True


def requirements_of_dpcli() -> Iterator[Requirement]:
    """Yield the requirements of dpcli in the order of its metadata, without those of DEVELOPER_EXTRAS.

    A package of several extras occurs once for each extra. A requirement with a condition on the platform or on Python is left out.

    Raises:
        importlib.metadata.PackageNotFoundError: dpcli is not installed.
    """
    for text in importlib.metadata.requires("dpcli") or ():
        match = _REQUIREMENT.fullmatch(text)
        # An extra that contains other extras requires dpcli itself.
        if match and match["name"] != "dpcli" and match["extra"] not in DEVELOPER_EXTRAS:
            yield Requirement(match["name"], match["conditions"].strip(), match["extra"] or "")


def python_needed() -> Requirement:
    """Return the supported versions of Python. Raises PackageNotFoundError if dpcli is not installed."""
    return Requirement("python", importlib.metadata.metadata("dpcli")["Requires-Python"])


def _numbers(version: str) -> tuple[int, ...]:
    """Return the leading numbers of a version without trailing zeros, such as (1, 26) for "1.26.0rc1"."""
    leading = _NUMBERS.match(version)
    numbers = [int(part) for part in leading[0].split(".")] if leading else []
    while numbers and not numbers[-1]:
        numbers.pop()
    return tuple(numbers)


def examine(ledger: str | None = None) -> tuple[Fact, ...]:
    """Return the facts of all checks.

    `ledger` is an existing or planned ledger whose folder is examined; None for the current directory. Raises InputError if the folder does
    not exist.
    """
    return (*_versions(), *database(), *storage(ledger), *_randomness(), *_clock(), _git())


def _versions() -> Iterator[Fact]:
    """Yield facts about dpcli, Python, and the packages that dpcli requires. Without metadata of dpcli there is only the first."""
    try:
        installed = importlib.metadata.version("dpcli")
        python = python_needed()
        requirements = tuple(requirements_of_dpcli())
    except importlib.metadata.PackageNotFoundError:
        advice = "pip install it: without its metadata, the versions of its requirements were not compared"
        yield Fact("dpcli", f"{__version__}, run without an installation", "warn", advice)
        return
    if installed == __version__:
        yield Fact("dpcli", __version__, "ok")
    else:
        advice = f"pip install it again: versions are compared with the requirements of {installed}"
        yield Fact("dpcli", f"{__version__}, installed as {installed}", "warn", advice)
    value = f"{platform.python_version()} ({platform.python_implementation()}, {platform.machine()})"
    yield Fact.of_test("python", value, python.met(platform.python_version()), f"install Python {python.conditions}")
    yield from map(_package, requirements)


def _package(requirement: Requirement) -> Fact:
    """Return a fact about a required or optional package.

    Only its metadata are read, because the import of some packages takes seconds. The package itself may still be broken.
    """
    extra = requirement.extra
    name = f"{requirement.name} (extra {extra})" if extra else requirement.name
    try:
        version = importlib.metadata.version(requirement.name)
    except importlib.metadata.PackageNotFoundError:
        if extra:
            return Fact(name, "not installed", "absent", f"pip install 'dpcli[{extra}]' if you need this extra")
        return Fact(name, "not installed", "fail", f"pip install '{requirement}'")
    reason = ": with other versions, commands of the extra may fail" if extra else ""
    advice = f"pip install '{requirement}'{reason}"
    return Fact.of_test(name, version, requirement.met(version), advice, otherwise="warn" if extra else "fail")


def _randomness() -> Iterator[Fact]:
    """Yield a fact about the random numbers of the operating system, from which all noise is drawn.

    Two reads of 32 bytes must differ. This finds a generator that is missing or stuck, and no other defect.
    """
    try:
        first, second = os.urandom(32), os.urandom(32)
    except (NotImplementedError, OSError) as error:
        yield Fact("random numbers", f"none ({error})", "fail", "repair the operating system's generator: no noise can be drawn")
        return
    source = "getrandom(2)" if hasattr(os, "getrandom") else "the operating system"
    stuck = first == second
    value = f"{source}, by os.urandom" + (": the same bytes twice" if stuck else "")
    yield Fact.of_test("random numbers", value, not stuck, "draw no noise on this machine")


def _clock() -> Iterator[Fact]:
    """Yield facts about the clock, which determines when waivers of the gate and reservations of a ledger expire."""
    import datetime

    now = datetime.datetime.now(datetime.UTC)
    is_plausible = EARLIEST <= now.timestamp() < LATEST
    yield Fact.of_test("clock", now.isoformat(timespec="seconds"), is_plausible, "set the clock: it determines when waivers expire")
    yield Fact("time zone", f"{now.astimezone().tzname()} (dates are compared in UTC)", "ok")


def _git() -> Fact:
    """Return a fact about git. Its verdict is "absent" without git, because most commands do not need it."""
    path = shutil.which("git")
    if path is None:
        return Fact("git", "not found", "absent", "only gate --base-ref needs it")
    return Fact("git", path, "ok")


def healthy(facts: tuple[Fact, ...]) -> bool:
    """Return whether no fact has the verdict "fail"."""
    return not any(fact.verdict == "fail" for fact in facts)


def database() -> Iterator[Fact]:
    """Yield facts about SQLite: its version, its use from several threads, and whether it accepts the settings of ledgers.

    If Python has no SQLite, this is the only fact.
    """
    try:
        import sqlite3
    except ImportError:
        yield Fact("SQLite", "Python was built without it", "fail", "install a Python with sqlite3: ledgers need it")
        return
    yield Fact("SQLite", sqlite3.sqlite_version, "ok")
    threads = sqlite3.threadsafety
    yield Fact.of_test("SQLite threads", THREADS[threads], threads > 0, "use a ledger from one thread only", otherwise="warn")
    yield _durability(sqlite3.sqlite_version_info)


def _durability(version: tuple[int, ...]) -> Fact:
    """Return a fact about whether this version of SQLite accepts the settings of ledgers for a temporary file."""
    import sqlite3

    name = "ledger durability"
    # Ledgers do not use the write-ahead log (WAL); the note is for those who would.
    wal_note = "" if version >= DURABLE_WAL else f"; WAL would need SQLite {'.'.join(map(str, DURABLE_WAL))}"
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
        return Fact(name, f"could not be tested: {error}", "fail", "make the folder for temporary files writable")
    synchronous_extra = 3  # SQLite's number for PRAGMA synchronous = EXTRA
    if (mode, level) != ("delete", synchronous_extra):
        return Fact(
            name,
            f"journal_mode {mode}, synchronous {level}",
            "fail",
            "install another SQLite: this version refuses the settings of ledgers",
        )
    return Fact(name, f"journal_mode DELETE, synchronous EXTRA{wal_note}", "ok")


def storage(ledger: str | None) -> Iterator[Fact]:
    """Yield facts about the place of a ledger, or about the current directory if `ledger` is None.

    For a PostgreSQL address this is one fact about the server. Raises InputError if the ledger's folder does not exist.
    """
    if ledger is not None and ledger.startswith(POSTGRES):
        yield _server(ledger)
        return
    folder = _folder(ledger)
    where = "current directory" if ledger is None else "ledger's folder"
    yield _file_system(folder, where)
    free = shutil.disk_usage(folder).free
    size = f"{free / 2**30:.1f} GiB" if free >= 2**30 else f"{free / 2**20:.0f} MiB"
    advice = "free some space: a ledger that cannot write refuses every charge"
    yield Fact.of_test(f"free space, {where}", size, free >= LEAST_FREE, advice, otherwise="warn")
    if not os.access(folder, os.W_OK | os.X_OK):
        yield Fact(f"{where} writable", "no", "warn", "a ledger writes its journal into the same folder, which must be writable")


def _server(url: str) -> Fact:
    """Return a fact about whether a ledger in a PostgreSQL database can be opened from this machine."""
    try:
        store = open_store(url)
    except LedgerError as error:
        return Fact(
            "ledger's database", str(error), "warn", "see dpcli budget --help for the requirements of a ledger in PostgreSQL"
        )
    store.close()
    return Fact("ledger's database", f"{store.place} has a ledger", "ok")


def _folder(ledger: str | None) -> Path:
    """Return the folder of a ledger, or the current directory without a ledger. Raises InputError if the folder does not exist."""
    folder = Path.cwd() if ledger is None else Path(path_of(ledger)).resolve().parent
    if not folder.is_dir():
        raise InputError(f"--ledger: expected a file in a folder that exists; {folder} does not exist")
    return folder


def _file_system(folder: Path, where: str) -> Fact:
    """Return a fact about whether ledgers are safe on the file system of a folder, which the fact calls `where`."""
    name, kind = f"file system, {where}", file_system_of(str(folder))
    if kind is None:
        return Fact(name, "unknown on this system", "absent", "keep ledgers on a local disk")
    if kind in SHARED_FILE_SYSTEMS:
        return Fact(name, kind, "warn", "SQLite's locks are unreliable on network file systems: use a local disk")
    if kind in MEMORY_FILE_SYSTEMS:
        return Fact(name, kind, "warn", "its files are lost at a restart: keep ledgers on a disk")
    return Fact(name, kind, "ok")

"""Whether this machine can do what dpcli asks of it: facts, each with a verdict and what to do about it. Imports nothing heavy."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import sys
from collections.abc import Iterator

from dpcli import __version__
from dpcli.doctor.fact import Fact

PYTHON = (3, 11)
NEEDED = {"click": (8, 1), "numpy": (1, 26), "scipy": (1, 11, 1), "rich": (13,), "tomli": (2,)}
EXTRAS = (
    ("torch", "train"),
    ("safetensors", "train"),
    ("scikit-learn", "train"),
    ("transformers", "lm"),
    ("peft", "lm"),
    ("opacus", "opacus"),
    ("opendp", "release"),
    ("duckdb", "release"),
    ("sqlglot", "release"),
    ("pyspark", "spark"),
    ("matplotlib", "plot"),
    ("psycopg", "postgres"),
)  # a package, and the extra of dpcli that has it
EARLIEST, LATEST = 1_704_067_200, 4_102_444_800  # 2024-01-01, 2100-01-01: a clock outside of it is wrong


def examine(ledger: str | None = None) -> tuple[Fact, ...]:
    """Every fact. ledger: a ledger file, there or to be made, whose place is looked at instead of the current directory."""
    from dpcli.doctor.storage import database, storage

    return (*_versions(), *_extras(), *database(), *storage(ledger), *_randomness(), *_clock(), _git())


def _versions() -> Iterator[Fact]:
    yield Fact("dpcli", __version__, "ok")
    old = sys.version_info[:2] < PYTHON
    yield Fact(
        "python",
        f"{platform.python_version()} ({platform.python_implementation()}, {platform.machine()})",
        "fail" if old else "ok",
        f"install Python {PYTHON[0]}.{PYTHON[1]} or later" if old else "",
    )
    yield from (_needed(name, least) for name, least in NEEDED.items())


def _needed(name: str, least: tuple[int, ...]) -> Fact:
    """Without any of these some command does not run."""
    wanted = ".".join(map(str, least))
    found = _version(name)
    if found is None:
        return Fact(name, "not installed", "fail", f"pip install '{name}>={wanted}'")
    if _numbers(found) < least:
        return Fact(name, found, "fail", f"pip install '{name}>={wanted}'")
    return Fact(name, found, "ok")


def _extras() -> Iterator[Fact]:
    for name, extra in EXTRAS:
        found = _version(name)
        if found is None:
            yield Fact(f"{name} (extra {extra})", "not installed", "absent", f"pip install 'dpcli[{extra}]' where it is wanted")
        else:
            yield Fact(f"{name} (extra {extra})", found, "ok")


def _version(name: str) -> str | None:
    """The installed version, by its metadata: importing some of these takes seconds."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _numbers(version: str) -> tuple[int, ...]:
    """(1, 26, 4) of "1.26.4rc1": the leading numbers."""
    numbers = []
    for part in version.split("."):
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        if not digits:
            break
        numbers.append(int(digits))
    return tuple(numbers)


def _randomness() -> Iterator[Fact]:
    """Where Python's `secrets` and `os.urandom` get their bytes: the operating system, which mixes in what hardware it has."""
    try:
        first, second = os.urandom(32), os.urandom(32)
    except (NotImplementedError, OSError) as error:
        yield Fact("random numbers", f"none ({error})", "fail", "repair the operating system's generator: no noise can be drawn")
        return
    source = "getrandom(2)" if hasattr(os, "getrandom") else "the operating system"
    stuck = first == second
    yield Fact(
        "random numbers",
        f"{source}, by os.urandom" + (": the same bytes twice" if stuck else ""),
        "fail" if stuck else "ok",
        "draw no noise on this machine" if stuck else "",
    )


def _clock() -> Iterator[Fact]:
    """Waivers and reservations expire by the clock."""
    import datetime

    now = datetime.datetime.now(datetime.UTC)
    wrong = not EARLIEST <= now.timestamp() < LATEST
    yield Fact(
        "clock",
        now.isoformat(timespec="seconds"),
        "fail" if wrong else "ok",
        "set the clock: waivers expire by it" if wrong else "",
    )
    yield Fact("time zone", f"{now.astimezone().tzname()} (dates are compared in UTC)", "ok")


def _git() -> Fact:
    path = shutil.which("git")
    if path is None:
        return Fact("git", "not found", "absent", "needed only for gate --base-ref")
    return Fact("git", path, "ok")


def healthy(facts: tuple[Fact, ...]) -> bool:
    """Whether nothing that dpcli needs is broken."""
    return not any(fact.verdict == "fail" for fact in facts)

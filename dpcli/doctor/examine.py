"""Whether this machine can do what dpcli asks of it: facts, each with a verdict and what to do about it. Imports nothing heavy."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
from collections.abc import Iterator

from dpcli import __version__
from dpcli.doctor.fact import Fact
from dpcli.doctor.requirements import Requirement, declared, python_needed

EARLIEST, LATEST = 1_704_067_200, 4_102_444_800  # 2024-01-01, 2100-01-01: a clock outside of it is wrong


def examine(ledger: str | None = None) -> tuple[Fact, ...]:
    """Every fact. ledger: a ledger file, there or to be made, whose place is looked at instead of the current directory."""
    from dpcli.doctor.storage import database, storage

    return (*_versions(), *database(), *storage(ledger), *_randomness(), *_clock(), _git())


def _versions() -> Iterator[Fact]:
    """dpcli, Python, and what the metadata of the installed dpcli require."""
    try:
        installed, python, requirements = importlib.metadata.version("dpcli"), python_needed(), tuple(declared())
    except importlib.metadata.PackageNotFoundError:
        advice = "pip install it: the versions that it needs stand in its metadata, and were not compared"
        yield Fact("dpcli", f"{__version__}, run without an installation", "warn", advice)
        return
    if installed == __version__:
        yield Fact("dpcli", __version__, "ok")
    else:
        advice = f"pip install it again: what it is compared with are the versions that {installed} needs"
        yield Fact("dpcli", f"{__version__}, installed as {installed}", "warn", advice)
    met = python.met(platform.python_version())
    yield Fact(
        "python",
        f"{platform.python_version()} ({platform.python_implementation()}, {platform.machine()})",
        "ok" if met else "fail",
        "" if met else f"install Python {python.conditions}",
    )
    for requirement in requirements:
        yield _extra(requirement) if requirement.extra else _needed(requirement)


def _needed(requirement: Requirement) -> Fact:
    """Without any of these some command does not run."""
    version = _version(requirement.name)
    if version is not None and requirement.met(version):
        return Fact(requirement.name, version, "ok")
    return Fact(requirement.name, version or "not installed", "fail", f"pip install '{requirement}'")


def _extra(requirement: Requirement) -> Fact:
    name, version = f"{requirement.name} (extra {requirement.extra})", _version(requirement.name)
    if version is None:
        return Fact(name, "not installed", "absent", f"pip install 'dpcli[{requirement.extra}]' where it is wanted")
    if requirement.met(version):
        return Fact(name, version, "ok")
    return Fact(name, version, "warn", f"pip install '{requirement}': with other versions its commands may fail")


def _version(name: str) -> str | None:
    """The installed version, by its metadata: importing some of these takes seconds."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


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

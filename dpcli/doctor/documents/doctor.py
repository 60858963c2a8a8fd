"""The documents of `dpcli doctor` and `dpcli version`: facts about the machine and versions, as the output formats take them.

A *fact* is a property of the machine with a verdict and advice (checks.py). Only a fact with the verdict "fail" makes the exit code 1. A
*document* has the result in several forms, of which each output format shows some: tables and notes for readers, `data` and `records` for
programs, `checks` for reports of CI systems, and `log` lines.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Literal

from dpcli.doctor.checks import Fact, healthy
from dpcli.document.document import Check, Document, Table
from dpcli.document.schemas import SCHEMAS


def document(facts: tuple[Fact, ...]) -> Document:
    """Return the document of `dpcli doctor`. Its exit code is 1 if something that dpcli needs is broken."""
    is_healthy = healthy(facts)
    warnings = [fact for fact in facts if fact.verdict == "warn"]
    verdict: Literal["pass", "warn", "fail"] = "warn" if warnings else "pass"
    if not is_healthy:
        verdict = "fail"
    advised = [fact for fact in facts if fact.advice and fact.verdict in ("warn", "fail")]
    rows = tuple((fact.name, fact.verdict, fact.value) for fact in facts)
    return Document(
        headline=_headline(facts, len(warnings)),
        data={"schema": "dpcli/doctor/v1", "facts": [asdict(fact) for fact in facts], "exit_code": int(not is_healthy)},
        verdict=verdict,
        tables=(
            Table(
                "requirements of dpcli on this machine",
                ("thing", "verdict", "state"),
                rows,
                flagged=frozenset(place for place, fact in enumerate(facts) if fact.verdict in ("warn", "fail")),
            ),
        ),
        notes=tuple(f"{fact.name}: {fact.advice}" for fact in advised),
        checks=tuple(Check(fact.name, fact.verdict != "fail", fact.advice) for fact in facts),
        exit_code=int(not is_healthy),
        log=tuple(map(_line, facts)),
        records=[asdict(fact) for fact in facts],
    )


def _headline(facts: tuple[Fact, ...], warning_count: int) -> str:
    """Return a line that names what is broken or, if nothing is, gives the number of warnings."""
    broken = [fact.name for fact in facts if fact.verdict == "fail"]
    if broken:
        return f"broken: {', '.join(broken)}"
    return f"nothing is broken; {warning_count} warning{'' if warning_count == 1 else 's'}"


def _line(fact: Fact) -> str:
    return f"{fact.verdict:<6}  {fact.name}: {fact.value}" + (f" ({fact.advice})" if fact.advice else "")


def version_document(
    version: str, python: str, platform: str, packages: Mapping[str, str], extras: Mapping[str, str], formats: Mapping[str, int]
) -> Document:
    """Return the document of `dpcli version`.

    Args:
        packages, extras: Versions of required and of optional packages, by name.
        formats: Newest format of each kind of file or database that dpcli reads and writes.
    """
    lines = (("python", python), *packages.items())
    return Document(
        headline=f"dpcli {version}",
        data={
            "schema": "dpcli/version/v1",
            "version": version,
            "python": python,
            "platform": platform,
            "packages": packages,
            "extras": extras,
            "formats": formats,
            "schemas": SCHEMAS,
            "exit_code": 0,
        },
        tables=(
            Table("installed", ("package", "version"), (*lines, *extras.items())),
            Table("formats", ("of", "version"), tuple((name, str(number)) for name, number in formats.items())),
        ),
        details=tuple(f"{name} {number}" for name, number in lines),
    )

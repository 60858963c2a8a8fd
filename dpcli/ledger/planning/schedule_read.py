"""Reading a schedule file: as strict, and as kind, as a pipeline file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from dpcli.file.keys.annotations import members_of
from dpcli.file.keys.kinds import KeyPlace, Listed
from dpcli.file.keys.tables import KeyTable, Member, Members, read_members
from dpcli.file.pipeline.document import TOP
from dpcli.file.pipeline.read import refuse, toml_document
from dpcli.file.toml.findings import Findings, TooMany
from dpcli.file.toml.limits import read_bytes
from dpcli.ledger.planning.schedule import MOST, Schedule, ScheduledRun

WORDS = {"first": "from", "last": "to"}  # which Python keeps for itself, or means otherwise
FIELDS = {word: name for name, word in WORDS.items()}


class StatedRun:
    """One run, or one that is repeated. Without every it is made once, on the day `from`."""

    def __init__(self, **stated: Any) -> None:
        self.stated = stated

    @property
    def run(self) -> ScheduledRun:
        """With the names of its fields."""
        return ScheduledRun(**{FIELDS.get(key, key): value for key, value in self.stated.items()})


def _run_members(_: type) -> Members:
    return {WORDS.get(name, name): replace(member, name=WORDS.get(name, name)) for name, member in members_of(ScheduledRun).items()}


KEYS: Members = {
    "format": TOP["format"],
    "run": Member("run", Listed(KeyTable(StatedRun, _run_members)), doc="what is planned, one [[run]] table each"),
}


def read_schedule(path: str) -> Schedule:
    """The schedule in a file, or on standard input ("-"); the files that it names are found from its folder.

    Raises:
        InputError: there is no such file. InvalidFile: with every problem found, at its place.
    """
    return read_schedule_bytes(read_bytes(path), path)


def read_schedule_bytes(data: bytes, path: str) -> Schedule:
    """The schedule in the bytes of a file that messages call `path`. Raises InvalidFile as `read_schedule` does."""
    text, tables = toml_document(data, path)
    findings = Findings()
    runs: tuple[ScheduledRun, ...] = ()
    with suppress(TooMany):
        runs = _runs(tables, findings)
    refuse(findings, tables, text, path)
    folder = "" if path == "-" else os.path.dirname(path)
    return Schedule(tuple(replace(run, file=os.path.join(folder, run.file)) for run in runs), path)


def _runs(tables: Mapping[str, Any], findings: Findings) -> tuple[ScheduledRun, ...]:
    values = read_members(KEYS, tables, KeyPlace((), findings))
    runs = tuple(stated.run for stated in values.get("run", ()))
    if findings.items:
        return ()
    for i, run in enumerate(runs):
        for key, expected, found in run.problems():
            findings.add("DP005", ("run", i, *key), expected, found)
    if "run" not in tables or tables["run"] == []:
        findings.add("DP005", ("run",), "at least one [[run]] table", "none")
    elif not findings.items and Schedule(runs).too_long:
        findings.add("DP004", ("run",), f"at most {MOST:,} runs in all", "more")
    return runs

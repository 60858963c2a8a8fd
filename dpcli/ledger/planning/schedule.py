"""The schedule file, which states planned runs and the days on which they are made. For example:

    format = 1

    [[run]]
    file = "weekly.toml"           # from the folder of this file
    every = "week"                 # day, week or month, or several of them: "2 weeks"
    from = 2026-02-02
    to = 2026-12-31                # or count = 48
    window = "last 28 days"        # up to the day before the run

    [[run]]
    file = "survey.toml"
    from = 2026-03-01              # without every, the run is made once
    window = ["2026-01-01..2026-02-28"]

Runs are made in the order of their days, and on one day in the order of the file. `dpcli budget plan` reads a schedule and shows which of
its runs would fit in a ledger. It writes nothing. A *window* is the part of the dataset that a run reads. It consists of *blocks*, such as
days, each with a cap of its own in the ledger. A *trailing* window moves with the day of the run.
"""

from __future__ import annotations

import calendar
import datetime
import heapq
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import MAXYEAR, date, timedelta
from itertools import islice, repeat
from typing import Annotated, Any, NamedTuple

from dpcli.base.errors import InputError
from dpcli.base.fields import COUNT, Constraint, Key
from dpcli.file.keys.annotations import members_of
from dpcli.file.keys.kinds import KeyPlace, Listed
from dpcli.file.keys.tables import KeyTable, Member, Members, read_members
from dpcli.file.pipeline.canonical import TOP
from dpcli.file.pipeline.read import refuse, toml_document
from dpcli.file.toml.findings import Findings, Problem, TooMany
from dpcli.file.toml.limits import read_bytes
from dpcli.ledger.blocks.block_kinds import BlockKind

# The keys of a [[run]] table are the fields of `ScheduledRun`. dpcli/file/keys reads them by their annotations: a `Member` is a key with
# its type, `read_members` reads the keys of a table, and every mistake becomes a finding. `TooMany` ends the reading after many findings,
# and `refuse` raises all of them as one error. The docstring above is printed in dpcli-schedule(5).

# The largest number of runs in a schedule, which is more than 27 years of daily runs. It limits the time of a rehearsal.
MOST_SCHEDULED = 10_000
# The limits of the numbers are arbitrary: up to 9,999 days, weeks or months between two runs, and 99,999 in a window. The groups are the
# number, the unit and its plural s.
_RHYTHM = re.compile(r"(?:([1-9][0-9]{0,3}) )?(day|week|month)(s?)")
DAYS = {"day": 1, "week": 7}  # number of days in a unit; a month has no fixed number


@dataclass(frozen=True, slots=True)
class Rhythm:
    """The time between two runs, a number of days, weeks or months.

    Months are counted from the first run. A run is made on the day of the first run's number, or on the last day of a month without such a
    day: after January 31, monthly runs are made on February 28 and March 31.

    Attributes:
        count: The number of units, at least 1.
        unit: "day", "week" or "month".
    """

    count: int
    unit: str

    @property
    def words(self) -> str:
        """The rhythm as a file states it: "week", or "2 weeks"."""
        return self.unit if self.count == 1 else f"{self.count} {self.unit}s"

    def days(self, first: date) -> Iterator[date]:
        """Yield the first day and all later days, up to the end of the year 9999, the last of Python's calendar."""
        number = 0
        while (day := self._after(first, number * self.count)) is not None:
            yield day
            number += 1

    def _after(self, first: date, units: int) -> date | None:
        """Return the day a number of units after the first day; None if it is after the year 9999."""
        if self.unit in DAYS:
            ordinal = first.toordinal() + units * DAYS[self.unit]
            return date.fromordinal(ordinal) if ordinal <= date.max.toordinal() else None
        years, month = divmod(first.month - 1 + units, 12)
        year = first.year + years
        if year > MAXYEAR:
            return None
        _, days_of_month = calendar.monthrange(year, month + 1)
        return date(year, month + 1, min(first.day, days_of_month))


def rhythm_of(text: str) -> Rhythm:
    """Return the rhythm that a text of a file states. The text must satisfy the constraint `EVERY`, as `ScheduledRun.every` does."""
    match = _RHYTHM.fullmatch(text)
    assert match is not None
    count, unit, _ = match.groups()
    return Rhythm(int(count or 1), unit)


def _is_rhythm(text: str) -> bool:
    """Return whether a text is a rhythm as `Rhythm.words` writes it, or "1 week" and the like."""
    match = _RHYTHM.fullmatch(text)
    if match is None:
        return False
    count, _, plural = match.groups()
    return bool(plural) == (count not in (None, "1"))


EVERY = Constraint('day, week, month, or a number of them as "2 weeks"', _is_rhythm, (("pattern", f"^{_RHYTHM.pattern}$"),))


@dataclass(frozen=True, slots=True)
class ScheduledRun:
    """A planned run, with the fields of a [[run]] table."""

    file: Annotated[str, Key("the pipeline file of the run, from the folder of the schedule")]
    first: Annotated[datetime.date, Key("the day of the first run")]
    every: Annotated[
        str | None, Key("the time between runs, as day, week, month or 2 weeks; if absent, there is one run", EVERY)
    ] = None
    last: Annotated[datetime.date | None, Key("the last day on which the run may be made; only with every")] = None
    count: Annotated[int | None, Key("the number of runs, in place of to; only with every", COUNT)] = None
    window: Annotated[
        str | tuple[str, ...] | None,
        Key(
            'the blocks that the run reads: "last 28 days" or "last 4 weeks" (up to the day before the run), or blocks as '
            "2026-01-01..2026-01-28; if absent, the blocks that the pipeline file states; must be absent if the ledger has no blocks"
        ),
    ] = None

    def problems(self) -> Iterator[Problem]:
        """Yield a problem for keys that contradict each other."""
        if self.every is None:
            for key, value in (("to", self.last), ("count", self.count)):
                if value is not None:
                    yield (key,), f"every with {key}", "nothing"
        elif (self.last is None) == (self.count is None):
            yield (("to",), "either to or count with every", "nothing" if self.last is None else "both")
        if self.last is not None and self.last < self.first:
            yield ("to",), f"a day from {self.first} on", str(self.last)

    def days(self) -> Iterator[datetime.date]:
        """Yield the days on which the run is made, in order."""
        if self.every is None:
            yield self.first
            return
        days = rhythm_of(self.every).days(self.first)
        for day in days if self.count is None else islice(days, self.count):
            if self.last is not None and day > self.last:
                return
            yield day


class RunDay(NamedTuple):
    """The day of a run, and the position of its table in the schedule. Runs are made in the order of these pairs."""

    day: datetime.date
    position: int


@dataclass(frozen=True, slots=True)
class Schedule:
    """The planned runs of a schedule file, whose path is for messages."""

    runs: tuple[ScheduledRun, ...]
    path: str = ""

    def days(self, endless: bool = False) -> Iterator[RunDay]:
        """Return the day of each run, in the order in which the runs are made. If `endless`, repeated runs continue without an end."""
        runs = [replace(run, last=None, count=None) for run in self.runs] if endless else self.runs
        return heapq.merge(*(map(RunDay, run.days(), repeat(position)) for position, run in enumerate(runs)))

    def with_run(self, position: int, run: ScheduledRun) -> Schedule:
        """Return the schedule with another run at this position."""
        return replace(self, runs=(*self.runs[:position], run, *self.runs[position + 1 :]))


_TRAILING = re.compile(r"last ([1-9][0-9]{0,4}) (day|week)s?")  # the groups are the number and the unit


@dataclass(frozen=True, slots=True)
class Trailing:
    """A window of days or weeks that ends on the day before the run.

    If both the window and the blocks are weeks, the window ends before the Monday of the run's week. If the window contains a day of a
    block, all of the block is read and charged.
    """

    count: int
    unit: str

    @property
    def words(self) -> str:
        """The window as a file states it: "last 28 days"."""
        return f"last {self.count} {self.unit}{'' if self.count == 1 else 's'}"

    def blocks(self, kind: BlockKind, day: date) -> Sequence[str]:
        """Return the blocks that a run on a day reads.

        Raises InputError if the blocks are not days or weeks, or the window begins before the calendar.
        """
        today = kind.of_day(day)
        if today is None:
            raise InputError(f'expected the names of blocks, found "{self.words}": the blocks are not days or weeks')
        block_start = kind.first_day(today)
        end = day if self.unit == "day" or block_start is None else block_start
        try:
            first, last = kind.of_day(end - timedelta(self.count * DAYS[self.unit])), kind.of_day(end - timedelta(1))
        except OverflowError:
            raise InputError(f'expected days of the calendar, found "{self.words}" of {day}') from None
        assert first is not None and last is not None  # the blocks are days or weeks, so every day has a block
        return kind.between(first, last)


def trailing_of(text: str, kind: BlockKind) -> Trailing | None:
    """Return the trailing window that a text such as "last 7 days" states; None if it names blocks."""
    match = None if kind.holds(text) else _TRAILING.fullmatch(text)  # a listed block may have such a name
    if match is None:
        return None
    count, unit = match.groups()
    return Trailing(int(count), unit)


# The key of a field in a file, if it is not the name of the attribute: `from` cannot be an attribute, because it is a keyword of Python.
KEY_OF_FIELD = {"first": "from", "last": "to"}
FIELD_OF_KEY = {key: name for name, key in KEY_OF_FIELD.items()}


class StatedRun:
    """A run that is made once, on the day `from`, or repeatedly if `every` is stated."""

    # The reader of files passes the keys of the table by name.
    def __init__(self, **stated: Any) -> None:
        self.stated = stated

    @property
    def run(self) -> ScheduledRun:
        """The run whose keys are stated."""
        return ScheduledRun(**{FIELD_OF_KEY.get(key, key): value for key, value in self.stated.items()})


def _run_members(_: type) -> Members:
    """Return the keys of a [[run]] table, under the names that a file uses."""
    members = {}
    for name, member in members_of(ScheduledRun).items():
        key = KEY_OF_FIELD.get(name, name)
        members[key] = replace(member, name=key)
    return members


KEYS: Members = {
    "format": TOP["format"],
    "run": Member("run", Listed(KeyTable(StatedRun, _run_members)), doc="the planned runs, one [[run]] table for each"),
}


def read_schedule(path: str) -> Schedule:
    """Return the schedule in a file, or on standard input ("-"). Its paths are relative to the folder of the file.

    Raises:
        InputError: The file does not exist.
        InvalidFile: The file is not a valid schedule. The error contains every problem with its place.
    """
    return read_schedule_bytes(read_bytes(path), path)


def read_schedule_bytes(data: bytes, path: str) -> Schedule:
    """Return the schedule in the content of a file. Messages name the file `path`. Raises InvalidFile as `read_schedule` does."""
    text, tables = toml_document(data, path)
    findings = Findings()
    runs: tuple[ScheduledRun, ...] = ()
    with suppress(TooMany):
        runs = _runs(tables, findings)
    refuse(findings, tables, text, path)
    folder = "" if path == "-" else os.path.dirname(path)
    return Schedule(tuple(replace(run, file=os.path.join(folder, run.file)) for run in runs), path)


def _runs(tables: Mapping[str, Any], findings: Findings) -> tuple[ScheduledRun, ...]:
    """Return the runs of a schedule, and add its mistakes to the findings. Without valid tables there are no runs."""
    values = read_members(KEYS, tables, KeyPlace((), findings))
    runs = tuple(stated.run for stated in values.get("run", ()))
    if findings.items:
        return ()
    for index, run in enumerate(runs):
        for key, expected, value in run.problems():
            findings.add("DP005", ("run", index, *key), expected, value)
    if "run" not in tables or tables["run"] == []:
        findings.add("DP005", ("run",), "at least one [[run]] table", "none")
    elif not findings.items and any(True for _ in islice(Schedule(runs).days(), MOST_SCHEDULED, None)):  # one run more
        findings.add("DP004", ("run",), f"at most {MOST_SCHEDULED:,} runs in all", "more")
    return runs

"""The schedule file: runs that are planned, and the days on which they are made.

    format = 1

    [[run]]
    file = "weekly.toml"           # from the folder of this file
    every = "week"                 # day, week, month, or a number of them: "2 weeks"
    from = 2026-02-02
    to = 2026-12-31                # or count = 48
    window = "last 28 days"        # up to the day before the run

    [[run]]
    file = "survey.toml"
    from = 2026-03-01              # once
    window = ["2026-01-01..2026-02-28"]

Runs are made in the order of their days; on one day, in the order of the file. A schedule says nothing about data: it is walked by
`dpcli budget plan`, which asks a ledger what would fit, and writes nothing.
"""

from __future__ import annotations

import datetime
import heapq
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Annotated

from dpcli.base.fields import COUNT, Key
from dpcli.file.toml.findings import Problem
from dpcli.ledger.planning.rhythm import EVERY, rhythm_of

MOST = 10_000  # runs in a schedule


@dataclass(frozen=True, slots=True)
class ScheduledRun:
    """One run, or one that is repeated. Without every it is made once, on the day `from`."""

    file: Annotated[str, Key("the pipeline file of the run, from the folder of the schedule")]
    first: Annotated[datetime.date, Key("the day of the first run")]
    every: Annotated[str | None, Key("how often it is repeated, as day, week, month or 2 weeks; once where absent", EVERY)] = None
    last: Annotated[datetime.date | None, Key("the last day on which it may be made; with every")] = None
    count: Annotated[int | None, Key("how often it is made, in place of to; with every", COUNT)] = None
    window: Annotated[
        str | tuple[str, ...] | None,
        Key(
            'the blocks that it reads: "last 28 days" or "last 4 weeks" (up to the day before the run), or blocks as '
            "2026-01-01..2026-01-28; those of the file where absent; none where the ledger has no blocks"
        ),
    ] = None

    def problems(self) -> Iterator[Problem]:
        """What its keys do not agree on."""
        if self.every is None:
            for key, found in (("to", self.last), ("count", self.count)):
                if found is not None:
                    yield (key,), f"every with {key}", "nothing"
        elif (self.last is None) == (self.count is None):
            yield (("to",), "either to or count with every", "nothing" if self.last is None else "both")
        if self.last is not None and self.last < self.first:
            yield ("to",), f"a day from {self.first} on", str(self.last)

    def days(self) -> Iterator[datetime.date]:
        """The days on which it is made, in order."""
        if self.every is None:
            yield self.first
            return
        days = rhythm_of(self.every).days(self.first)
        for day in days if self.count is None else islice(days, self.count):
            if self.last is not None and day > self.last:
                return
            yield day

    @property
    def endless(self) -> ScheduledRun:
        """The same, with no end where it is repeated."""
        return replace(self, last=None, count=None)


@dataclass(frozen=True, slots=True)
class Schedule:
    """Everything that is planned. path: the file's, as messages call it."""

    runs: tuple[ScheduledRun, ...]
    path: str = ""

    def days(self, endless: bool = False) -> Iterator[tuple[datetime.date, int]]:
        """(day, place of the run in the file) in the order in which they are made; with no end where `endless`."""
        return heapq.merge(*(_placed(run.endless if endless else run, place) for place, run in enumerate(self.runs)))

    def replaced(self, place: int, run: ScheduledRun) -> Schedule:
        """With another run in a place."""
        return replace(self, runs=(*self.runs[:place], run, *self.runs[place + 1 :]))

    @property
    def too_long(self) -> bool:
        """Whether it has more runs than anybody walks."""
        return next(islice(self.days(), MOST, None), None) is not None


def _placed(run: ScheduledRun, place: int) -> Iterator[tuple[datetime.date, int]]:
    return ((day, place) for day in run.days())

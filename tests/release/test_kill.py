"""SIGKILL of real releases, at random moments and at every event: nothing is shown that was not paid for, nothing is drawn twice."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dpcli.base.errors import Denied, InputError, LedgerError
from dpcli.ledger.ledger import Ledger
from dpcli.ledger.stores.places import init, open_ledger
from dpcli.release import release_run as running
from dpcli.release.engines.duckdb_engine import DuckDB
from dpcli.release.release_plan import plan_of
from dpcli.release.release_run import release
from tests.inline import text_of
from tests.ledger.filters.setting import DATASET, terms
from tests.ledger.spenders import started
from tests.release.tables.files import document

pytestmark = pytest.mark.needs("duckdb", "opendp", "sqlglot")
EVENTS: tuple[tuple[Any, str], ...] = (
    (os, "replace"),
    (os, "fsync"),
    (Ledger, "reserve"),
    (Ledger, "start"),
    (Ledger, "commit"),
    (DuckDB, "totals"),
    (running, "store"),
)


@dataclass(frozen=True)
class Place:
    """A folder with data, a file and a ledger; processes write down what they ask of the data, and what they show."""

    folder: Path

    def __post_init__(self) -> None:
        rows = "".join(f"v{number},{number % 90}\n" for number in range(1000))
        (self.folder / "visits.csv").write_text("visitor,age\n" + rows)
        columns = {"visitor": {"type": "text"}, "age": {"type": "integer", "min": 0, "max": 115}}
        tables = document({"name": "q", "measure": "count", "epsilon": 0.01}, by_unit=False)
        tables["privacy"]["delta"] = 0
        tables["source"] |= {"columns": columns, "output": str(self.folder / "out")}
        (self.folder / "file.toml").write_bytes(text_of(tables))
        init(str(self.folder / "ledger.db"), DATASET, terms(5.0)).close()

    def note(self, name: str, text: str) -> None:
        with (self.folder / name).open("a") as file:
            file.write(text + "\n")

    def noted(self, name: str) -> list[str]:
        path = self.folder / name
        return path.read_text().split() if path.exists() else []

    def ledger(self) -> Ledger:
        return open_ledger(str(self.folder / "ledger.db"))

    def released(self) -> None:
        """What dpcli release does, and then shows."""
        with self.ledger() as ledger:
            done = release(plan_of(str(self.folder / "file.toml")), ledger, "key")
        self.note("shown", str(done.answers[0].rows[0].value))

    def require_paid(self) -> None:
        """One answer at most, which was asked for once, of a run that is charged."""
        with self.ledger() as ledger:
            runs = ledger.state().runs
        shown, asked = self.noted("shown"), self.noted("asked")
        assert len(set(shown)) <= 1 and len(asked) <= 1 and len(runs) <= 1
        if asked or shown:
            (run,) = runs.values()
            assert run.status == "committed" if shown else run.status in ("started", "committed")

    def ended(self) -> None:
        """Asked again, twice: the same answer, or none for ever."""
        for _ in range(2):
            with suppress(LedgerError):
                self.released()
            self.require_paid()


def child(task: Callable[[], None], after: float | None = None) -> bool:
    """Whether a process that does it was killed, by itself or after so many seconds."""
    pid = started(task)
    if after is not None:
        time.sleep(after)
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status) == -signal.SIGKILL


def watched(place: Place, fatal: int | None = None) -> None:
    """A release; it dies at the event of this number, before it on even ones and after it on odd ones."""
    number = 0

    def dies(owner: Any, name: str) -> None:
        done = getattr(owner, name)

        def event(*arguments: Any, **keys: Any) -> Any:
            nonlocal number
            for moment in range(2):
                if moment == 1:
                    if name == "totals":
                        place.note("asked", "once")
                    found = done(*arguments, **keys)
                if number == fatal:
                    os.kill(os.getpid(), signal.SIGKILL)
                number += 1
            return found

        setattr(owner, name, event)

    for owner, name in EVENTS:
        dies(owner, name)
    with suppress(LedgerError, Denied, InputError):
        place.released()


def killed_at(folder: Path, number: int) -> bool:
    """Whether a release was killed at the event of this number; what it left is judged."""
    folder.mkdir()
    place = Place(folder)
    killed = child(lambda: watched(place, number))
    place.require_paid()
    place.ended()
    return killed


@pytest.mark.nightly
def test_death_at_every_event(tmp_path: Path) -> None:
    number = 0
    while killed_at(tmp_path / str(number), number):
        number += 1
    assert number >= 2 * 12


@pytest.mark.long
@pytest.mark.parametrize("number", [0, 9, 16, 23])
def test_death_at_an_event(number: int, tmp_path: Path) -> None:
    """The first, some in the middle, and one near the end."""
    assert killed_at(tmp_path / "release", number)


@pytest.mark.long
def test_several_at_once(tmp_path: Path) -> None:
    """Of one file, in one folder and in others, under one key."""
    place = Place(tmp_path)
    pids = [started(lambda: watched(place)) for _ in range(4)]
    for pid in pids:
        assert os.waitpid(pid, 0)[1] == 0
    place.require_paid()
    place.ended()
    assert len(place.noted("asked")) == 1

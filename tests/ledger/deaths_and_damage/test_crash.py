"""Tests of power failures: after every step of its use, a ledger is opened on every disk that a failure may leave (recording_vfs.py).

No acknowledged entry is lost, no chain is broken, and an entry without acknowledgement is complete or absent. With a weaker setting of
`synchronous` the same enumeration loses acknowledged entries, so that it would notice a loss.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

apsw = pytest.importorskip("apsw", reason="the crash enumeration records SQLite through apsw")

from dpcli.base.errors import LedgerError  # noqa: E402
from dpcli.ledger.ledger import Ledger  # noqa: E402
from dpcli.ledger.stores import sqlite  # noqa: E402
from dpcli.ledger.stores.places import open_dataset  # noqa: E402
from dpcli.ledger.stores.sqlite import SqliteStore, create  # noqa: E402
from tests.ledger.deaths_and_damage.recording_vfs import Disk, Log, Names, RecordingSystem, RecordingVFS, Translated  # noqa: E402
from tests.ledger.filters.setting import DATASET, charge, terms  # noqa: E402

NAME = "ledger.db"
LONG = "a reason that takes some room " * 40  # so that pages split, and entries span several


SHORT = {"synchronous": "EXTRA", "times": 0}


@dataclass(slots=True)
class Life:
    """What happened, and the chain that it led to."""

    log: Log
    hashes: list[str]


@pytest.fixture
def life(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Life]:
    """A ledger opened, spent from, denied, reserved in, voided in, and closed; the parameter replaces `synchronous = EXTRA`, or makes it
    longer."""
    setting, times = {**SHORT, **getattr(request, "param", {})}.values()
    planted = tuple(text.replace("synchronous = EXTRA", f"synchronous = {setting}") for text in sqlite.SETTINGS)
    monkeypatch.setattr(sqlite, "SETTINGS", planted)
    log = Log()
    monkeypatch.setattr(sqlite, "os", RecordingSystem(log))
    name = f"recording-{tmp_path.name}"
    vfs = RecordingVFS(name, log)

    def connect(path: str, seconds: float) -> Translated:
        return Translated(apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE, vfs=name))

    (tmp_path / "life").mkdir()
    yield live(str(tmp_path / "life" / NAME), log, connect, times)
    monkeypatch.undo()
    vfs.unregister()


def live(path: str, log: Log, connect: sqlite.Connect, times: int) -> Life:
    """Open a ledger at `path` and use it, with as many charges of each length, noting every acknowledgement."""
    create(path, lambda store: open_dataset(store, DATASET, terms()) and None, connect)
    log.acknowledge(1)
    ledger = Ledger(SqliteStore(path, connect), DATASET)
    for i in range(times):
        log.acknowledge(charge(ledger, f"short {i}").state.head.seq)
    log.acknowledge(charge(ledger, "reserved", kind="reserve").state.head.seq)
    log.acknowledge(ledger.void("reserved", "the job was cancelled in the queue").state.head.seq)
    for i in range(times):
        log.acknowledge(charge(ledger, f"long {i}", why=LONG).state.head.seq)
    log.acknowledge(ledger.amend(0.5, "too much was promised", "the board", acknowledged=True).state.head.seq)
    hashes = [entry.row.hash for entry in ledger.entries()]
    ledger.store.close()
    return Life(log, hashes)


@dataclass(slots=True)
class Outcome:
    """What was counted. points: moments; disks: (moment, disk) pairs; lost: moments after which some disk lacks an acknowledged entry."""

    points: int = 0
    disks: int = 0
    distinct: int = 0
    lost: set[int] = field(default_factory=set)
    broken: set[int] = field(default_factory=set)
    lost_disks: int = 0


def crashed(life: Life, folder: Path) -> Outcome:
    """Cut the power before the first event, between any two, and after the last."""
    outcome, disk, acknowledged = Outcome(), Disk(), 0
    seen: dict[tuple[tuple[str, bytes], ...], int | None] = {}
    for point, event in enumerate([None, *life.log.events]):
        if event is not None:
            event.on(disk)
        acknowledged = getattr(event, "seq", acknowledged)
        outcome.points += 1
        for names in disk.after_power_failure():
            outcome.disks += 1
            key = tuple(sorted(names.items()))
            if key not in seen:
                seen[key] = entries_on(names, folder, life.hashes)
            found = seen[key]
            if found is None:
                outcome.broken.add(point)
            elif found < acknowledged:
                outcome.lost.add(point)
                outcome.lost_disks += 1
    outcome.distinct = len(seen)
    return outcome


def entries_on(names: Names, folder: Path, hashes: list[str]) -> int | None:
    """How many entries a disk holds, 0 where it has no ledger; None where what it has is no beginning of the chain."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name, content in names.items():
        (folder / name).write_bytes(content)
        (folder / name).chmod(0o600)
    if NAME not in names:
        return 0
    try:
        store = SqliteStore(str(folder / NAME))
        try:
            ledger = Ledger(store, DATASET)
            found = [entry.row.hash for entry in ledger.entries()]
            whole = store.check() == () and ledger.state().head.seq == len(found)
        finally:
            store.close()
    except LedgerError:
        return None
    return len(found) if whole and found == hashes[: len(found)] and found else None


@pytest.mark.parametrize(
    ("life", "points", "disks"),
    [({}, 100, 200), pytest.param({"times": 4}, 200, 500, marks=pytest.mark.nightly)],
    indirect=["life"],
    ids=["short", "long"],
)
def test_nothing_acknowledged_is_lost_and_nothing_is_half_there(life: Life, points: int, disks: int, tmp_path: Path) -> None:
    outcome = crashed(life, tmp_path / "after")
    assert (outcome.lost, outcome.broken) == (set(), set())
    assert outcome.points > points
    assert outcome.distinct > disks


def test_a_new_ledger_is_there_whole_or_not_at_all(life: Life, tmp_path: Path) -> None:
    opened = next(i for i, event in enumerate(life.log.events) if getattr(event, "seq", 0) == 1)
    disk, found = Disk(), set()
    for event in life.log.events[:opened]:
        event.on(disk)
        found |= {entries_on(names, tmp_path / "after", life.hashes) for names in disk.after_power_failure()}
    assert found == {0, 1}


@pytest.mark.long
@pytest.mark.parametrize("life", [{"synchronous": "FULL"}, {"synchronous": "NORMAL"}], ids=["FULL", "NORMAL"], indirect=True)
def test_weaker_settings_lose_acknowledged_spends(life: Life, tmp_path: Path) -> None:
    assert crashed(life, tmp_path / "after").lost

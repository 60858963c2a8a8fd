"""Tests of moving a dataset (ledger/stores/copying.py): unchanged entries, and at most one copy that can be charged, also after a crash."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from dpcli.base.errors import Denied, DpcliError, InputError, LedgerError
from dpcli.ledger.chain import canonical, digest, seal, time_after, utc_now
from dpcli.ledger.checkpoint import agrees_with, checkpoint_content
from dpcli.ledger.ledger import Ledger
from dpcli.ledger.state import LedgerState
from dpcli.ledger.stores import copying
from dpcli.ledger.stores.copying import DatasetMove, MovedDataset, move_dataset
from dpcli.ledger.stores.places import init, open_ledger, open_store, upgrade
from dpcli.ledger.stores.postgres_install import VERSION
from dpcli.ledger.verify import anchor_of, verify
from tests.command import dpcli
from tests.ledger.conftest import Database, File, Place, installed
from tests.ledger.deaths_and_damage.deaths import killed
from tests.ledger.entries.versions import fill
from tests.ledger.every_command import ALL, called
from tests.ledger.filters.setting import DATASET, TABLES, charge, past_guards, terms
from tests.ledger.postgres.cluster import Cluster
from tests.ledger.postgres.people import by
from tests.ledger.spenders import lines, started
from tests.waiting import until

# In an order in which two of them, evenly spaced, have every kind on either side.
WAYS = ("sqlite to postgres", "sqlite to sqlite", "postgres to sqlite", "postgres to postgres")


@pytest.fixture(scope="module")
def second(cluster: Cluster) -> Iterator[Database]:
    with installed(cluster) as database:
        yield database


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Place, Place]:
    """Where a dataset is, and where it goes: two places without a ledger."""
    kinds = request.param.split(" to ")
    places: list[Place] = []
    for kind, fixture in zip(kinds, ("database", "second"), strict=True):
        if kind == "sqlite":
            places.append(File(str(tmp_path / f"{fixture}.db")))
            continue
        found: Database = request.getfixturevalue(fixture)
        if fixture == "second":
            found.without_datasets()
        places.append(found)
    return places[0], places[1]


def lived(place: Place) -> LedgerState:
    """A ledger with one of every kind of entry, and what it came to."""
    with init(place.url, DATASET, terms()) as ledger:
        charge(ledger, "first", "0.125", why="Läufe 日本 \N{SNOWMAN}")
        for key in ("ended", "under way", "never", "waiting"):
            charge(ledger, key, "0.0625", kind="reserve", expires="2999-01-01T00:00:00Z")
        ledger.start("ended")
        ledger.commit("ended")
        ledger.start("under way")
        ledger.void("never", "the job was cancelled")
        ledger.amend(1000.0, "more", "the board", unseen=True)
        return ledger.state()


def rows(place: Place) -> list[tuple[int, str, str]]:
    with open_ledger(place.url, DATASET) as ledger:
        return [(entry.row.seq, entry.row.body, entry.row.hash) for entry in ledger.entries()]


def open_places(*places: Place) -> list[str]:
    found = []
    for place in places:
        try:
            with open_ledger(place.url, DATASET) as ledger:
                charge(ledger, f"probe {time.monotonic_ns()}")
            found.append(place.url)
        except DpcliError:
            pass
    return found


# Byte for byte.


@pytest.mark.sampled(0, 2)
@pytest.mark.long
def test_every_entry_goes_along_as_it_is_and_the_dataset_is_charged_there_alone(way: tuple[Place, Place]) -> None:
    """An anchor from before the move fits the copy, and an upgrade skips the moved dataset."""
    source, target = way
    before = lived(source)
    entries = rows(source)
    with open_ledger(source.url, DATASET) as ledger:
        anchor = anchor_of(ledger)
    done = move_dataset(source.url, target.url, DATASET, "a server of our own")
    there, here = rows(target), rows(source)
    assert there[: len(entries)] == entries == here[: len(entries)]
    assert there[: done.closed_at.seq] == here[: done.closed_at.seq] and done.closed_at.seq == len(entries) + 1
    with open_ledger(target.url, DATASET) as copy, open_ledger(source.url, DATASET) as source_:
        closed, own, opened = copy.entries()[-3:]
        assert (closed.kind, closed.content["to"], closed.content["why"]) == ("moved", done.to, "a server of our own")
        assert (own.kind, own.content["to"], own.content["copy"]) == (
            "moved",
            done.to,
            done.closed_at.hash == closed.row.hash and done.closed_at.hash,
        )
        assert (opened.kind, opened.content["from"], opened.content["previous"]) == ("copied", source_.store.address, own.row.hash)
        assert opened.content["schema"] == digest(copy.store.schema()) and opened.content["version"] == copy.store.version
        assert source_.entries()[-1].content["copy"] == own.row.hash
        after = copy.state()
        assert (after.spent, after.reserved, after.caps, after.charges) == (
            before.spent,
            before.reserved,
            before.caps,
            before.charges,
        )
        for found in (verify(copy, anchor), verify(source_)):
            assert (found.problems, found.notes) == ((), ())
        assert upgrade(source.url) == () == upgrade(target.url)
        ends = [copy.commit("under way", "it went along"), copy.void("waiting", "never began"), charge(copy, "here", "0.5")]
        assert [each.repeated for each in ends] == [False] * 3
    assert open_places(source, target) == [target.url]


WITHOUT_LEDGER = ("init", "copy", "overview", "upgrade")  # those that say it otherwise, or open something else


@pytest.mark.sampled(0, 1)
@pytest.mark.long
@pytest.mark.parametrize(
    "way",
    [
        pytest.param(way, marks=marks)
        for way, marks in zip(WAYS, ((), pytest.mark.nightly, pytest.mark.long, pytest.mark.nightly), strict=True)
    ],
    indirect=True,
)
def test_every_command_says_that_a_copy_is_not_open(way: tuple[Place, Place], tmp_path: Path) -> None:
    """At the copy, no command says that the dataset has moved or that a run fits. The origin says how to complete the move."""
    source, target = way
    governed(source)
    with by(source, "eve") as eve:
        eve.approve(proposed(source, target), "it is ours")

    die_moving(source, target, "open_copy")
    ends = {
        target.url: f"is a copy that is not open yet: dpcli budget copy, from its origin to {address(target)}, completes the move",
        source.url: f"has moved to {address(target)} (entry 10): charge it there; if the copy is not open yet, dpcli budget copy",
    }
    words = sorted(words for words in ALL if words[0] == "budget" and words[1] not in WITHOUT_LEDGER)
    assert len(words) > 15
    for url, said in ends.items():
        before = rows(source), rows(target)
        for command in words:
            (folder := tmp_path / f"{command[1]} {url == source.url}").mkdir()
            done = called(command, folder, url)
            shown = " ".join((done.out + done.err).split())
            assert (done.code == 0) == (command[1] in ("show", "log", "export", "verify")), (command, done)
            if command[1] in ("log", "export"):
                assert address(target) in "".join(done.out.split())
            elif "cut into" not in shown:
                assert said in shown, (command, done)
        assert (rows(source), rows(target)) == before
        found = json.loads(dpcli("budget", "show", url, "-f", "json").out)
        assert said in found["closed"] and found["more_like_last"] == 0 == found["largest_pure_epsilon"]
        assert said in json.loads(dpcli("budget", "verify", url, "-f", "json").out)["closed"]
        listed = json.loads(dpcli("budget", "overview", url, "-f", "json").out)["datasets"]
        assert said in listed[0]["warnings"][0] and listed[0]["moved_to"] == address(target)
        assert len(listed[0]["warnings"]) == 2 and "changed" not in str(listed)
        again = dpcli("budget", "upgrade", url)
        assert again.code == 0 and "nothing to do" in again.out and (rows(source), rows(target)) == before
    text = dpcli("budget", "overview", source.url, target.url).out
    assert text.startswith("0 datasets; 1 that moved to another ledger; 1 that is a copy and not open yet;")
    move_dataset(source.url, target.url, DATASET)
    assert "closed" not in json.loads(dpcli("budget", "show", target.url, "-f", "json").out)
    assert open_places(source, target) == [target.url]


def address(place: Place) -> str:
    with open_ledger(place.url, DATASET) as ledger:
        return ledger.store.address


@pytest.mark.sampled(1)
def test_a_copy_is_made_once(way: tuple[Place, Place], tmp_path: Path) -> None:
    source, target = way
    lived(source)
    assert dpcli("budget", "copy", source.url, target.url).code == 0
    before = rows(source), rows(target)
    again = dpcli("budget", "copy", source.url, target.url, "--dataset", DATASET)
    assert again.code == 0 and "had moved before" in again.out
    elsewhere = str(tmp_path / "elsewhere.db")
    done = dpcli("budget", "copy", source.url, elsewhere)
    assert done.code == 4 and "has moved to" in done.err and not os.path.exists(elsewhere)
    back = dpcli("budget", "copy", target.url, source.url)
    assert back.code == 4
    assert (rows(source), rows(target)) == before
    assert open_places(source, target) == [target.url]


@pytest.mark.sampled(1)
def test_a_copy_moves_on(way: tuple[Place, Place], tmp_path: Path) -> None:
    source, target = way
    lived(source)
    third = File(str(tmp_path / "third.db"))
    move_dataset(source.url, target.url, DATASET)
    with open_ledger(target.url, DATASET) as ledger:
        charge(ledger, "there", "0.25")
    move_dataset(target.url, third.url, DATASET)
    assert open_places(source, target, third) == [third.url]
    with open_ledger(third.url, DATASET) as ledger:
        assert [entry.kind for entry in ledger.entries()][-6:] == ["moved", "copied", "spend", *("moved",) * 2, "copied", "spend"][
            -6:
        ]
        assert verify(ledger).problems == ()


@pytest.mark.sampled(0, 1)
@pytest.mark.long
def test_a_ledger_of_blocks_and_one_of_declared_runs_move(way: tuple[Place, Place]) -> None:
    source, target = way
    fill(source.url)
    states = {}
    for name in open_store(source.url).datasets():
        with open_ledger(source.url, name) as ledger:
            states[name] = ledger.state()
    done = dpcli("budget", "copy", source.url, target.url, "-f", "json")
    assert done.code == 0, done
    assert open_store(target.url).datasets() == tuple(states)
    for name, before in states.items():
        with open_ledger(target.url, name) as ledger:
            after = ledger.state()
            assert (after.spent, after.reserved, after.retired) == (before.spent, before.reserved, before.retired)
            assert verify(ledger).problems == () and verify(ledger).notes == ()


# Death.

POINTS: tuple[tuple[str, str, bool, int], ...] = (
    ("_copy_entries", "nothing is taken", True, 1),
    ("_copy_entries", "all is taken", False, 1),
    ("check_written", "read again", False, 1),
    ("leave", "about to close it here", True, 1),
    ("leave", "closed here", False, 1),
    ("_copy_entries", "the rest is taken", False, 2),
    ("_name_copy", "about to give it a name", True, 1),
    ("_name_copy", "has a name, not durable", False, 1),
    ("create_or_fill", "durable there", False, 1),
    ("record_name", "about to name it here", True, 1),
    ("record_name", "named here, durable", False, 1),
    ("open_copy", "about to open it there", True, 1),
    ("open_copy", "open there, durable", False, 1),
    ("verify", "about to verify it", True, 1),
    ("verify", "verified", False, 1),
)
CLOSED, OPENED = 4, 12  # the first points at which it is closed where it was, and open where it goes
SOONEST = (0, 4, 7, 9, 14)  # those of a quick run
HOMES: dict[str, Any] = {"leave": Ledger, "create_or_fill": copying, "verify": copying}


def dying(name: str, before: bool, turn: int) -> None:
    """In this process, die at a call of something, before or after it."""
    home = HOMES.get(name, DatasetMove)
    real, turns = getattr(home, name), iter(range(1, 99))

    def fatal(*arguments: Any, **named: Any) -> Any:
        last = next(turns) == turn
        if last and before:
            os.kill(os.getpid(), signal.SIGKILL)
        found = real(*arguments, **named)
        if last:
            os.kill(os.getpid(), signal.SIGKILL)
        return found

    setattr(home, name, fatal)


def die_moving(source: Place, target: Place, name: str, before: bool = True, turn: int = 1) -> None:
    """Move the dataset in a child that dies at a call of something."""

    def task() -> MovedDataset:
        dying(name, before, turn)
        return move_dataset(source.url, target.url, DATASET)

    assert killed(task)


def deaths() -> Iterator[Any]:
    """Every point on every way: first, last and some between on one of them each in a quick run, every point once in a long one."""
    for number, point in enumerate(POINTS):
        for other, way in enumerate(WAYS):
            tier = [pytest.mark.nightly] if (number + other) % len(WAYS) else [] if number in SOONEST else [pytest.mark.long]
            yield pytest.param(point, way, id=f"{point[1]}-{way}".replace(" ", "-"), marks=tier)


@pytest.mark.sampled(1, 1)
@pytest.mark.parametrize(("point", "way"), list(deaths()), indirect=["way"])
def test_death_at(point: tuple[str, str, bool, int], way: tuple[Place, Place]) -> None:
    source, target = way
    lived(source)
    die_moving(source, target, point[0], before=point[2], turn=point[3])
    granted = open_places(source, target)
    assert len(granted) <= 1
    reached = POINTS.index(point)
    if POINTS[reached][0] == "record_name":
        assert "is a copy that is not open yet" in dpcli("budget", "anchor", target.url, "--dataset", DATASET).err
    assert granted == ([source.url] if reached < CLOSED else [] if reached < OPENED else [target.url])
    known = {key for place in (source, target) for key in runs_at(place)}
    done = move_dataset(source.url, target.url, DATASET)
    assert known <= runs_at(target)
    assert open_places(source, target) == [target.url]
    assert done.verified.problems == () == done.verified.notes
    with open_ledger(source.url, DATASET) as ledger:
        assert [entry.kind for entry in ledger.entries()].count("moved") == 2  # closed once, arrived once


@pytest.mark.sampled(1, 5)
@pytest.mark.parametrize(
    "point",
    [
        pytest.param(point, id=point[1].replace(" ", "-"), marks=() if number in SOONEST else pytest.mark.long)
        for number, point in enumerate(POINTS)
    ],
)
def test_death_at_and_what_was_made_is_taken_away(point: tuple[str, str, bool, int], tmp_path: Path) -> None:
    """Whatever files the dead process left, at most one place accepts charges, also after the move is repeated."""
    source, target = File(str(tmp_path / "a.db")), File(str(tmp_path / "b.db"))
    lived(source)
    die_moving(source, target, point[0], before=point[2], turn=point[3])
    taken = [File(str(tmp_path / f"taken{number}.db")) for number, _ in enumerate(left(tmp_path))]
    for path, place in zip(left(tmp_path), taken, strict=True):
        path.rename(place.url)
    everywhere = (source, target, *taken)
    assert len(open_places(*everywhere)) <= 1
    with suppress(LedgerError):
        move_dataset(source.url, target.url, DATASET)
    assert len(open_places(*everywhere)) <= 1
    for place in taken:  # what was taken away is put in its place, and from there to a third
        for origin, goal in ((source, place), (place, target), (place, File(str(tmp_path / "third.db")))):
            with suppress(LedgerError):
                move_dataset(origin.url, goal.url, DATASET)
            assert len(open_places(*everywhere, File(str(tmp_path / "third.db")))) <= 1, (origin, goal)
        if not os.path.exists(target.url) and os.path.exists(place.url):
            os.rename(place.url, target.url)
            with suppress(LedgerError):
                move_dataset(source.url, target.url, DATASET)
            assert len(open_places(*everywhere)) <= 1
    assert POINTS.index(point) < OPENED or open_places(source, target, *taken, File(str(tmp_path / "third.db")))


def left(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.name == "b.db" or path.name.startswith(".b.db"))


def runs_at(place: Place) -> set[str]:
    try:
        with open_ledger(place.url, DATASET) as ledger:
            return set(ledger.state().runs)
    except DpcliError:
        return set()


def follow(source: str, target: str, folder: Path, name: str) -> None:
    """Charge at the one place, and from when it has moved at the other; note what is acknowledged."""
    url, number = source, 0
    while not (folder / "stop").exists():
        key = f"{name}-{number}"
        try:
            with open_ledger(url, DATASET) as ledger:
                charge(ledger, key)
        except LedgerError as error:
            url = target if "has moved to" in str(error) else url
            time.sleep(0.005)
            continue
        with (folder / f"{name}.acknowledged").open("a") as file:
            print(url == target, key, file=file, flush=True)
        number += 1


ERRORS: dict[int, BaseException] = {
    4: LedgerError("the disk is full; nothing was written"),
    130: KeyboardInterrupt(),
}  # by exit code
FAILURES = [("check_written", False), ("_name_copy", True), ("record_name", True), ("open_copy", True)]
LATER = ("_name_copy", "open_copy")  # in a long run


@pytest.mark.sampled(0, 2)
@pytest.mark.long
@pytest.mark.parametrize(
    ("point", "closed", "way"),
    [
        pytest.param(
            *failure, way, marks=pytest.mark.nightly if (i + j) % len(WAYS) else pytest.mark.long if failure[0] in LATER else ()
        )
        for i, failure in enumerate(FAILURES)
        for j, way in enumerate(WAYS)
    ],
    indirect=["way"],
)
def test_who_fails_after_it_was_closed_here_says_so(
    way: tuple[Place, Place], monkeypatch: pytest.MonkeyPatch, point: str, closed: bool
) -> None:
    source, target = way
    lived(source)

    def fail(error: BaseException) -> None:
        raise error

    for code, error in ERRORS.items():
        with monkeypatch.context() as patch:
            patch.setattr(DatasetMove, point, lambda *arguments, error=error: fail(error))
            done = dpcli("budget", "copy", source.url, target.url)
        assert done.code == code, error
        assert ("completes the move" in done.err) == closed, error
        assert open_places(source, target) == ([] if closed else [source.url]), error
    assert dpcli("budget", "copy", source.url, target.url).code == 0
    assert open_places(source, target) == [target.url]


@pytest.mark.long
@pytest.mark.parametrize(
    "way",
    [
        "sqlite to sqlite",
        pytest.param(WAYS[0], marks=pytest.mark.long),
        *(pytest.param(way, marks=pytest.mark.nightly) for way in WAYS[2:]),
    ],
    indirect=True,
)
def test_nothing_that_is_acknowledged_meanwhile_is_lost(way: tuple[Place, Place], tmp_path: Path) -> None:
    source, target = way
    lived(source)
    workers = [started(lambda name=f"w{i}": follow(source.url, target.url, tmp_path, name)) for i in range(2)]  # type: ignore[misc]
    try:
        for pause in (0.02, 0.05, 0.1, 0.2):
            child = started(lambda: move_dataset(source.url, target.url, DATASET) and None)
            time.sleep(pause)
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        move_dataset(source.url, target.url, DATASET)
        there = until(
            lambda: any(line.startswith("True") for path in tmp_path.glob("*.acknowledged") for line in lines(path)), 0.02
        )
    finally:
        (tmp_path / "stop").touch()
        ended = [os.waitpid(worker, 0)[1] for worker in workers]
    assert ended == [0, 0] and there
    acknowledged = [line.split()[1] for path in tmp_path.glob("*.acknowledged") for line in lines(path)]
    assert len(acknowledged) == len(set(acknowledged)) and set(acknowledged) <= runs_at(target)
    with open_ledger(target.url, DATASET) as ledger:
        assert verify(ledger).problems == ()
        assert ledger.state().charges >= len(acknowledged) + 5


# What is refused.


@pytest.mark.sampled(1)
def test_what_is_not_the_same_chain_stays_as_it_is(way: tuple[Place, Place]) -> None:
    source, target = way
    lived(source)
    lived(target)
    assert open_places(source, target) == [source.url, target.url]  # under different keys
    before = rows(source), rows(target)
    done = dpcli("budget", "copy", source.url, target.url)
    assert done.code == 4 and "expected no" in done.err and "nothing" not in done.out
    assert (rows(source), rows(target)) == before
    assert open_places(source, target) == [source.url, target.url]


def test_an_older_backup_of_a_file_goes_on(tmp_path: Path) -> None:
    """An older backup at the target has the start of the same chain, so the move completes it."""
    source, target = File(str(tmp_path / "a.db")), File(str(tmp_path / "b.db"))
    lived(source)
    Path(target.url).write_bytes(Path(source.url).read_bytes())
    Path(target.url).chmod(0o600)
    with open_ledger(source.url, DATASET) as ledger:
        charge(ledger, "later", "0.5")
        expected = [entry.row for entry in ledger.entries()]
    assert move_dataset(source.url, target.url, DATASET).closed_at.seq == len(expected) + 1
    assert [row[2] for row in rows(target)][: len(expected)] == [row.hash for row in expected]
    assert open_places(source, target) == [target.url]


def test_a_ledger_is_not_copied_to_itself(place: Place) -> None:
    lived(place)
    other = f"{place.url}&application_name=other" if "?" in place.url else f"sqlite:///{os.path.abspath(place.url)}"
    before = rows(place)
    with pytest.raises(LedgerError, match="FROM and TO are the same ledger"):
        move_dataset(place.url, other, DATASET)
    assert rows(place) == before


def test_a_copy_that_is_gone_is_not_made_again(tmp_path: Path) -> None:
    source, target = File(str(tmp_path / "a.db")), File(str(tmp_path / "b.db"))
    lived(source)
    move_dataset(source.url, target.url, DATASET)
    os.rename(target.url, tmp_path / "in use elsewhere.db")
    done = dpcli("budget", "copy", source.url, target.url)
    assert done.code == 4 and "would be a second budget" in done.err and not os.path.exists(target.url)


@pytest.mark.long
@pytest.mark.sampled
@pytest.mark.parametrize(
    "change", ["UPDATE entry SET body = replace(body, '0.125', '0.025') WHERE seq = 2", "DELETE FROM entry WHERE seq = 3"]
)
def test_a_broken_chain_is_not_copied(way: tuple[Place, Place], change: str) -> None:
    source, target = way
    lived(source)
    source.by_force(change)
    done = dpcli("budget", "copy", source.url, target.url, "--dataset", DATASET)
    assert done.code == 4
    assert runs_at(target) == set()


@pytest.mark.sampled(2)
def test_guards_that_were_changed_are_found_before_anything_moves(way: tuple[Place, Place]) -> None:
    source, target = way
    lived(source)
    source.by_hand("ALTER TABLE dpcli.entry DISABLE TRIGGER never" if "://" in source.url else "DROP TRIGGER entry_never_changes")
    with pytest.raises(LedgerError, match="definitions that guard the entries were changed"):
        move_dataset(source.url, target.url, DATASET)
    assert open_places(source, target) == [source.url]


@pytest.mark.sampled(2)
def test_a_second_name_for_the_same_data_is_refused(way: tuple[Place, Place]) -> None:
    source, target = way
    init(source.url, "visits", replace(terms(), fingerprint="f" * 64)).close()
    init(target.url, "other", replace(terms(), fingerprint="f" * 64)).close()
    done = dpcli("budget", "copy", source.url, target.url)
    assert done.code == 4 and 'the fingerprint of dataset "other"' in done.err
    assert open_places(source) == [source.url]


@pytest.mark.long
def test_a_copied_ledger_reads_from_its_totals(way: tuple[Place, Place], monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy in a file has a checkpoint when it opens. A dataset that has moved gets none."""
    source, target = way
    monkeypatch.setattr("dpcli.ledger.checkpoint.EVERY", 1)
    lived(source)
    move_dataset(source.url, target.url, DATASET)
    with open_ledger(target.url, DATASET) as ledger:
        noted = ledger.store.checkpoint(DATASET)
        if "://" not in target.url:
            assert noted is not None
            assert noted.body == canonical(checkpoint_content(ledger.state())) and ledger.state().departure is None
    with open_ledger(source.url, DATASET) as ledger:
        assert ledger.state().departure is not None


def governed(place: Place) -> tuple[LedgerState, dict[str, int]]:
    """A ledger of two persons with a quota of ada's that is nearly used up, and an open proposal of each kind, by its entry."""
    init(place.url, DATASET, replace(terms(), two_person=True)).close()
    with by(place, "ada") as ada, by(place, "eve") as eve:
        charge(ada, "first", "0.25")
        charge(ada, "night", "0.125", kind="reserve")
        set_ = eve.quota("person", "ada", "0.5", why="half is for the others").entry
        assert set_ is not None
        ada.approve(set_.row.seq, "it is fair")
        found = {
            "amend": ada.amend(2.0, "a second analysis"),
            "void": ada.void("night", "no data came"),
            "quota": ada.quota("team", "ads", "0.75", ["ada", "bob"], why="a team"),
        }
        return eve.state(), {kind: each.entry.row.seq for kind, each in found.items() if each.entry is not None}


def proposed(source: Place, target: Place, why: str = "a server of our own") -> int:
    """The entry that proposes a move of a ledger of two persons."""
    with pytest.raises(LedgerError, match=r"another person; entry ([0-9]+) of .* proposes it") as refused:
        move_dataset(source.url, target.url, DATASET, why)
    return int(re.search("entry ([0-9]+) of", str(refused.value))[1])  # type: ignore[index]


@pytest.mark.sampled(1)
def test_one_person_moves_no_ledger_of_two(way: tuple[Place, Place]) -> None:
    """At a target where nobody else looks he could approve his own requests, so another person approves the target."""
    source, target = way
    governed(source)
    with pytest.raises(InputError, match="--reason: state why"):
        move_dataset(source.url, target.url, DATASET)
    seq = proposed(source, target)
    with by(source, "eve") as eve:
        assert proposed(source, target, "again") == seq == eve.state().head.seq  # what waits is not proposed again
        charge(eve, "meanwhile", "0.1")  # it is charged where it is
        with pytest.raises(LedgerError):
            open_ledger(target.url, DATASET).state()
        eve.refuse(seq, "not yet")
        again = proposed(source, target)
        assert again > seq and (approved := eve.approve(again, "it is ours").entry) is not None
        assert approved.content["who"] == "eve"
    done = move_dataset(source.url, target.url, DATASET)
    assert done.closed_at.seq == approved.row.seq and done.verified.problems == ()
    with by(target, "eve") as eve:
        assert eve.state().terms.two_person and "meanwhile" in eve.state().runs  # type: ignore[union-attr]
    assert move_dataset(source.url, target.url, DATASET).repeated


@pytest.mark.sampled(0, 2)
@pytest.mark.long
def test_proposals_and_quotas_go_along_and_what_has_moved_takes_none(way: tuple[Place, Place]) -> None:
    source, target = way
    before, asked = governed(source)
    with by(source, "eve") as eve:
        eve.approve(proposed(source, target), "it is ours")
    move_dataset(source.url, target.url, DATASET)
    with by(source, "eve") as eve:
        end = eve.state().head
        for ask in (
            *(lambda seq=seq: eve.approve(seq, "fine") for seq in asked.values()),
            lambda: eve.refuse(asked["amend"], "no"),
            lambda: eve.quota("person", "bob", "0.5", why="a fair share"),
            lambda: eve.amend(3.0, "more"),
            lambda: eve.void("night", "no data came"),
        ):
            with pytest.raises(LedgerError, match="has moved to"):
                ask()
        assert eve.state().head == end
    with by(target, "ada") as ada, by(target, "eve") as eve:
        for ledger in (ada, eve):
            found = ledger.state()
            assert (found.proposals, found.quotas) == (before.proposals, before.quotas) and found.people == before.people
        noted = eve.store.checkpoint(DATASET)
        assert noted is not None and json.loads(noted.body)["people"]["ada"]["epsilon"] == "0.375"
        with pytest.raises(Denied):
            charge(ada, "over", "0.1250001")
        charge(ada, "up to it", "0.125")
        charge(eve, "another's", "0.25")
        with pytest.raises(LedgerError, match="expected the approval of another person than ada"):
            ada.approve(asked["void"], "mine")
        for seq in asked.values():
            eve.approve(seq, "fine", unseen=True)
        assert not eve.state().proposals and eve.state().epsilon == 2.0 and len(eve.state().quotas) == 2
        charge(ada, "of a wider cap", "0.5")
        with pytest.raises(Denied):
            charge(ada, "over that", "0.1250001")
        assert (verify(eve).problems, verify(eve).notes) == ((), ())
        noted = eve.store.checkpoint(DATASET)
        assert noted is not None and agrees_with(json.loads(noted.body), _up_to(eve, json.loads(noted.body)["seq"]))


def _up_to(ledger: Ledger, seq: int) -> LedgerState:
    state = LedgerState(DATASET)
    for entry in ledger.entries()[:seq]:
        state.apply(entry)
    return state


# Who may, in a database.


@pytest.fixture
def people(database: Database) -> Database:
    """A ledger with one dataset, an administrator and a spender."""
    lived(database)
    for name, role in (("sam", "dpcli_spender"), ("ada", "dpcli_admin")):
        database.cluster.login(name, role)
    return database


def by_hand(database: Database, user: str, function: str, dataset: str, seq: int, text: str) -> str:
    """Call a function as somebody without dpcli would; what the server says, "" where it takes it."""
    import psycopg

    with database.cluster.connect(database.name, user) as connection:
        try:
            connection.execute(f"SELECT dpcli.{function}(%s, %s, %s, %s)", (dataset, seq, text, digest(text)))
        except psycopg.Error as error:
            return str(error.diag.message_primary)
    return ""


def forged(head: LedgerState, who: str, content: dict[str, Any], dataset: str = DATASET) -> Any:
    signed = {"who": who, "when": utc_now(), "dpcli": "0"}
    return seal({**content, **signed}, dataset, head.head).row


SPEND = {
    "kind": "spend",
    "key": "k",
    "pipeline": TABLES,
    "delta": "0.0",
    "cost": {"epsilon": "0.1", "delta": "0"},
    "detail": "stated",
}
QUOTA = {"kind": "quota", "of": "person", "name": "sam", "members": ["sam"], "share": "0.5", "alert_at": "0.8", "why": "x"}


@pytest.mark.long
def test_old_entries_go_into_no_dataset_that_is_there(people: Database) -> None:
    """`take` refuses an existing dataset, even to the owner and with an entry that follows its chain."""
    with open_ledger(people.url, DATASET) as ledger:
        state = ledger.state()
    row = forged(state, "somebody else", SPEND)
    for user in ("ada", "ledger_owner"):
        assert by_hand(people, user, "take", DATASET, row.seq, row.body) == "expected a dataset that is new here"
    opening = rows(people)[0]
    assert by_hand(people, "ada", "take", DATASET, 1, opening[1]) == "expected a dataset that is new here"
    assert len(rows(people)) == state.head.seq


@pytest.mark.long
def test_a_team_goes_along_where_it_is_known(people: Database, second: Database) -> None:
    """Without the team, nobody or everybody would see the copy."""
    second.without_datasets()
    with people.cluster.connect() as connection:
        for role in ("reds", "blues"):
            if connection.execute("SELECT FROM pg_roles WHERE rolname = %s", (role,)).fetchone() is None:
                connection.execute(f"CREATE ROLE {role}")
        connection.execute("GRANT reds, blues TO ledger_owner")
    init(people.url, "red", replace(terms(), team="reds")).close()
    move_dataset(people.url, second.url, "red")
    stranger = second.cluster.login("stranger", "dpcli_spender")
    assert open_store(second.cluster.url(second.name, stranger)).datasets() == ()
    init(people.url, "blue", replace(terms(), team="blues")).close()
    with people.cluster.connect() as connection:
        connection.execute("REVOKE blues FROM ledger_owner")
    ada = people.cluster.login("ada", "dpcli_admin", "blues")
    with pytest.raises(LedgerError, match="a team whose member you are"):
        move_dataset(people.cluster.url(people.name, ada), second.url, "blue")
    assert open_store(second.url).datasets() == ("red",)


@pytest.mark.long
def test_a_spender_copies_nothing(people: Database, tmp_path: Path) -> None:
    done = dpcli("budget", "copy", people.cluster.url(people.name, "sam"), str(tmp_path / "stolen.db"))
    assert done.code == 4 and "needs the role dpcli_admin" in done.err
    assert not os.path.exists(tmp_path / "stolen.db")
    text = '{"kind":"open"}'
    assert "permission denied" in by_hand(people, "sam", "take", "other", 1, text)
    with open_ledger(people.url, DATASET) as ledger:
        row = forged(ledger.state(), "sam", {"kind": "moved", "to": "/stolen.db"})
    assert "moving a dataset needs the role dpcli_admin" in by_hand(people, "sam", "append", DATASET, row.seq, row.body)
    assert open_places(people) == [people.url]


@pytest.mark.long
def test_what_is_being_copied_takes_nothing_before_it_is_whole(people: Database) -> None:
    """An administrator begins a copy by hand and leaves it incomplete."""
    with open_ledger(people.url, DATASET) as ledger:
        opening = {**ledger.entries()[0].content, "who": "somebody"}
    for name in ("dataset", "seq", "previous", "ledger"):
        opening.pop(name)
    empty = LedgerState("new")
    first = seal(opening, "new", empty.head)
    assert by_hand(people, "ada", "take", "new", 1, first.row.body) == ""
    empty.apply(first)
    url = people.cluster.url(people.name, "ada")
    with open_ledger(url, "new") as ledger:
        with pytest.raises(LedgerError, match="is being copied here"):
            charge(ledger, "early", "0.1")
        with pytest.raises(LedgerError, match="is being copied here"):
            ledger.leave("/elsewhere.db")
    opens = {"kind": "copied", "from": "/somewhere.db", "schema": "0" * 64, "version": VERSION}
    early = forged(empty, "ada", opens, "new")
    assert "was closed where it comes from" in by_hand(people, "ada", "append", "new", 2, early.body)
    closing = seal({"kind": "moved", "to": "here", "who": "x", "when": utc_now(), "dpcli": "0"}, "new", empty.head)
    assert by_hand(people, "ada", "take", "new", 2, closing.row.body) == ""
    empty.apply(closing)
    last = forged(empty, "ada", opens, "new")
    assert by_hand(people, "ada", "append", "new", 3, last.body) == ""
    empty.apply(seal({**opens, "who": "ada", "when": utc_now(), "dpcli": "0"}, "new", empty.head))
    assert by_hand(people, "ada", "take", "new", 4, forged(empty, "x", SPEND, "new").body) == "expected a dataset that is new here"
    with open_ledger(url, "new") as ledger:
        charge(ledger, "then", "0.1")


@pytest.mark.long
def test_what_has_moved_is_closed_by_the_server_too(people: Database) -> None:
    with open_ledger(people.cluster.url(people.name, "ada"), DATASET) as ledger:
        ledger.leave("/elsewhere.db")
        state = ledger.state()
        for content in (
            SPEND,
            {"kind": "copied", "from": "/elsewhere.db", "schema": "0" * 64, "version": 6},
            {"kind": "moved", "to": "/a third place.db"},
            {"kind": "moved", "to": "/a third place.db", "copy": "0" * 64},
            {"kind": "amend", "epsilon": 9.0, "caps": {"epsilon": "9", "delta": "0"}, "why": "x", "approver": "x"},
            QUOTA,
            {"kind": "propose", "asks": QUOTA, "expires": time_after(utc_now(), days=3)},
            {"kind": "refuse", "proposal": 2, "why": "x"},
        ):
            row = forged(state, "ada", content)
            refused = by_hand(people, "ada", "append", DATASET, row.seq, row.body)
            assert refused != "" and (content["kind"] in ("moved", "copied") or "has moved" in refused), content
            assert by_hand(people, "ada", "take", DATASET, row.seq, row.body) != "", content
        ledger.name_copy("a" * 64)
        with pytest.raises(LedgerError, match="another copy was named before"):
            ledger.name_copy("b" * 64)
        row = forged(ledger.state(), "ada", {"kind": "moved", "to": "/elsewhere.db", "copy": "b" * 64})
        assert by_hand(people, "ada", "append", DATASET, row.seq, row.body) != ""


@pytest.mark.long
def test_the_signatures_and_times_of_a_file_are_kept_and_the_copy_is_signed_by_the_login(people: Database, tmp_path: Path) -> None:
    source = str(tmp_path / "old.db")
    with init(source, "old", terms()) as made_here:
        Ledger(made_here.store, "old", who="bob", now=lambda: "2020-02-02T02:02:02Z")
        charge(Ledger(made_here.store, "old", who="bob", now=lambda: "2020-02-02T02:02:02Z"), "of bob", "0.1")
    move_dataset(source, people.cluster.url(people.name, "ada"), "old")
    with open_ledger(people.url, "old") as ledger:
        entries = ledger.entries()
        assert [entry.content["who"] for entry in entries if entry.kind in ("spend", "copied")] == ["bob", "ada"]
        with pytest.raises(InputError):
            charge(ledger, "", "0.1")
        assert ledger.state().spent["epsilon"] == Decimal("0.1")


@pytest.mark.parametrize("kind", ["moved", "copied"])
def test_no_chain_is_read_that_moves_in_another_order(kind: str) -> None:
    contents = {
        "open": {"kind": "open", "terms": terms().content(), "caps": {"epsilon": "1", "delta": "0"}},
        "moved": {"kind": "moved", "to": "/b.db"},
        "arrived": {"kind": "moved", "to": "/b.db", "copy": "a" * 64},
        "copied": {"kind": "copied", "from": "/a.db", "schema": "0" * 64, "version": 2},
        "spend": SPEND,
    }
    sound = {
        "moved": [
            ("open", "moved"),
            ("open", "moved", "arrived"),
            ("open", "moved", "own"),
            ("open", "moved", "copied", "spend", "moved"),
        ],
        "copied": [
            ("open", "moved", "copied"),
            ("open", "moved", "copied", "spend"),
            ("open", "moved", "own", "copied", "spend", "moved", "own", "copied"),
        ],
    }
    broken = {
        "moved": [
            ("open", "moved", "moved"),
            ("open", "moved", "spend"),
            ("open", "arrived"),
            ("open", "moved", "arrived", "arrived"),
            ("open", "moved", "own", "own"),
            ("open", "moved", "own", "arrived"),
            ("open", "moved", "arrived", "own"),
            ("open", "moved", "own", "spend"),
        ],
        "copied": [("open", "copied"), ("open", "moved", "arrived", "copied"), ("open", "moved", "copied", "copied")],
    }

    def read(kinds: tuple[str, ...]) -> None:
        state = LedgerState(DATASET)
        for name in kinds:
            content = contents["arrived"] if name == "own" else contents[name]
            if name == "own":
                content = {**content, "copy": state.head.hash if state.departure is None else state.departure.closed_at.hash}
            state.apply(seal({**content, "who": "x", "when": utc_now(), "dpcli": "0"}, DATASET, state.head))

    for kinds in sound[kind]:
        read(kinds)
    for kinds in broken[kind]:
        with pytest.raises(LedgerError, match="changed by hand"):
            read(kinds)


# Two who copy at once, each to a place that the other does not see.


@pytest.mark.sampled(1, 2)
def test_a_copy_is_named_before_it_is_verified(way: tuple[Place, Place], monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = way
    lived(source)

    def fail(*arguments: object, **named: object) -> None:
        with open_ledger(source.url, DATASET) as ledger:
            departure = ledger.state().departure
        assert departure is not None and departure.copy
        raise LedgerError("stopped")

    monkeypatch.setattr(copying, "verify", fail)
    with pytest.raises(LedgerError, match="stopped"):
        move_dataset(source.url, target.url, DATASET)
    assert open_places(source, target) == [target.url]


def test_a_later_state_of_the_ledger_is_no_copy_of_it(tmp_path: Path) -> None:
    source, target, other = (File(str(tmp_path / name)) for name in ("a.db", "b.db", "c.db"))
    lived(source)
    with open_ledger(source.url, DATASET) as ledger:
        ledger.leave(target.url)
    before = Path(source.url).read_bytes()
    move_dataset(source.url, target.url, DATASET)
    os.rename(target.url, other.url)
    Path(target.url).write_bytes(Path(source.url).read_bytes())  # closed, with the name of the copy
    Path(target.url).chmod(0o600)
    Path(source.url).write_bytes(before)
    with pytest.raises(LedgerError, match=r"entry \d+ differs"):
        move_dataset(source.url, target.url, DATASET)
    with open_ledger(source.url, DATASET) as ledger:
        departure = ledger.state().departure
    assert departure is not None and departure.copy == ""
    assert open_places(source, target, other) == [other.url]


@pytest.mark.parametrize(
    "damage", ["UPDATE entry SET body = replace(body, '0.125', '0.025') WHERE seq = 2", "DELETE FROM entry WHERE seq = 3"]
)
def test_a_copy_that_was_damaged_before_it_was_opened_stays_closed(damage: str, tmp_path: Path) -> None:
    source, target = File(str(tmp_path / "a.db")), File(str(tmp_path / "b.db"))
    lived(source)

    die_moving(source, target, "record_name")
    past_guards(target.url, damage)
    with pytest.raises(LedgerError):
        move_dataset(source.url, target.url, DATASET)
    assert open_places(source, target) == []
    os.unlink(target.url)  # nothing was named: it is made again
    move_dataset(source.url, target.url, DATASET)
    assert open_places(source, target) == [target.url]


# Files that get their names.


def test_a_draft_is_no_ledger(tmp_path: Path) -> None:
    """A process that dies before it names the new file leaves a whole ledger, which must not be used."""
    source, target = File(str(tmp_path / "a.db")), File(str(tmp_path / "b.db"))
    lived(source)

    def task() -> None:
        os.link = lambda *paths: os.kill(os.getpid(), signal.SIGKILL) if str(paths[1]) == target.url else real(*paths)  # type: ignore[assignment]
        move_dataset(source.url, target.url, DATASET)

    real = os.link
    assert killed(task)
    (draft,) = tmp_path.glob(".b.db.*.new")
    for path in (str(draft), f"sqlite:///{draft}", os.path.join(str(tmp_path), ".", draft.name)):
        done = dpcli("budget", "show", path)
        assert done.code == 4 and "the temporary file of a command that was interrupted" in done.err, done
    assert open_places(source, File(str(draft))) == []
    move_dataset(source.url, target.url, DATASET)
    assert open_places(source, target, File(str(draft))) == [target.url]


def test_nothing_is_closed_where_the_copy_could_not_get_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = File(str(tmp_path / "a.db"))
    lived(source)

    def refused(*paths: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    with monkeypatch.context() as patch:
        patch.setattr(os, "link", refused)
        with pytest.raises(LedgerError, match="with hard links"):
            move_dataset(source.url, str(tmp_path / "b.db"), DATASET)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.db"]
    assert open_places(source) == [source.url]


@pytest.mark.parametrize("name", ["n\nl.db", "z\N{ZERO WIDTH SPACE}.db", os.fsdecode(b"b\xff.db")], ids=["line", "unseen", "bytes"])
def test_nothing_is_closed_where_the_copy_could_not_say_where_it_comes_from(name: str, tmp_path: Path) -> None:
    source = File(str(tmp_path / "a.db"))
    lived(source)
    named = File(str(tmp_path / name))
    os.rename(source.url, named.url)
    with pytest.raises(LedgerError, match="visible characters"):
        move_dataset(named.url, str(tmp_path / "b.db"), DATASET)
    assert open_places(named) == [named.url] and not (tmp_path / "b.db").exists()

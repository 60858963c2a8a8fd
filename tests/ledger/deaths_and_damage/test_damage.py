"""Tests of files that are no ledger or are damaged: exit code 4, a message for each fault, and nothing written."""

from __future__ import annotations

import json
import os
import pwd
import random
import resource
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dpcli.base.errors import LedgerError
from dpcli.ledger.ledger import Ledger
from dpcli.ledger.stores import sqlite
from dpcli.ledger.stores.places import init, open_ledger
from dpcli.ledger.stores.sqlite import SqliteStore
from dpcli.ledger.verify import verify
from tests.command import ROOT, Result, dpcli
from tests.ledger.cases import every
from tests.ledger.deaths_and_damage.deaths import killed
from tests.ledger.filters.setting import DATASET, charge, past_guards, run_file, terms

Damage = Callable[[Path], None]
DAMAGED = "damaged: restore it from a backup and compare with an anchor (dpcli budget verify --anchor)"
CUT_OFF = "the file was cut off: it has fewer pages than its header states; restore it from a backup"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("made") / "ledger.db"
    ledger = init(str(path), DATASET, terms())
    for i in range(4):
        charge(ledger, f"run {i}", why="because " * 60)
    ledger.store.close()
    return path


@pytest.fixture
def place(made: Path, tmp_path: Path) -> Path:
    return again(made, tmp_path)


def again(made: Path, folder: Path, *within: str) -> Path:
    (folder := folder.joinpath(*within)).mkdir(exist_ok=True)
    shutil.copyfile(made, path := folder / "ledger.db")
    path.chmod(0o600)
    (folder / "run.toml").write_text(run_file())
    return path


def snapshot(folder: Path) -> dict[str, object]:
    found: dict[str, object] = {}
    for path in sorted(folder.iterdir()):
        info = path.lstat()
        content = path.read_bytes() if stat.S_ISREG(info.st_mode) else b""
        found[path.name] = (info.st_mode, info.st_ino, info.st_size, info.st_mtime_ns, content)
    return found


def show(path: Path) -> Result:
    return dpcli("budget", "show", str(path), folder=Path("/"))


def spend(path: Path, key: str = "new") -> Result:
    return dpcli("budget", "spend", str(path), str(path.parent / "run.toml"), "--key", key, folder=Path("/"))


def refused(path: Path, message: str, *asked: Callable[[Path], Result]) -> None:
    """Each question ends with exit code 4 and exactly that message, and leaves everything as it was."""
    before = snapshot(path.parent)
    for ask in asked:
        assert ask(path) == Result(4, "", f"dpcli: {path}: {message}\n")
        assert snapshot(path.parent) == before


def replaced(make: Damage) -> Damage:
    def damage(path: Path) -> None:
        path.unlink()
        make(path)

    return damage


def other_database(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE entry (dataset TEXT)")
    connection.close()


def header(offset: int, data: bytes) -> Damage:
    def damage(path: Path) -> None:
        content = path.read_bytes()
        path.write_bytes(content[:offset] + data + content[offset + len(data) :])

    return damage


def cut(size: int) -> Damage:
    return lambda path: os.truncate(path, size)


EMPTY = "an empty file is not a ledger: restore it from a backup, or remove it and run dpcli budget init"
NO_DATABASE = "not a ledger: the file is not a SQLite database"
CASES: dict[str, tuple[Damage, str]] = {
    "missing": (Path.unlink, "no ledger here; dpcli budget init opens one"),
    "zero bytes": (cut(0), EMPTY),
    "a directory": (replaced(Path.mkdir), "expected a regular file, found a directory"),
    "a named pipe": (replaced(lambda path: os.mkfifo(path)), "expected a regular file, found a named pipe"),
    "a symbolic link": (
        lambda path: path.rename(path.with_name("kept.db")).parent.joinpath("ledger.db").symlink_to("kept.db"),
        "expected the ledger itself, found a symbolic link: state the path that it points to",
    ),
    "everybody may write": (
        lambda path: path.chmod(0o666),
        "expected a file that only its owner may write, found mode 0666: chmod 600",
    ),
    "a group may write": (
        lambda path: path.chmod(0o620),
        "expected a file that only its owner may write, found mode 0620: chmod 600",
    ),
    "a text": (lambda path: path.write_text("epsilon = 1\n" * 900) and None, NO_DATABASE),
    "noise": (lambda path: path.write_bytes(random.Random(1).randbytes(8192)) and None, NO_DATABASE),
    "another program's database": (replaced(other_database), "an SQLite database, but not a ledger of dpcli"),
    "cut off in the header": (cut(60), CUT_OFF),
    "cut off after one page": (cut(4096), CUT_OFF),
    "cut off in a page": (cut(9000), CUT_OFF),
    "cut off by a byte": (lambda path: os.truncate(path, path.stat().st_size - 1), CUT_OFF),
    "a future schema": (header(60, b"\0\0\0\2"), "written by a later version of dpcli: upgrade to read it"),
    "a flipped magic": (header(3, b"\xff"), NO_DATABASE),
    "a page of zeros": (header(8192, bytes(4096)), DAMAGED),
    "a page without cells": (header(8192 + 4, b"\0"), DAMAGED),
}


def test_each_damage_has_its_message_and_nothing_is_written(made: Path, tmp_path: Path) -> None:
    def damaged(case: str) -> None:
        damage, message = CASES[case]
        damage(place := again(made, tmp_path, case))
        refused(place, message, show, spend)

    every(CASES, damaged)


def test_a_device() -> None:
    assert show(Path("/dev/zero")) == Result(4, "", "dpcli: /dev/zero: expected a regular file, found a device\n")


def test_a_link_to_nowhere_is_no_missing_file(place: Path) -> None:
    place.unlink()
    place.symlink_to("nowhere")
    refused(place, "expected the ledger itself, found a symbolic link: state the path that it points to", show, spend)


def test_every_length_of_a_cut_off_file_is_refused(place: Path) -> None:
    whole = place.read_bytes()
    for size in (*range(16, len(whole), 509), 0, len(whole) - 1):
        place.write_bytes(whole[:size])
        with pytest.raises(LedgerError, match=CUT_OFF if size else EMPTY):
            open_ledger(str(place), DATASET).state()


# --- one bit


def answers(path: Path) -> tuple[list[str], object] | None:
    """The chain and what is spent, as they are read; None where reading is refused."""
    try:
        ledger = open_ledger(str(path), DATASET)
    except LedgerError:
        return None
    try:
        return [entry.row.hash for entry in ledger.entries()], ledger.state().spent
    except LedgerError:
        return None
    finally:
        ledger.store.close()


def flips(size: int) -> Iterator[tuple[int, int]]:
    """(place, bit): a bit of every 29th byte, and every bit of each page's own header and first pointers."""
    yield from ((at, 1 << at % 8) for at in range(0, size, 29))
    yield from ((page + 100 * (page == 0) + at, 1 << bit) for page in range(0, size, 4096) for at in range(14) for bit in range(8))


@pytest.mark.sampled(0, 1)
@pytest.mark.long
@pytest.mark.parametrize("one_of", [5, pytest.param(1, marks=pytest.mark.long)])
def test_one_flipped_bit_never_changes_the_answer(one_of: int, place: Path) -> None:
    """A flipped count of cells on the last page can hide entries and leave a valid chain before them."""
    ledger = open_ledger(str(place))
    for i in (4, 5):
        charge(ledger, f"run {i}", why="because " * 60)
    ledger.store.close()
    whole, truth, counts = place.read_bytes(), answers(place), {"as before": 0, "refused": 0}
    for at, bit in list(flips(len(whole)))[::one_of]:
        flipped = bytearray(whole)
        flipped[at] ^= bit
        place.write_bytes(flipped)
        found = answers(place)
        assert found in (None, truth), f"bit {bit} of byte {at}"
        assert place.read_bytes() == flipped
        assert [path.name for path in place.parent.iterdir() if path != place] == ["run.toml"]
        counts["refused" if found is None else "as before"] += 1
    assert min(counts.values()) > 100 // one_of


@pytest.mark.parametrize("one_of", [21, pytest.param(7, marks=pytest.mark.long)])
def test_a_spend_on_a_damaged_file_is_refused_or_sound(one_of: int, place: Path) -> None:
    whole, truth = place.read_bytes(), answers(place)
    assert truth is not None
    for at, bit in list(flips(len(whole)))[::one_of]:
        flipped = bytearray(whole)
        flipped[at] ^= bit
        place.write_bytes(flipped)
        try:
            ledger = open_ledger(str(place), DATASET)
            charge(ledger, "after")
            ledger.store.close()
        except LedgerError:
            place.with_name("ledger.db-journal").unlink(missing_ok=True)
            continue
        after = answers(place)
        assert after is not None and after[0][:-1] == truth[0], f"bit {bit} of byte {at}"


def test_an_entry_that_moved_to_another_dataset_is_missed(place: Path) -> None:
    """Its own dataset and the one it was moved to are reported as damaged; a third one still works."""
    ledger = init(str(place), "third", terms())
    ledger.store.close()
    past_guards(str(place), f"UPDATE entry SET dataset = 'elsewhere' WHERE seq = 5 AND dataset = '{DATASET}'")
    for name in ("elsewhere", DATASET):
        for command in ("show", "verify", "log"):
            done = dpcli("budget", command, str(place), "--dataset", name)
            assert (done.code, 'dataset "elsewhere", entry 1: missing from the chain (entry 5 comes next)' in done.err) == (4, True)
    assert verify(open_ledger(str(place), "third")).problems == ()
    charge(open_ledger(str(place), "third"), "goes on")


# --- entries


def told(made: Path, change: Callable[[Path], object], folder: Path, number: int, message: str) -> None:
    change(place := again(made, folder, str(number)))
    before = snapshot(place.parent)
    for result in (show(place), spend(place)):
        assert result.code == 4 and message in result.err and result.out == "", (message, result)
    assert snapshot(place.parent) == before


BY_HAND = [
    ("DELETE FROM entry WHERE seq = 3", "entry 3: missing from the chain (entry 4 comes next)"),
    ("DELETE FROM entry WHERE seq = 1", "entry 1: missing from the chain (entry 2 comes next)"),
    ("UPDATE entry SET body = replace(body, '0.01', '0.00') WHERE seq = 3", "entry 3: its content does not match its hash"),
    (
        "UPDATE entry SET hash = substr(hash, 2) || substr(hash, 1, 1) WHERE seq = 3",
        "entry 3: its content does not match its hash",
    ),
    ("UPDATE entry SET body = x'00ff' WHERE seq = 3", DAMAGED),
    ("DROP TABLE entry", "damaged"),
    ("ALTER TABLE entry RENAME COLUMN body TO bodies", "it does not have the tables of a ledger"),
]


def test_a_chain_changed_by_hand(made: Path, tmp_path: Path) -> None:
    def found(number: int, case: tuple[str, str]) -> None:
        told(made, lambda path: without_guards(path, case[0]), tmp_path, number, case[1])

    every(enumerate(BY_HAND), found)


def without_guards(path: Path, statement: str) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    for name in ("entry_never_changes", "entry_never_goes"):
        connection.execute(f"DROP TRIGGER {name}")
    connection.execute(statement)
    connection.close()


# --- files that can be read but not written


@pytest.fixture
def open_place() -> Iterator[Path]:
    """A ledger in a folder that any user reaches, owned by one without privileges where this one has them."""
    folder = Path(tempfile.mkdtemp(prefix="dpcli-damage-"))
    path = folder / "ledger.db"
    ledger = init(str(path), DATASET, terms())
    charge(ledger, "run 0")
    ledger.store.close()
    (folder / "run.toml").write_text(run_file())
    assert show(path).code == 0 and spend(path).code == 0  # loads everything while it may be read
    if os.getuid() == 0:
        for each in (folder, path, folder / "run.toml"):
            os.chown(each, NOBODY.pw_uid, NOBODY.pw_gid)
    yield path
    folder.chmod(0o700)
    shutil.rmtree(folder)


NOBODY = pwd.getpwnam("nobody")


def unprivileged(question: Callable[[], Result]) -> Result:
    """A question asked by a user whom permissions hold back."""

    def asked() -> Result:
        if os.getuid() == 0:
            os.setgroups([])
            os.setgid(NOBODY.pw_gid)
            os.setuid(NOBODY.pw_uid)
        os.chdir("/")  # this tree may be closed to others
        return question()

    return in_child(asked)


def in_child(question: Callable[[], Result]) -> Result:
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reader)
            answer = question()
            os.write(writer, json.dumps([answer.code, answer.out, answer.err]).encode())
        except BaseException as error:
            os.write(writer, json.dumps([99, "", repr(error)]).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        found = pipe.read()
    os.waitpid(child, 0)
    return Result(*json.loads(found))


READ_ONLY = "read-only: it cannot be written, or its last transaction cannot be rolled back; nothing was written"


def test_a_file_that_may_not_be_read(open_place: Path) -> None:
    open_place.chmod(0)
    before = snapshot(open_place.parent)
    for ask in (show, spend):
        result = unprivileged(lambda ask=ask: ask(open_place))  # type: ignore[misc]
        assert result == Result(4, "", f"dpcli: {open_place}: cannot be read: Permission denied\n")
    assert snapshot(open_place.parent) == before


def test_a_read_only_file_can_be_looked_at(open_place: Path) -> None:
    open_place.chmod(0o400)
    before = snapshot(open_place.parent)
    assert unprivileged(lambda: show(open_place)).code == 0
    assert unprivileged(lambda: spend(open_place, "other")) == Result(4, "", f"dpcli: {open_place}: {READ_ONLY}\n")
    assert snapshot(open_place.parent) == before


def test_a_read_only_folder_can_be_looked_at(open_place: Path) -> None:
    open_place.parent.chmod(0o500)
    before = snapshot(open_place.parent)
    assert unprivileged(lambda: show(open_place)).code == 0
    assert unprivileged(lambda: spend(open_place, "other")) == Result(4, "", f"dpcli: {open_place}: {READ_ONLY}\n")
    assert snapshot(open_place.parent) == before


def test_a_folder_that_may_not_be_entered(open_place: Path) -> None:
    open_place.parent.chmod(0o600)
    result = unprivileged(lambda: show(open_place))
    assert result == Result(4, "", f"dpcli: {open_place}: cannot be examined: Permission denied\n")


# --- no room


def test_a_full_database(place: Path) -> None:
    def small(path: str, seconds: float) -> sqlite3.Connection:
        connection = sqlite.connect(path, seconds)
        connection.execute(f"PRAGMA max_page_count = {place.stat().st_size // 4096}")
        return connection

    before = snapshot(place.parent)
    ledger = Ledger(SqliteStore(str(place), small), DATASET)
    with pytest.raises(LedgerError, match="the disk is full; nothing was written"):
        charge(ledger, "long", why="because " * 2000)
    ledger.store.close()
    assert {name: facts[4] for name, facts in snapshot(place.parent).items()} == {name: facts[4] for name, facts in before.items()}  # type: ignore[index]
    assert answers(place) is not None


def test_a_file_that_may_not_grow(place: Path) -> None:
    """A limit on the size of files simulates a disk that fills up during a transaction."""
    truth = answers(place)
    for size in (100, 2048, 9000, place.stat().st_size):

        def grow(size: int = size) -> Result:
            ledger = open_ledger(str(place))
            ledger.state()
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
            try:
                charge(ledger, "long", why="because " * 2000)
            except Exception as error:
                return Result(4, "", f"{type(error).__name__} {error}")
            return Result(0, "", "")

        done = in_child(grow)
        assert done.err.startswith("LedgerError") and "the disk" in done.err, (size, done)
        assert answers(place) == truth
        assert sorted(path.name for path in place.parent.iterdir()) == ["ledger.db", "run.toml"]


def python(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)


# --- other processes, and what they left behind


def test_a_ledger_locked_by_another_process(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = sqlite3.connect(place, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    monkeypatch.setattr(SqliteStore.__init__, "__defaults__", (sqlite.connect, 0.05, False))
    assert show(place).code == 0  # readers go on beside a writer
    assert spend(place) == Result(4, "", f"dpcli: {place}: locked by another process for too long; nothing was written\n")
    other.execute("COMMIT")
    assert spend(place).code == 0
    other.execute("BEGIN EXCLUSIVE")
    assert show(place) == Result(4, "", f"dpcli: {place}: locked by another process for too long; nothing was written\n")
    other.close()


def test_opening_a_ledger_twice_drops_no_lock(place: Path) -> None:
    """Under POSIX, closing any descriptor of a file drops all locks of the process on it."""
    code = "import sqlite3, sys; sqlite3.connect(sys.argv[1], timeout=0.05, isolation_level=None).execute('BEGIN IMMEDIATE')"
    ledger = open_ledger(str(place))
    with ledger.store.writing(DATASET):
        second = threading.Thread(target=lambda: open_ledger(str(place)).store.close())
        second.start()
        second.join()
        assert "database is locked" in python(code, str(place)).stderr
    assert python(code, str(place)).returncode == 0


def dies_writing(path: Path) -> None:
    """The writer dies with pages written, and before the commit."""
    ledger = open_ledger(str(path))
    with ledger.store.writing(DATASET):
        connection = ledger.store.connection  # type: ignore[attr-defined]
        connection.execute("PRAGMA cache_size = 1")  # so that pages are written before the commit
        for i in range(9):
            connection.execute("INSERT INTO entry VALUES ('half', ?, ?, '')", (i + 1, "y" * 9000))
        os.kill(os.getpid(), signal.SIGKILL)


@pytest.fixture
def half_written(place: Path) -> Path:
    """A ledger whose last writer was killed in the middle, with its journal."""
    assert killed(lambda: dies_writing(place))
    assert place.with_name("ledger.db-journal").stat().st_size > 512
    return place


def test_a_transaction_that_was_killed_is_rolled_back(half_written: Path) -> None:
    found = answers(half_written)
    assert found is not None and len(found[0]) == 5
    assert not half_written.with_name("ledger.db-journal").exists()
    assert show(half_written).code == 0 and spend(half_written).code == 0


def test_a_transaction_that_was_killed_in_a_folder_that_is_now_read_only(open_place: Path) -> None:
    assert killed(lambda: dies_writing(open_place))
    if os.getuid() == 0:
        os.chown(open_place.with_name("ledger.db-journal"), NOBODY.pw_uid, NOBODY.pw_gid)
    open_place.parent.chmod(0o500)
    open_place.chmod(0o400)
    before = snapshot(open_place.parent)
    for ask in (show, spend):
        result = unprivileged(lambda ask=ask: ask(open_place))  # type: ignore[misc]
        assert result == Result(4, "", f"dpcli: {open_place}: {READ_ONLY}\n")
    assert snapshot(open_place.parent) == before


def test_a_ledger_lost_beside_its_journal(half_written: Path) -> None:
    half_written.unlink()
    refused(half_written, "no ledger here; dpcli budget init opens one", show, spend)
    options = ["--dataset", "new", "--epsilon", "1", "--delta", "0", "--unit", "example", "--adjacency", "add-remove"]
    before = snapshot(half_written.parent)
    result = dpcli("budget", "init", str(half_written), *options, "--filter", "approx-dp")
    journal = half_written.with_name("ledger.db-journal")
    message = f"expected no leftover of another ledger, found {journal}, which SQLite would apply to the new ledger"
    assert result == Result(4, "", f"dpcli: {half_written}: {message}\n")
    assert snapshot(half_written.parent) == before


def test_a_file_in_wal_mode_comes_back_to_a_journal(place: Path) -> None:
    truth = answers(place)
    connection = sqlite3.connect(place, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.close()
    assert answers(place) == truth
    assert place.read_bytes()[18:20] == b"\1\1"
    assert spend(place).code == 0


def test_a_file_that_another_program_holds_in_wal_mode(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SqliteStore.__init__, "__defaults__", (sqlite.connect, 0.05, False))
    other = sqlite3.connect(place, isolation_level=None)
    other.execute("PRAGMA journal_mode = WAL")
    other.execute("SELECT count(*) FROM entry").fetchall()
    content = place.read_bytes()
    for result in (show(place), spend(place)):
        assert result.code == 4 and (
            "another program has opened it in WAL mode" in result.err or "locked by another process" in result.err
        ), result
    assert place.read_bytes() == content
    other.close()


def test_a_network_file_system_is_read_but_not_written(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "network_file_system", lambda path: "nfs4")
    message = (
        "on a network file system (nfs4), where locks do not exclude other machines; nothing was written (DP409): keep it on a "
        "local disk, or use PostgreSQL"
    )
    assert show(place).code == 0
    refused(place, message, spend)


def test_init_overwrites_nothing(place: Path) -> None:
    options = ["--dataset", DATASET, "--epsilon", "9", "--delta", "0", "--unit", "example", "--adjacency", "add-remove"]
    before = snapshot(place.parent)
    result = dpcli("budget", "init", str(place), *options, "--filter", "approx-dp")
    assert result.code == 4 and "expected a new dataset" in result.err
    assert snapshot(place.parent) == before
    with pytest.raises(LedgerError, match="expected a new path, found an existing file"):
        sqlite.create(str(place), lambda store: None)
    assert snapshot(place.parent) == before
    assert stat.S_IMODE(place.stat().st_mode) == 0o600

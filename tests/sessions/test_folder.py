"""Tests of sessions/folder.py: files are replaced as a whole, and one process at a time uses a folder."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from dpcli.base.errors import InputError
from dpcli.sessions import folder as folders
from dpcli.sessions.folder import LOCK, exclusive, replace_file
from tests.cases import of_each
from tests.ledger.spenders import started
from tests.waiting import until

CALLS = ("open", "fsync", "replace")


@of_each("call", range(5))
def test_an_interrupted_file_is_the_old_one_or_the_new_one(call: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Interrupted at each system call. A second attempt to write it succeeds."""
    path = str(tmp_path / "file")
    replace_file(path, b"old")
    seen: list[str] = []

    class System:
        def __getattr__(self, name: str) -> Any:
            done = getattr(os, name)

            def counted(*arguments: Any) -> Any:
                seen.append(name)
                if len(seen) == call + 1:
                    raise KeyboardInterrupt
                return done(*arguments)

            return counted if name in CALLS else done

    with monkeypatch.context() as patched:
        patched.setattr(folders, "os", System())
        with pytest.raises(KeyboardInterrupt):
            replace_file(path, b"new")
    assert seen == ["open", "fsync", "replace", "open", "fsync"][: call + 1], "durable before it has its name, and the name then"
    assert Path(path).read_bytes() == (b"new" if "replace" in seen[:-1] else b"old")
    replace_file(path, b"newest")
    assert Path(path).read_bytes() == b"newest"
    assert os.listdir(tmp_path) == ["file"]


@of_each("call", ["fsync", "replace"])
def test_a_failed_write_leaves_no_draft(call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise every later write with `fresh` would be refused."""
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def full_disk(*arguments: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, call, full_disk)
        with pytest.raises(OSError, match="No space left"):
            replace_file(str(path), b"new", fresh=True)
    assert [(file.name, file.read_bytes()) for file in tmp_path.iterdir()] == [("file", b"old")]
    replace_file(str(path), b"new", fresh=True)
    assert path.read_bytes() == b"new"


def test_the_draft_of_another_process_is_kept(tmp_path: Path) -> None:
    (tmp_path / "file.new").write_bytes(b"theirs")
    with pytest.raises(FileExistsError):
        replace_file(str(tmp_path / "file"), b"mine", fresh=True)
    assert [(file.name, file.read_bytes()) for file in tmp_path.iterdir()] == [("file.new", b"theirs")]


def test_a_file_is_its_owners_where_that_is_said(tmp_path: Path) -> None:
    replace_file(str(tmp_path / "file"), b"", 0o600)
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o600


def test_a_folder_is_for_one_process_at_a_time_and_free_when_that_is_killed(tmp_path: Path) -> None:
    folder, ready = str(tmp_path / "folder"), tmp_path / "ready"

    def holding() -> None:
        with exclusive(folder):
            ready.touch()
            signal.pause()

    child = started(holding)
    try:
        until(ready.exists)
        with (
            pytest.raises(InputError, match="expected a folder that no other run uses, found one in use"),
            exclusive(folder),
        ):
            pytest.fail("two processes have one folder")
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    with exclusive(folder):
        pass
    with exclusive(folder):  # given back
        pass


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(InputError, match="cannot be written"), exclusive(str(tmp_path / "file")):
        pytest.fail("a file is no folder")


@of_each("there, left, fails", [(there, left, fails) for there in range(3) for left in (False, True) for fails in (False, True)])
def test_a_created_folder_is_removed_if_it_stays_empty(there: int, left: bool, fails: bool, tmp_path: Path) -> None:
    """A folder stays only if it existed before or something was written to it."""
    chain = [tmp_path / "runs", tmp_path / "runs" / "week"]
    for one in chain[:there]:
        one.mkdir()
    with suppress(ZeroDivisionError), exclusive(str(chain[-1])):
        if left:
            (chain[-1] / "kept").touch()
        if fails:
            raise ZeroDivisionError
    assert [one.exists() for one in chain] == [left or there > 0, left or there > 1]
    with exclusive(str(chain[-1])):
        pass
    assert (chain[-1] / "kept").exists() == left


def test_a_fork_leaves_the_folder_to_its_parent(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    with ExitStack() as held:
        held.enter_context(exclusive(str(folder)))
        child = started(held.close)
        assert os.waitpid(child, 0)[1] == 0
        with pytest.raises(InputError, match="found one in use"), exclusive(str(folder)):
            pytest.fail("the lock of the parent was given back by its fork")
    assert not folder.exists()


def test_a_folder_that_is_made_and_removed_all_the_time_is_still_for_one_process_at_a_time(tmp_path: Path) -> None:
    """A lock on a lock file that was removed meanwhile does not count."""
    folder, inside, turns = str(tmp_path / "runs" / "folder"), tmp_path / "inside", tmp_path / "turns"

    def working() -> None:
        done = 0
        while done < 50:
            with suppress(InputError), exclusive(folder):
                os.close(os.open(inside, os.O_CREAT | os.O_EXCL))  # raises where another one is inside
                inside.unlink()
                done += 1
        with open(turns, "a") as file:
            file.write(f"{done}\n")

    children = [started(working) for _ in range(4)]
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 4
    assert turns.read_text().split() == ["50"] * 4
    with exclusive(folder):
        pass


@pytest.mark.parametrize("again", [False, True], ids=["gone", "made anew"])
def test_a_lock_that_was_removed_as_it_was_opened_is_no_lock(again: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process leaves between the opening and the locking, and a third one may arrive."""
    folder, lock, first = tmp_path / "folder", fcntl.flock, [True]

    def late(file: int, how: int) -> None:
        if first.pop() if first else False:
            (folder / LOCK).unlink()
            folder.rmdir()
            if again:
                folder.mkdir()
                (folder / LOCK).touch()
        lock(file, how)

    with monkeypatch.context() as patched:
        patched.setattr(fcntl, "flock", late)
        with exclusive(str(folder)):
            with pytest.raises(InputError, match="found one in use"), exclusive(str(folder)):
                pytest.fail("the lock is on a file that is gone")
            (folder / "kept").touch()
    assert (folder / "kept").exists()

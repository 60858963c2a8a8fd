"""Files that are there whole or not at all, in folders of one process at a time."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from dpcli.errors import InputError
from dpcli.sessions import folder as folders
from dpcli.sessions.folder import exclusive, replaced
from tests.ledger.spenders import started
from tests.waiting import until

CALLS = ("open", "fsync", "replace")


@pytest.mark.parametrize("call", range(5))
def test_an_interrupted_file_is_the_old_one_or_the_new_one(call: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At each call of the system; and whoever writes it again succeeds."""
    path = str(tmp_path / "file")
    replaced(path, b"old")
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
            replaced(path, b"new")
    assert seen == ["open", "fsync", "replace", "open", "fsync"][: call + 1], "durable before it has its name, and the name then"
    assert Path(path).read_bytes() == (b"new" if "replace" in seen[:-1] else b"old")
    replaced(path, b"newest")
    assert Path(path).read_bytes() == b"newest"
    assert os.listdir(tmp_path) == ["file"]


def test_a_file_is_its_owners_where_that_is_said(tmp_path: Path) -> None:
    replaced(str(tmp_path / "file"), b"", 0o600)
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
            pytest.raises(InputError, match="expected a folder that no other process works in, found one at work"),
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

"""Tests of a restored backup: it is valid in itself, an anchor reveals it, and the lost runs can be charged again."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import cast

import pytest

from dpcli.base.errors import LedgerError
from dpcli.ledger.stores.copying import move_dataset
from dpcli.ledger.stores.places import init, open_ledger
from dpcli.ledger.verify import verify
from tests.command import dpcli
from tests.ledger.conftest import Database, File, Place
from tests.ledger.entries.versions import restore
from tests.ledger.filters.setting import DATASET, charge, run_file, terms
from tests.ledger.postgres.cluster import programs
from tests.ledger.spenders import started


def backed_up(place: Place) -> Callable[[], None]:
    """A backup of now; what is returned puts it back."""
    if "://" not in place.url:
        copy = f"{place.url}.backup"
        shutil.copy2(place.url, copy)
        return lambda: shutil.copy2(copy, place.url) and None
    database = cast("Database", place)
    folder, superuser = programs(), database.cluster.url(database.name)
    assert folder is not None
    dump = subprocess.run([folder / "pg_dump", "--schema", "dpcli", superuser], check=True, capture_output=True).stdout

    return lambda: restore(database, dump)


def anchored(place: Place, path: Path) -> str:
    done = dpcli("budget", "anchor", place.url, "-o", f"json={path}")
    assert done.code == 0
    return str(path)


@pytest.fixture
def lived(place: Place) -> Place:
    with init(place.url, DATASET, terms()) as ledger:
        charge(ledger, "first", "0.1")
        charge(ledger, "long", "0.1", kind="reserve", expires="2999-01-01T00:00:00Z")
    return place


@pytest.mark.long
def test_an_older_backup_is_sound_and_found_by_the_anchor(lived: Place, tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text(run_file())
    early = anchored(lived, tmp_path / "early.json")
    put_back = backed_up(lived)
    with open_ledger(lived.url) as ledger:
        ledger.start("long")
        charge(ledger, "second", "0.1")
    late = anchored(lived, tmp_path / "late.json")
    assert dpcli("budget", "verify", lived.url, "--anchor", late).code == 0
    put_back()
    for asked in ((), ("--anchor", early)):
        assert dpcli("budget", "verify", lived.url, *asked).code == 0
    for words in (("verify", lived.url), ("spend", lived.url, str(tmp_path / "run.toml"), "--key", "third")):
        done = dpcli("budget", *words, "--anchor", late)
        assert done.code == 4 and "an old backup was restored (DP405)" in done.err
    with open_ledger(lived.url) as ledger:
        assert list(ledger.state().runs) == ["first", "long"]  # nothing was written
        for key in ("x", "y", "z"):
            charge(ledger, key, "0.1")
    done = dpcli("budget", "verify", lived.url, "--anchor", late)
    assert done.code == 4 and "the history was replaced (DP405)" in done.err
    assert dpcli("budget", "verify", lived.url, "--anchor", early).code == 0


@pytest.mark.long
def test_what_was_lost_is_charged_again(lived: Place, tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text(run_file(0.1))
    put_back = backed_up(lived)
    with open_ledger(lived.url) as ledger:
        charge(ledger, "second", "0.1")
        spent = ledger.state().spent["epsilon"]
    put_back()
    (tmp_path / "lost.csv").write_text("date,key,file,note\n2026-01-01,second,run.toml,from the log of the job\n")
    for said in ("charged 1 of 1 run", "charged before, and nothing was written"):
        assert said in dpcli("budget", "import", lived.url, str(tmp_path / "lost.csv")).out
    anchor = anchored(lived, tmp_path / "new.json")
    assert dpcli("budget", "verify", lived.url, "--anchor", anchor).code == 0
    with open_ledger(lived.url) as ledger:
        assert ledger.state().spent["epsilon"] == spent
        with pytest.raises(LedgerError, match='second"'):
            charge(ledger, ledger.own_key("second"), "0.1")


@pytest.mark.long
def test_a_backup_from_before_a_move_is_open_and_the_anchor_of_the_copy_finds_it(lived: Place, tmp_path: Path) -> None:
    put_back = backed_up(lived)
    target = str(tmp_path / "new.db")
    move_dataset(lived.url, target, DATASET)
    anchor = anchored(File(target), tmp_path / "anchor.json")
    put_back()
    assert dpcli("budget", "verify", lived.url).code == 0  # which is why the anchor is needed
    done = dpcli("budget", "verify", lived.url, "--anchor", anchor)
    assert done.code == 4 and "DP405" in done.err
    again = dpcli("budget", "copy", lived.url, target)
    assert again.code == 4 and "differs; move the dataset to a ledger that does not have it" in again.err
    with open_ledger(target) as ledger:
        assert verify(ledger).problems == ()


def test_a_backup_of_a_file_while_somebody_charges_is_whole(tmp_path: Path) -> None:
    """The backup is made with SQLite's backup API, as the shell's `.backup` does."""
    path = str(tmp_path / "l.db")
    init(path, DATASET, terms(1000.0)).close()

    def spend() -> None:
        number = 0
        with open_ledger(path) as ledger:
            while not (tmp_path / "stop").exists():
                charge(ledger, f"run {number}", why="because " * 200)
                number += 1
                time.sleep(0.01)

    child = started(spend)
    try:
        for i in range(12):
            copy = tmp_path / f"{i}.db"
            with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(copy)) as target:
                source.backup(target)
            copy.chmod(0o600)
            with open_ledger(str(copy)) as ledger:
                found = [entry.row for entry in ledger.entries()]
                assert verify(ledger).notes == ()
            with open_ledger(path) as ledger:
                assert [entry.row for entry in ledger.entries()][: len(found)] == found
    finally:
        (tmp_path / "stop").touch()
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0

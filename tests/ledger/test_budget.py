"""`dpcli.budget`: whatever a program does with a run, its noise is paid for."""

from __future__ import annotations

import itertools
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import dpcli
from dpcli.errors import Denied, InputError, LedgerError
from dpcli.ledger.stores.places import init, open_ledger
from tests.command import ROOT
from tests.ledger.conftest import Place
from tests.ledger.setting import DATASET, run, run_file, terms


@pytest.fixture
def books(place: Place) -> dpcli.DatasetBudget:
    init(place.url, DATASET, terms()).close()
    return dpcli.budget(place.url)


def status(books: dpcli.DatasetBudget, key: str) -> str:
    with open_ledger(books.url, DATASET) as ledger:
        return ledger.state().run(key).status


def spent(books: dpcli.DatasetBudget) -> float:
    with open_ledger(books.url, DATASET) as ledger:
        return float(ledger.state().spent["epsilon"])


def test_a_block_charges_starts_and_commits(books: dpcli.DatasetBudget, tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text(run_file(0.25))
    with books.reserve(tmp_path / "run.toml", key="night", why="nightly", expires="14d") as night:
        assert night.run.status == "reserved" and spent(books) == 0.25
        night.start()
        assert night.run.status == "started"
    assert status(books, "night") == "committed"
    books.spend(run(0.25), "at once")
    with pytest.raises(LedgerError, match="needs a key of its own"):
        books.spend(run(0.25), "at once")
    with pytest.raises(Denied):
        books.reserve(run(0.75), "too much")
    assert spent(books) == 0.5


ACTS = {
    "start": lambda one: one.start(),
    "commit": lambda one: one.commit(),
    "void": lambda one: one.void("no noise was drawn"),
    "raise": lambda one: 1 / 0,
    "reserve again": lambda one: one.budget.reserve(run(0.01), one.key),
}


@pytest.mark.parametrize("acts", [acts for length in (0, 1, 2) for acts in itertools.product(ACTS, repeat=length)], ids="+".join)
def test_no_order_of_requests_gives_noise_for_nothing(acts: tuple[str, ...], tmp_path: Path) -> None:
    """What starts is charged for ever, and starts once; all but a void run is; nothing else is ever void."""
    init(str(tmp_path / "l.db"), DATASET, terms()).close()
    books, begun, ended, raised = dpcli.budget(tmp_path / "l.db"), 0, [], None
    try:
        with books.reserve(run(0.01), "key") as one:
            for act in acts:
                ACTS[act](one)
                begun += act == "start"
                ended.append(act)
    except (InputError, LedgerError, ZeroDivisionError) as error:
        raised = error
    assert spent(books) == (0.0 if status(books, "key") == "void" else 0.01)
    assert not isinstance(raised, ZeroDivisionError) or "stays charged" in raised.__notes__[0]
    assert begun <= 1
    assert (status(books, "key") == "void") == ("void" in ended)
    assert "void" not in ended or not begun
    if begun:
        assert status(books, "key") == ("committed" if tuple(ended) == acts or "commit" in ended else "started")
    if "commit" in ended:
        with pytest.raises(LedgerError):
            books.reserve(run(0.01), "key")


def test_a_block_without_a_start_is_found_and_stays_charged(books: dpcli.DatasetBudget) -> None:
    with pytest.raises(InputError, match=r"start\(\) before the first noise"), books.reserve(run(), "key"):
        pass
    assert status(books, "key") == "reserved" and spent(books) == 0.01


def test_one_of_many_threads_starts(books: dpcli.DatasetBudget) -> None:
    one, granted = books.reserve(run(), "key"), []

    def begin() -> None:
        try:
            one.start()
            granted.append(1)
        except LedgerError:
            pass

    threads = [threading.Thread(target=begin) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(granted) == 1


PROGRAM = """
import sys, dpcli
with dpcli.budget(sys.argv[1]).reserve(sys.argv[2], key="night") as run:
    print("reserved", flush=True)
    run.start()
    print("started", flush=True)
    sys.stdin.read()
"""


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGINT])
def test_who_is_killed_or_interrupted_has_paid(sent: signal.Signals, tmp_path: Path) -> None:
    init(str(tmp_path / "l.db"), DATASET, terms()).close()
    (tmp_path / "run.toml").write_text(run_file())
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, tmp_path / "l.db", tmp_path / "run.toml"],
        cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None and [process.stdout.readline() for _ in range(2)] == ["reserved\n", "started\n"]
    process.send_signal(sent)
    err = process.communicate(timeout=60)[1]
    assert process.returncode != 0 and (sent == signal.SIGKILL or 'the run "night" stays charged' in err)
    books = dpcli.budget(tmp_path / "l.db")
    assert status(books, "night") == "started" and spent(books) == 0.01
    with pytest.raises(LedgerError, match="needs a key of its own"):
        books.reserve(tmp_path / "run.toml", "night")


def test_what_is_not_there_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(LedgerError):
        dpcli.budget(tmp_path / "none.db")
    init(str(tmp_path / "l.db"), DATASET, terms()).close()
    with pytest.raises(LedgerError):
        dpcli.budget(tmp_path / "l.db", "visit").reserve(run(), "key")

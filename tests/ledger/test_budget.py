"""Tests of `dpcli.budget`, the Python interface: in whatever order a program calls it, noise is charged before it may be drawn."""

from __future__ import annotations

import itertools
import math
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dpcli
from dpcli.base.errors import Denied, InputError, LedgerError
from dpcli.ledger.stores.places import init, open_ledger, without_secrets
from dpcli.ledger.stores.sqlite import SqliteStore
from dpcli.ledger.verify import verify
from tests.command import ROOT
from tests.ledger.cases import every
from tests.ledger.conftest import Place
from tests.ledger.filters.setting import DATASET, run, run_file, terms


@pytest.fixture
def books(place: Place) -> dpcli.DatasetBudget:
    init(place.url, DATASET, terms()).close()
    return dpcli.budget(place.url)


def test_no_password_is_shown() -> None:
    for shown in ("a/b.db", "sqlite:///a/b.db"):
        assert without_secrets(shown) == shown
    for scheme in ("sqlite", "postgresql", "mysql"):
        assert without_secrets(f"{scheme}://user:pw@host/x") == f"{scheme}://..."


def status(books: dpcli.DatasetBudget, key: str) -> str:
    with open_ledger(books.url, DATASET) as ledger:
        return ledger.state().run(ledger.key_of_run(key)).status


def spent(books: dpcli.DatasetBudget) -> float:
    with open_ledger(books.url, DATASET) as ledger:
        return float(ledger.state().spent["epsilon"])


@pytest.mark.long
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
    "commit unstarted": lambda one: one.commit("it ran elsewhere"),
    "void": lambda one: one.void("no noise was drawn"),
    "raise": lambda one: 1 / 0,
    "reserve again": lambda one: one.budget.reserve(run(0.01), one.key),
}


@pytest.mark.long
def test_no_order_of_requests_gives_noise_for_nothing(tmp_path: Path) -> None:
    """A run starts once and is then charged for ever. Only a run that was voided before its start is free."""
    orders = [acts for length in (0, 1, 2) for acts in itertools.product(ACTS, repeat=length)]
    every(["+".join(acts) for acts in orders], lambda name: in_order(tuple(filter(None, name.split("+"))), tmp_path / f"{name}.db"))


def in_order(acts: tuple[str, ...], path: Path) -> None:
    init(str(path), DATASET, terms()).close()
    books, begun, ended, raised = dpcli.budget(path), 0, [], None
    try:
        with books.reserve(run(0.01), "key") as one:
            for act in acts:
                ACTS[act](one)
                begun += act == "start"
                ended.append(act.split()[0])
    except (InputError, LedgerError, ZeroDivisionError) as error:
        raised = error
    assert spent(books) == (0.0 if status(books, "key") == "void" else 0.01)
    assert not isinstance(raised, ZeroDivisionError) or "stays charged" in raised.__notes__[0]
    assert begun <= 1
    assert (status(books, "key") == "void") == ("void" in ended)
    assert "void" not in ended or not begun
    if begun:
        assert status(books, "key") == ("committed" if len(ended) == len(acts) or "commit" in ended else "started")
    if "commit" in acts and not {"start", "commit unstarted"} & {*acts[: acts.index("commit")]}:
        assert raised is not None  # a commit without a start, and without a reason
    if "commit" in ended:
        with pytest.raises(LedgerError):
            books.reserve(run(0.01), "key")


def test_another_end_of_the_same_reservation_is_told(books: dpcli.DatasetBudget) -> None:
    books.reserve(run(), "key", expires="2030-01-01T00:00:00Z")
    with pytest.warns(UserWarning, match="keeps the --expires of its reservation .2030-01-01T00:00:00Z"):
        books.reserve(run(), "key", expires="2031-01-01T00:00:00Z")
    books.reserve(run(), "key", expires="2030-01-01T00:00:00Z")


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

    with ThreadPoolExecutor(6) as threads:
        for _ in range(6):
            threads.submit(begin)
    assert len(granted) == 1


def test_a_ledger_may_close_while_another_thread_opens_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Opening iterates over all open ledgers while the other thread closes one."""
    for name in ("a.db", "b.db"):
        init(str(tmp_path / name), DATASET, terms()).close()
    is_open, looked, closed = threading.Event(), threading.Event(), []

    def open_and_close() -> None:
        with open_ledger(str(tmp_path / "a.db"), DATASET):
            is_open.set()
            looked.wait()
        closed.append(True)

    other = threading.Thread(target=open_and_close)
    other.start()
    is_open.wait()
    holds = SqliteStore.holds

    def holds_slowly(store: SqliteStore, path: str) -> bool:
        looked.set()
        other.join(0.05)  # time enough to close; it may as well close when the look is over
        return holds(store, path)

    monkeypatch.setattr(SqliteStore, "holds", holds_slowly)
    open_ledger(str(tmp_path / "b.db"), DATASET).close()
    other.join()
    assert closed


PROGRAM = """
import sys, dpcli
with dpcli.budget(sys.argv[1]).reserve(sys.argv[2], key="night") as run:
    print("reserved", flush=True)
    run.start()
    print("started", flush=True)
    sys.stdin.read()
"""


@pytest.mark.long
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
    err = process.communicate(timeout=300)[1]
    assert process.returncode != 0 and (sent == signal.SIGKILL or 'the run "night" stays charged' in err)
    books = dpcli.budget(tmp_path / "l.db")
    assert status(books, "night") == "started" and spent(books) == 0.01
    with pytest.raises(LedgerError, match="needs a key of its own"):
        books.reserve(tmp_path / "run.toml", "night")


def test_another_working_directory_is_no_other_ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that starts under one ledger and is charged in another could be voided in the first."""
    for folder in ("here", "there"):
        (tmp_path / folder).mkdir()
        init(str(tmp_path / folder / "l.db"), DATASET, terms()).close()
    for spelled in ("l.db", "./l.db", "sqlite:///l.db", Path("l.db")):
        made: list[dpcli.ReservedRun] = []
        for folder in ("here", "there"):
            monkeypatch.chdir(tmp_path / folder)
            made += [
                dpcli.budget(spelled).reserve(run(), repr(spelled)),
                pickle.loads(pickle.dumps(dpcli.DatasetBudget(spelled))).reserve(run(), f"{spelled!r} pickled"),
            ]  # type: ignore[arg-type]
        for one in made[:2]:
            one.start()
            assert status(dpcli.budget(tmp_path / "here" / "l.db"), one.key) == "started"
            assert status(dpcli.budget(tmp_path / "there" / "l.db"), one.key) == "reserved"


def test_a_block_is_entered_once(books: dpcli.DatasetBudget) -> None:
    for ended in ("commit", "void"):
        one = books.reserve(run(), ended)
        one.commit("it ran") if ended == "commit" else one.void("a reason")
        with pytest.raises(LedgerError, match="needs a key of its own"), one:
            pytest.fail("noise would be drawn here")


OTHER = (3, 0.5, b"x", ["x"], {}, True, object(), float("nan"))
WRONG: dict[str, Callable[[dpcli.DatasetBudget, Any], object]] = {
    "budget": lambda books, value: dpcli.budget(value),
    "dataset": lambda books, value: dpcli.budget(books.url, value),
    "pipeline": lambda books, value: books.reserve(value, "key"),
    "pipeline, spent": lambda books, value: books.spend(value, "key"),
    "key": lambda books, value: books.reserve(run(), value),
    "why": lambda books, value: books.reserve(run(), "key", why=value),
    "delta": lambda books, value: books.reserve(run(), "key", delta=str(value)),  # type: ignore[arg-type]
    "delta, itself": lambda books, value: books.reserve(run(), "key", delta=value if value in (3, True) else math.nan),
    "expires": lambda books, value: books.reserve(run(), "key", expires=value),
    "window": lambda books, value: books.reserve(run(), "key", window=[3] if value == ["x"] else value),
    "window, spent": lambda books, value: books.spend(run(), "key", window=(b"x",) if value == ["x"] else value),
    "why void": lambda books, value: dpcli.ReservedRun(books, "other").void(value),
}


def test_what_is_of_another_type_is_refused_in_words(tmp_path: Path) -> None:
    init(str(tmp_path / "l.db"), DATASET, terms()).close()
    books = dpcli.budget(tmp_path / "l.db")
    books.reserve(run(), "other")

    def refused(argument: str) -> None:
        for value in OTHER:
            with pytest.raises(InputError, match="expected a"):
                WRONG[argument](books, value)
        assert spent(books) == 0.01 and status(books, "other") == "reserved"

    every(WRONG, refused)


@pytest.mark.long
def test_a_number_is_a_number_of_whatever_library(books: dpcli.DatasetBudget) -> None:
    books.reserve(run(), "key", delta=0.0)
    for delta in (0, 0.0, np.float64(0.0), np.float32(0.0), np.int64(0), Fraction(0)):
        assert books.reserve(run(), "key", delta=delta).run.content["delta"] == "0.0", type(delta)
    assert spent(books) == 0.01


def test_what_is_not_there_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(LedgerError):
        dpcli.budget(tmp_path / "none.db")
    init(str(tmp_path / "l.db"), DATASET, terms()).close()
    with pytest.raises(LedgerError):
        dpcli.budget(tmp_path / "l.db", "visit").reserve(run(), "key")


@pytest.mark.long
def test_a_window_is_charged_from_a_program(place: Place) -> None:
    """As a text or a list of texts. Without one the pipeline's own window counts, and another one is refused."""
    init(place.url, DATASET, replace(terms(), schema="", blocks={"by": "day", "column": "when", "max_blocks": 1})).close()
    books = dpcli.budget(place.url)
    days = ("2026-01-01", "2026-01-02")
    for key, window in (("a", "2026-01-01..2026-01-02"), ("b", [*days]), ("c", (days[1], days[0]))):
        with books.reserve(run(), key, window=window) as one:
            one.start()
        books.spend(run(), f"{key} spent", window=window)
    stating = replace(run(), privacy=replace(run().privacy, window=days))
    books.spend(stating, "d")
    books.spend(stating, "e", window="2026-01-01..2026-01-02")
    for window in ((), "2026-01-01", [], "2026", [""], ["2026-01-01", "x"]):
        with pytest.raises(InputError, match=r"--window: (expected|.* contradicts)"):
            books.spend(run() if window != "2026-01-01" else stating, "f", window=window)
        with pytest.raises(InputError, match=r"--window: (expected|.* contradicts)"):
            books.reserve(run() if window != "2026-01-01" else stating, "f", window=window)
    with open_ledger(place.url) as ledger:
        assert {one.window for one in ledger.state().runs.values()} == {days} and len(ledger.state().runs) == 8
        assert verify(ledger).problems == ()


def test_a_dataset_without_blocks_takes_no_window(books: dpcli.DatasetBudget) -> None:
    for ask in (books.spend, books.reserve):
        with pytest.raises(InputError, match="not cut into blocks"):
            ask(run(), "key", window="2026-01-01")
    assert spent(books) == 0

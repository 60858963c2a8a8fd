"""Tests that every store has to pass: what a ledger promises, in a file and in a database."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from decimal import Decimal
from typing import Any, cast

import pytest

from dpcli.base.errors import Denied, DpcliError, LedgerError
from dpcli.ledger.chain import StoredRow, digest, seal, time_after
from dpcli.ledger.ledger import Ledger
from dpcli.ledger.stores.places import init, open_store
from dpcli.ledger.stores.store import Store
from dpcli.ledger.verify import verify
from tests.ledger.cases import every
from tests.ledger.conftest import ON_BOTH, Database, Place
from tests.ledger.filters.setting import DATASET, TABLES, charge, run, terms
from tests.waiting import PATIENCE, until

NOW = "2030-01-01T00:00:00Z"
LATER = "2030-02-01T00:00:00Z"
LATE = "2999-01-01T00:00:00Z"
WRITERS = 4
fork = multiprocessing.get_context("fork")


def clock() -> str:
    return NOW


def opened(place: Place, dataset: str = DATASET, now: Callable[[], str] = clock) -> Ledger:
    """Another object for a ledger; `now` is its clock if the store has none of its own."""
    store = open_store(place.url)
    return Ledger(store, dataset, now=None if store.hides else now)


@pytest.fixture
def ledger(place: Place) -> Iterator[Ledger]:
    """A ledger with a cap of 1."""
    init(place.url, DATASET, terms()).store.close()
    found = opened(place)
    yield found
    found.store.close()


@contextmanager
def unchanged(ledger: Ledger) -> Iterator[None]:
    """Assert that the block writes nothing: the rows, the head and all that is computed from them are as before."""
    before = (ledger.entries(), ledger.state().head, dict(ledger.state().spent), dict(ledger.state().runs))
    yield
    assert (ledger.entries(), ledger.state().head, dict(ledger.state().spent), dict(ledger.state().runs)) == before


# Adding up.


@ON_BOTH
def test_ten_times_a_tenth_is_one_and_no_more(ledger: Ledger) -> None:
    for i in range(10):
        ledger.spend(run(0.1), f"run {i}")
    assert ledger.state().spent["epsilon"] == 1 == ledger.state().caps["epsilon"]
    with unchanged(ledger), pytest.raises(Denied, match="epsilon"):
        ledger.spend(run(1e-9), "one more")


# Writers at once.


def write(url: str, name: str, count: int, start: Any, results: Any) -> None:
    """Ask for `count` runs of 0.1, and return how many were granted and how many denied. One process calls this."""
    ledger = Ledger(open_store(url), DATASET)
    granted = denied = 0
    start.wait(PATIENCE)
    try:
        for i in range(count):
            try:
                charge(ledger, f"{name}-{i}", "0.1")
                granted += 1
            except Denied:
                denied += 1
    finally:
        results.put((granted, denied))


@pytest.mark.sampled(1)
def test_writers_reach_the_cap_exactly(place: Place, ledger: Ledger) -> None:
    start, results = fork.Barrier(WRITERS), fork.Queue()
    writers = [fork.Process(target=write, args=(place.url, f"w{i}", 6, start, results)) for i in range(WRITERS)]
    for writer in writers:
        writer.start()
    found = [results.get(timeout=PATIENCE) for _ in writers]
    for writer in writers:
        writer.join(PATIENCE)
    assert [writer.exitcode for writer in writers] == [0] * WRITERS
    assert sum(granted for granted, _ in found) == 10
    assert sum(denied for _, denied in found) == 6 * WRITERS - 10
    assert ledger.state().spent["epsilon"] == 1
    assert verify(ledger).entries == 11


def same_key(url: str, start: Any, results: Any) -> None:
    """Ask for the same run as all other processes."""
    ledger = Ledger(open_store(url), DATASET)
    start.wait(PATIENCE)
    results.put(charge(ledger, "the run", "0.6").repeated)


@pytest.mark.sampled(1)
def test_one_key_is_charged_once_by_writers_at_once(place: Place, ledger: Ledger) -> None:
    start, results = fork.Barrier(WRITERS), fork.Queue()
    writers = [fork.Process(target=same_key, args=(place.url, start, results)) for _ in range(WRITERS)]
    for writer in writers:
        writer.start()
    repeated = [results.get(timeout=PATIENCE) for _ in writers]
    for writer in writers:
        writer.join(PATIENCE)
    assert sorted(repeated) == [False] + [True] * (WRITERS - 1)
    assert len(ledger.entries()) == 2


def open_same(url: str, name: str, fingerprint: str | None, start: Any, results: Any) -> None:
    """Open a dataset, as all other processes do."""
    start.wait(PATIENCE)
    try:
        init(url, name, replace(terms(), fingerprint=fingerprint))
        results.put("opened")
    except LedgerError as error:
        results.put(str(error))


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("names", "fingerprint"), [(["same"] * 3, None), (["a", "b", "c"], "f" * 64)], ids=["name", "data"])
def test_one_of_many_opens(place: Place, ledger: Ledger, names: list[str], fingerprint: str | None) -> None:
    start, results = fork.Barrier(len(names)), fork.Queue()
    writers = [fork.Process(target=open_same, args=(place.url, name, fingerprint, start, results)) for name in names]
    for writer in writers:
        writer.start()
    found = [results.get(timeout=PATIENCE) for _ in writers]
    for writer in writers:
        writer.join(PATIENCE)
    assert found.count("opened") == 1, found
    assert len(ledger.store.datasets()) == 2


@ON_BOTH
def test_a_stale_handle_sees_what_others_wrote(place: Place, ledger: Ledger) -> None:
    stale = opened(place)
    stale.state()
    charge(ledger, "run", "0.8")
    with pytest.raises(Denied):
        charge(stale, "other", "0.3")
    assert charge(stale, "run", "0.8").repeated
    assert not charge(stale, "third", "0.2").repeated
    assert ledger.state().spent["epsilon"] == 1


@ON_BOTH
def test_reading_goes_on_while_somebody_writes(place: Place, ledger: Ledger) -> None:
    charge(ledger, "before")
    reader = opened(place)
    with ledger.store.writing(DATASET) as tail:
        assert len(reader.entries()) == 2  # whoever waited for the writer would be refused: it goes on only afterwards
        assert reader.store.datasets() == (DATASET,)
        assert len(tail.after(0)) == 2


def fail_after(ledger: Ledger, row: StoredRow) -> None:
    """Append a row, and raise an error before the commit."""
    with ledger.store.writing(DATASET) as tail:
        tail.append(row)
        assert len(tail.after(0)) == row.seq
        raise ZeroDivisionError


@ON_BOTH
def test_a_writer_that_fails_leaves_nothing(place: Place, ledger: Ledger) -> None:
    charge(ledger, "before")
    content = {"kind": "spend", "key": "lost", "pipeline": TABLES, "delta": "0.0", "cost": {"epsilon": "0.1"}, "detail": ""}
    entry = seal(ledger._with_signature(content), DATASET, ledger.state().head)
    with unchanged(ledger):
        with pytest.raises(ZeroDivisionError):
            fail_after(ledger, entry.row)
        assert len(opened(place).entries()) == 2
    charge(ledger, "after")


def append_and_wait(url: str, ready: Any) -> None:
    """Append in a transaction that never ends. One process calls this."""
    ledger = Ledger(open_store(url), DATASET)
    content = {"kind": "spend", "key": "lost", "pipeline": TABLES, "delta": "0.0", "cost": {"epsilon": "1"}, "detail": ""}
    entry = seal(ledger._with_signature(content), DATASET, ledger.state().head)
    with ledger.store.writing(DATASET) as tail:
        tail.append(entry.row)
        ready.set()
        time.sleep(600)


@ON_BOTH
def test_a_writer_killed_inside_a_transaction_leaves_nothing(place: Place, ledger: Ledger) -> None:
    ready = fork.Event()
    writer = fork.Process(target=append_and_wait, args=(place.url, ready))
    writer.start()
    assert ready.wait(PATIENCE)
    writer.kill()
    writer.join(PATIENCE)
    charge(ledger, "afterwards", "1")
    assert [entry.key for entry in ledger.entries()] == ["", "afterwards"]


# Keys.


@ON_BOTH
def test_keys_in_any_language(place: Place, ledger: Ledger) -> None:
    keys = ["Läufe", "日本 😀", 'a"b\\c', "x" * 200, "é̂"]
    for key in keys:
        charge(ledger, key, why=f"because of {key}")
    assert list(opened(place).state().runs) == keys


# Long runs.


def test_a_started_run_is_charged_for_good(ledger: Ledger) -> None:
    ledger.reserve(run(0.6), "long")
    ledger.start("long")
    with unchanged(ledger), pytest.raises(LedgerError, match="before any noise was drawn"):
        ledger.void("long", "it failed")
    ledger.commit("long")
    with unchanged(ledger):
        assert ledger.commit("long").repeated
        with pytest.raises(LedgerError):
            ledger.start("long")
        with pytest.raises(LedgerError):
            ledger.void("long", "it failed")
    assert ledger.state().spent["epsilon"] == Decimal("0.6")


@pytest.mark.long
def test_a_commit_without_a_start_needs_a_reason(ledger: Ledger) -> None:
    """Otherwise one of two holders of a reservation could end it while the other starts it."""
    for key in ("long", "other"):
        ledger.reserve(run(0.1), key)
    for why in ("", " ", "\u3164"):
        with unchanged(ledger), pytest.raises(DpcliError, match="--reason: state why"):
            ledger.commit("long", why)
    ledger.commit("long", "it ran before dpcli was installed")
    ledger.start("other")
    ledger.commit("other")
    assert [run.status for run in ledger.state().runs.values()] == ["committed", "committed"]
    assert verify(ledger).problems == ()


@pytest.mark.long
def test_a_reservation_keeps_its_first_end_and_says_so(ledger: Ledger) -> None:
    def kept(first: str | None, second: str | None) -> None:
        key = f"{first} {second}"
        assert ledger.reserve(run(0.1), key, expires=first).notes == ()
        with unchanged(ledger):
            told = ledger.reserve(run(0.1), key, expires=second).notes
        assert ledger.state().run(key).content.get("expires") == first
        assert "nothing is charged now" in told[0]
        assert [line for line in told if "keeps the --expires" in line and (first or "none") in line] == list(told[1:])
        assert len(told) == 1 + (first != second)

    every([(None, LATE), (LATE, None), (LATER, LATE), (LATE, LATE)], kept)


def test_void_needs_a_reason_and_a_run(ledger: Ledger) -> None:
    ledger.reserve(run(0.6), "long")
    with unchanged(ledger):
        with pytest.raises(DpcliError, match="--reason"):
            ledger.void("long", " ")
        with pytest.raises(LedgerError, match="which no entry has"):
            ledger.void("short", "no reason")
    ledger.void("long", "a reason")
    with unchanged(ledger):
        assert ledger.void("long", "a reason").repeated


@pytest.mark.long
def test_an_expired_reservation_counts_in_full(place: Place, ledger: Ledger) -> None:
    soon = time_after(ledger.now(), 1 / 86_400)
    ledger.reserve(run(0.6), "long", expires=soon)
    late = opened(place, now=lambda: LATER)
    assert until(lambda: late.now() >= soon)
    with unchanged(late), pytest.raises(LedgerError, match="expired"):
        late.void("long", "it never started")
    assert late.state().spent["epsilon"] == Decimal("0.6")
    late.start("long")
    late.commit("long")


# The cap, and what a ledger is opened for.


@ON_BOTH
def test_no_place_is_a_ledger_before_init(place: Place) -> None:
    if "://" in place.url:
        cast("Database", place).without_schema()
    with pytest.raises(LedgerError, match="no ledger here"):
        open_store(place.url)


@ON_BOTH
def test_a_dataset_is_opened_once(place: Place, ledger: Ledger) -> None:
    with unchanged(ledger), pytest.raises(LedgerError, match=f'expected a new dataset, found "{DATASET}"'):
        init(place.url, DATASET, terms(2.0))


# What was written stays.


@ON_BOTH
def test_rows_never_change_by_hand(place: Place, ledger: Ledger) -> None:
    charge(ledger, "run")
    for statement in (
        "UPDATE entry SET body = body",
        "UPDATE entry SET hash = 'x' WHERE seq = 2",
        "DELETE FROM entry WHERE seq = 2",
        "DELETE FROM entry",
    ):
        with unchanged(ledger), pytest.raises(Exception, match=r"never change|never removed"):
            place.by_hand(statement)


SPENT = """replace(body, '"epsilon":"0.5"', '"epsilon":"0.1"')"""


def test_a_row_that_was_changed_with_its_hash_is_found_by_the_next(place: Place, ledger: Ledger) -> None:
    charge(ledger, "first", "0.5")
    charge(ledger, "second", "0.1")
    body = ledger.entries()[1].row.body.replace('"epsilon":"0.5"', '"epsilon":"0.1"')
    place.by_force(f"UPDATE entry SET body = {SPENT}, hash = '{digest(body)}' WHERE seq = 2")
    with pytest.raises(LedgerError, match=f'dataset "{DATASET}", entry 3: does not follow the entry before it'):
        opened(place).state()


@ON_BOTH
def test_guards_that_were_taken_away_are_found(place: Place, ledger: Ledger) -> None:
    charge(ledger, "run")
    verify(opened(place))
    place.by_force("UPDATE entry SET seq = seq")
    with pytest.raises(LedgerError, match="definitions that guard the entries were changed"):
        verify(opened(place))


@ON_BOTH
def test_a_number_is_given_once(ledger: Ledger) -> None:
    charge(ledger, "run")
    row = ledger.entries()[1].row
    with unchanged(ledger), pytest.raises(LedgerError), ledger.store.writing(DATASET) as tail:
        tail.append(StoredRow(row.seq, row.body, row.hash))


@ON_BOTH
def test_stores_keep_the_protocol(place: Place, ledger: Ledger) -> None:
    store: Store = open_store(place.url)
    assert store.check() == ()
    assert store.after("nowhere", 0) == []
    assert store.schema() == ledger.store.schema() != ""
    store.close()

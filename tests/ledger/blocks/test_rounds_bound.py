"""Tests of `dpcli.rounds`: one release for each charge, one file for each key, and no client takes part more often than is paid for."""

from __future__ import annotations

import os
import random
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dpcli
from dpcli.base.errors import Denied, InputError, LedgerError
from dpcli.federated import round as round_module
from dpcli.federated.round import clip_update
from dpcli.file.toml.findings import InvalidFile
from dpcli.ledger import checkpoint
from dpcli.ledger.charges import past_runs
from dpcli.ledger.ledger import Ledger
from dpcli.ledger.stores.places import open_ledger
from tests.cases import fresh_random, of_each
from tests.federated.files import file
from tests.ledger.blocks.client_rounds import RHO, SIGMA, cap, keys, opened, spent, written
from tests.ledger.deaths_and_damage.deaths import killed
from tests.ledger.filters.families import family

COUNT = '[[mechanism]]\nname = "count"\ntype = "zcdp"\nrho = {}\n'


@pytest.fixture
def url(tmp_path: Path) -> str:
    return opened(str(tmp_path / "l.db"), 1e3)


def plan(
    folder: Path, more: str = "", table: dict[str, Any] | None = None, entry: dict[str, Any] | None = None, **privacy: Any
) -> str:
    usual = {"clip": 1.0, "mechanism": "rounds", **(table or {})}
    (folder / "fed.toml").write_text(
        file(usual, {"noise_multiplier": SIGMA, "steps": 1000, **(entry or {})}, privacy) + "\n" + more
    )
    return str(folder / "fed.toml")


def releases(acts: list[Callable[[], Any]]) -> list[Any]:
    found = []
    for act in acts:
        try:
            found.append(act())
        except InputError as refusal:
            found.extend([] if "already released" in str(refusal) else [refusal])
    return found


def test_threads_get_one_release_of_a_round(url: str, tmp_path: Path) -> None:
    run = dpcli.rounds(written(tmp_path), url, "k")
    for _ in range(3):
        one, found, start = run.round(), list[Any](), threading.Barrier(4)

        def ask(one: Any = one, found: list[Any] = found, start: threading.Barrier = start) -> None:
            start.wait()
            found.extend(releases([lambda: one.release({index: np.ones(50_000) for index in range(20)}, 50_000)]))

        with ThreadPoolExecutor(4) as threads:
            for _ in range(4):
                threads.submit(ask)
        assert len(found) == 1


class Asking:
    """An update that asks for the release itself when it is read."""

    def __init__(self, act: Callable[[], Any]) -> None:
        self.act = act

    def __array__(self, *args: Any, **named: Any) -> np.ndarray:
        self.act()
        return np.zeros(1)


def test_an_update_that_releases_leaves_one_release(url: str, tmp_path: Path) -> None:
    one, found = dpcli.rounds(written(tmp_path), url, "k").round(), list[Any]()
    found += releases([lambda: one.release({0: Asking(lambda: found.append(one.release({}, 1)))}, 1)])
    assert len(found) == 1


def test_noise_that_may_have_been_drawn_is_not_drawn_again(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, draw = dpcli.rounds(written(tmp_path), url, "k").round(), round_module.draw_noise

    def interrupted(*args: Any) -> Any:
        draw(*args)
        raise KeyboardInterrupt

    monkeypatch.setattr(round_module, "draw_noise", interrupted)
    with pytest.raises(KeyboardInterrupt):
        one.release({}, 3)
    monkeypatch.undo()
    with pytest.raises(InputError, match="already released"):
        one.release({}, 3)


def test_an_update_that_is_refused_costs_no_release(url: str, tmp_path: Path) -> None:
    one = dpcli.rounds(written(tmp_path), url, "k").round()
    with pytest.raises(InputError, match="expected an array of 3 numbers"):
        one.release({0: [1.0]}, 3)
    assert one.release({}, 3).shape == (3,)


NO_CLIENTS = [
    None,
    (1,),
    (1, 1),
    True,
    np.True_,
    1.0,
    np.float64(1),
    "1",
    b"1",
    frozenset(),
    -1,
    100,
    10**30,
    2**256,
    10**5000,
    -(10**5000),
]


def brief(value: object) -> str:
    return f"{value.bit_length()} bits" if isinstance(value, int) else repr(value)[:20]


DRAWN = {"sampling": "poisson", "max_participations": 9, "rounds": 10_000, "clients_per_round": 50}


@pytest.mark.long
@of_each("client, table", [(client, table) for client in NO_CLIENTS for table in ({}, DRAWN)], lambda of: (brief(of[0]), of[1]))
def test_clients_are_plain_numbers(client: Any, table: dict[str, Any], url: str, tmp_path: Path) -> None:
    one = dpcli.rounds(written(tmp_path, table), url, tmp_path.name).round()
    if table and type(client) is int and 100 <= client < 2**256:  # the server draws, and knows its clients' numbers
        return
    with pytest.raises(
        InputError, match=r"^round 1: expected (whole numbers of clients|updates of clients that were drawn)"
    ) as refusal:
        one.release({client: [1.0]}, 1)
    assert "alice" not in str(refusal.value)
    assert one.release({np.int64(1): [0.0], 2: [0.0]}, 1).shape == (1,)


def test_a_client_sends_one_update(url: str, tmp_path: Path) -> None:
    class Twice(dict[Any, Any]):
        def items(self) -> Any:
            return [(1, [1.0]), (np.int64(1), [1.0])]

    one = dpcli.rounds(written(tmp_path), url, "k").round()
    with pytest.raises(InputError, match=r"^round 1: expected at most one update of each client, found two of client 1$"):
        one.release(Twice(), 1)


SECRET = "a secret word"
NO_UPDATES: list[Any] = [
    SECRET,
    [SECRET],
    [10**400],
    [1 + 2j],
    np.array([1 + 2j]),
    None,
    [None],
    [[1], [1, 2]],
    [[1.0]],
    [],
    1.0,
    {SECRET: 1.0},
    np.array(["2026-01-01"], "datetime64[D]"),
    np.array([1], "timedelta64[s]"),
    np.array([(1.0,)], [(SECRET, float)]),
]


@of_each("update", NO_UPDATES, lambda update: repr(update)[:20])
def test_what_is_no_update_is_refused_and_not_quoted(update: Any, url: str, tmp_path: Path) -> None:
    one = dpcli.rounds(written(tmp_path), url, tmp_path.name).round()
    with pytest.raises(InputError, match=r"^update of client 3: expected an array of 1 numbers, found ") as refusal:
        one.release({3: update}, 1)
    assert SECRET not in str(refusal.value) and refusal.value.__context__ is None
    assert one.release({3: np.array([1.0], np.float16), 4: [True], 5: np.ma.array([2], mask=[1])}, 1).shape == (1,)


@of_each("update", [[1e-320, 1.0], [1e-200, 1e-200], [1e308, 1e308], [float("inf"), 1.0], [5e-324, 5e-324], "huge"])
def test_numpy_says_nothing_of_an_update(update: Any, url: str, tmp_path: Path) -> None:
    """Neither floating-point errors raised by the caller's settings nor warnings reveal anything about an update."""
    sent = np.array([1e300, 1.0], np.longdouble) * np.longdouble(1e300) if update == "huge" else update
    run = dpcli.rounds(written(tmp_path), url, tmp_path.name)
    with np.errstate(all="raise"):
        assert run.round().release({3: sent}, 2).shape == (2,)


@of_each("size", [-1, 1.0, True, "1", None, 10**13, 10**5000, (1,), float("nan"), SECRET], brief)
def test_a_size_is_a_plain_number(size: Any, url: str, tmp_path: Path) -> None:
    one = dpcli.rounds(written(tmp_path), url, tmp_path.name).round()
    with pytest.raises(InputError, match=r"^round 1: expected a size from 0 to ") as refusal:
        one.release({}, size)
    assert SECRET not in str(refusal.value)
    for updates in ([], [(1, [1.0])], None, 3):
        with pytest.raises(InputError, match=r"^round 1: expected updates by client numbers, found"):
            one.release(updates, 1)  # type: ignore[arg-type]
    assert one.release({}, np.int64(2)).shape == (2,)  # type: ignore[arg-type]


def test_a_run_has_a_name(url: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"^key: expected a name for this run, found an empty text$"):
        dpcli.rounds(written(tmp_path), url, "")


CHANGES: list[tuple[str, dict[str, Any]]] = [
    ("noise", {"entry": {"noise_multiplier": 5 * SIGMA}}),
    ("name", {"entry": {"name": "turns"}, "table": {"mechanism": "turns"}}),
    (
        "more sampling",
        {"table": {"sampling": "cyclic", "clients_per_round": 50}, "entry": {"sampling": {"scheme": "cyclic", "rate": 0.5}}},
    ),
    ("size", {"dataset_size": 99}),
    ("delta", {"delta": 1e-7}),
    ("rest dearer", {"more": COUNT.format(0.5)}),
    ("rest gone", {"more": ""}),
    ("rest added", {"more": COUNT.format(0.005) + COUNT.format(0.1).replace("count", "mean")}),
]


@pytest.mark.long
@of_each("what, change, chunk", [(*change, chunk) for change in CHANGES for chunk in (1, 2)])
def test_a_key_is_of_one_file(what: str, change: dict[str, Any], chunk: int, tmp_path: Path) -> None:
    url = opened(str(tmp_path / "l.db"), 1e3)
    first = dpcli.rounds(plan(tmp_path, COUNT.format(0.005)), url, "k")
    for _ in range(2):
        first.round()
    before = spent(url)
    path = plan(tmp_path, **{"more": COUNT.format(0.005), **change})
    with pytest.raises(
        LedgerError, match=r'^key "k": expected charges of .*fed.toml as it is now, found entry \d+ .*needs a key of its own$'
    ):
        dpcli.rounds(path, url, "k", chunk=chunk * (2 if what == "more sampling" else 1))
    assert spent(url) == before
    dpcli.rounds(path, url, "k2").round()
    assert spent(url) > before


def test_two_files_that_begin_under_one_key_at_once_both_pay(url: str, tmp_path: Path) -> None:
    """Both start before either charged. The second is refused at its first charge."""
    runs = []
    for number, rho in enumerate((0.005, 0.5)):
        (tmp_path / str(number)).mkdir()
        runs.append(dpcli.rounds(plan(tmp_path / str(number), COUNT.format(rho)), url, "k", chunk=1 + number))
    runs[0].round()
    with pytest.raises(LedgerError, match="needs a key of its own"):
        runs[1].round()
    assert spent(url) == pytest.approx(0.005 + RHO)


def test_another_window_needs_another_key(tmp_path: Path) -> None:
    url = opened(str(tmp_path / "weeks.db"), 1e3, blocks=family("week"))
    amounts: dict[str, float] = {}
    for week in ("2026-W01", "2026-W02"):
        noisy = '[[mechanism]]\nname = "count"\ntype = "gaussian"\nnoise_multiplier = 10.0\n'
        path = plan(tmp_path, noisy, window=[week])
        if amounts:
            with pytest.raises(LedgerError, match=r'^key "k": expected charges'):
                dpcli.rounds(path, url, "k")
        run = dpcli.rounds(path, url, "k" if not amounts else "k2")
        for _ in range(3):
            run.round()
        with open_ledger(url) as ledger:
            amounts = {name: float(value) for name, value in ledger.state().spent.items()}
        assert [value for name, value in amounts.items() if name.endswith(week)] == [pytest.approx(0.005 + 3 * RHO)]


def test_on_blocks_a_blank_adds_nothing(tmp_path: Path) -> None:
    """A blanked client may move to another block, so a mechanism that counts blanks is not accepted on blocks."""
    url = opened(str(tmp_path / "weeks.db"), 1e3, blocks=family("week"))
    with pytest.raises(InputError, match="may move between blocks"):
        dpcli.rounds(plan(tmp_path, COUNT.format(0.005), window=["2026-W01"]), url, "k").round()
    assert keys(url) == []


def test_the_rest_of_a_file_is_charged_with_its_first_round_or_not_at_all(url: str, tmp_path: Path) -> None:
    small = opened(str(tmp_path / "small.db"), 1.0)
    run = dpcli.rounds(plan(tmp_path, COUNT.format(cap(small) - RHO / 2)), small, "k")
    with pytest.raises(Denied, match=r"^round 1: denied, and nothing was written: fed: the run costs"):
        run.round()
    assert keys(small) == [] and spent(small) == 0
    again = dpcli.rounds(plan(tmp_path, COUNT.format(cap(small) - 1.001 * RHO)), small, "k")
    again.round()
    assert keys(small) == ["k/beside", "k/round-000001"]


def headline(folder: Path, steps: int, more: str = "") -> float:
    return dpcli.account(dpcli.load(plan(folder, more, entry={"steps": steps}))).upper


def test_what_was_charged_is_read_from_the_ledger(url: str, tmp_path: Path) -> None:
    """All charges under the key count, whichever object, chunk size or fork made them."""
    path = plan(tmp_path)
    a, b = dpcli.rounds(path, url, "k", chunk=10), dpcli.rounds(path, url, "k")
    due = 0
    for run, taken, paid in ((a, 25, 30), (b, 3, 3), (a, 1, 0), (dpcli.rounds(path, url, "k", done=29, chunk=4), 5, 8)):
        for _ in range(taken):
            run.round()
        due += paid
        assert {one.charged for one in (a, b, run)} == {due}
    assert not killed(a.round)
    due += 10
    assert a.charged == b.charged == due
    with open_ledger(url) as ledger:  # a gap in the numbers, by a process that failed
        ledger.spend(a.plan.charge(1, with_rest=False), "k/round-000064")
    assert dpcli.rounds(path, url, "k").charged == due + 1
    assert dpcli.rounds(path, url, "k").round().key == "k/round-000065"
    assert a.charged == b.charged == due + 2
    found = {a.epsilon(), b.epsilon()}
    assert found == {headline(tmp_path, due + 2)}


def test_entries_of_other_keys_are_not_read(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint, "EVERY", 4)
    path, seen = plan(tmp_path), list[str]()
    run, other = dpcli.rounds(path, url, "k"), dpcli.rounds(path, url, "k2")
    for _ in range(5):
        run.round()
    for _ in range(20):
        other.round()
    single_entry = past_runs.single_entry
    monkeypatch.setattr(
        past_runs, "single_entry", lambda row, dataset: seen.append(single_entry(row, dataset).key) or single_entry(row, dataset)
    )
    asked: list[tuple[Callable[[], Any], int]] = [
        (lambda: run.charged, 5),
        (lambda: dpcli.rounds(path, url, "k").charged, 5),
        (lambda: dpcli.rounds(path, url, "K").charged, 0),
    ]
    for ask, due in asked:
        assert ask() == due
    assert {key for key in seen if key.startswith("k/")} == {f"k/round-{number:06d}" for number in range(1, 6)}
    assert len({key for key in seen if key.startswith("k2/")}) == 1  # that at the checkpoint


def test_charges_that_somebody_else_wrote_under_the_key_are_refused(url: str, tmp_path: Path) -> None:
    run = dpcli.rounds(plan(tmp_path), url, "k")
    run.round()
    with open_ledger(url) as ledger:
        (tmp_path / "other").mkdir()
        ledger.spend(dpcli.load(plan(tmp_path / "other", entry={"noise_multiplier": 1.0, "steps": 7})), "k/charge-000003")
    for ask in (run.epsilon, lambda: run.charged, lambda: dpcli.rounds(plan(tmp_path), url, "k")):
        with pytest.raises(LedgerError, match=r'found entry 3 \("k/charge-000003"\)'):
            ask()


LIMITED = {"sampling": "poisson", "rounds": 1000, "clients_per_round": 10}


def limited(tmp_path: Path, most: int | None = None, apart: int | None = None, steps: int = 1000) -> str:
    table = {**LIMITED, "max_participations": most, "min_separation": apart}
    return plan(tmp_path, table={key: value for key, value in table.items() if value is not None}, entry={"steps": steps})


def test_a_client_takes_part_as_often_as_is_charged(url: str, tmp_path: Path) -> None:
    run = dpcli.rounds(limited(tmp_path, most=3, steps=3), url, "k")
    for _ in range(3):
        run.round().release({7: [1.0]}, 1)
    one = run.round()
    with pytest.raises(InputError, match=r"^round 4: expected clients that took part in fewer than 3 rounds, found client 7$"):
        one.release({8: [1.0], 7: [1.0]}, 1)
    one.release({8: [1.0]}, 1)  # nobody was counted, and no noise was drawn
    for _ in range(2):
        run.round().release({8: [1.0]}, 1)
    with pytest.raises(InputError, match=r"found client 8$"):
        run.round().release({8: [1.0]}, 1)


def test_a_client_takes_part_as_far_apart_as_is_charged(url: str, tmp_path: Path) -> None:
    run = dpcli.rounds(limited(tmp_path, apart=5, steps=200), url, "k")
    turns = [run.round() for _ in range(8)]
    turns[4].release({7: [1.0]}, 1)  # in whatever order they end
    for index in (0, 3, 5, 7):
        with pytest.raises(
            InputError, match=f"^round {index + 1}: expected clients that take part at least 5 rounds apart, found client 7"
        ):
            turns[index].release({7: [1.0]}, 1)
    [run.round() for _ in range(2)][-1].release({7: [1.0]}, 1)


def test_passes_of_a_server_that_limits_more_are_counted(url: str, tmp_path: Path) -> None:
    """The price is by passes, so a client that takes part twice in one pass is refused."""
    table = {"sampling": "cyclic", "clients_per_round": 25, "rounds": 12, "min_separation": 2}
    run = dpcli.rounds(plan(tmp_path, table=table, entry={"steps": 3}), url, "k")
    turns = [run.round() for _ in range(4)]
    turns[0].release({7: [1.0]}, 1)
    with pytest.raises(InputError, match="at least 4 rounds apart"):
        turns[2].release({7: [1.0]}, 1)


def test_a_client_is_once_in_a_pass_that_is_shuffled(url: str, tmp_path: Path) -> None:
    """It may be in adjacent rounds of two passes, but only once the second pass is paid for."""
    table = {"sampling": "shuffle", "clients_per_round": 25, "rounds": 12, "max_participations": 3}
    run = dpcli.rounds(
        plan(tmp_path, table=table, entry={"steps": 12, "sampling": {"scheme": "shuffle", "batch_size": 25}}), url, "k"
    )
    turns = [run.round() for _ in range(4)]
    turns[3].release({7: [1.0]}, 1)
    with pytest.raises(
        InputError,
        match=r"^round 2: expected clients that take part at most once in each of the 1 paid passes, found client 7, who took "
        "part in round 4$",
    ):
        turns[1].release({7: [1.0]}, 1)
    run.round().release({7: [1.0]}, 1)


def passes(scheme: str) -> dict[str, Any]:
    return {"steps": 12, "sampling": {"scheme": scheme, "batch_size": 25}}


# [federated] that limits how often a client takes part, and the entry of it
KEPT: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"sampling": "poisson", "max_participations": 3}, {"steps": 3}),
    ({"sampling": "poisson", "max_participations": 4, "min_separation": 2}, {"steps": 4}),
    ({"sampling": "none", "min_separation": 1}, {"steps": 12}),
    ({"sampling": "fixed-size", "min_separation": 5}, {"steps": 3}),
    ({"sampling": "cyclic", "min_separation": 2}, {"steps": 3}),
    ({"sampling": "shuffle", "max_participations": 2}, {"steps": 2}),
    ({"sampling": "shuffle", "max_participations": 3}, passes("shuffle")),
    ({"sampling": "shuffle", "min_separation": 2}, passes("shuffle")),
    ({"sampling": "cyclic", "max_participations": 2}, passes("cyclic")),
]


@pytest.mark.long
@pytest.mark.sampled(0, 2)
@pytest.mark.parametrize(("table", "entry"), KEPT)
def test_no_client_takes_part_more_often_than_was_paid_for(table: dict[str, Any], entry: dict[str, Any], tmp_path: Path) -> None:
    """A server uses one client whenever it is accepted: its releases never cost more than was charged so far."""
    seed = fresh_random().randrange(2**32)
    for number in range(3):
        draw = random.Random(f"{seed} {number}")
        url = opened(str(tmp_path / f"{number}.db"), 1.0 if number else 0.25)
        path = plan(tmp_path, table={"rounds": 12, "clients_per_round": 25, **table}, entry=entry)
        size = dpcli.rounds(path, url, "k").plan.portion
        runs = [dpcli.rounds(path, url, "k", chunk=size * draw.choice([1, 2]), done=draw.choice([0, 3])) for _ in range(3)]
        waiting, refused, released = list[dpcli.Round](), list[str](), 0
        for _ in range(60):
            if draw.random() < 0.5:
                try:
                    waiting.append(draw.choice(runs).round())
                except (Denied, InputError):
                    runs.append(dpcli.rounds(path, url, "k", done=draw.choice([0, 8])))
            elif waiting:
                try:
                    waiting.pop(draw.randrange(len(waiting))).release({7: [1.0]}, 1)
                    released += 1
                except InputError as refusal:
                    refused.append(str(refusal))
            assert released * RHO <= spent(url) * (1 + 1e-9), (seed, number, released)
        assert released > 0 and all("expected clients that t" in words for words in refused)


@pytest.mark.parametrize("chunk", [1, 2])
def test_each_process_counts_and_pays_for_its_own_rounds(chunk: int, url: str, tmp_path: Path) -> None:
    path = limited(tmp_path, most=2, steps=2)
    for done, due in ((0, 2), (5, 4), (999, 5)):
        run = dpcli.rounds(path, url, "k", done=done, chunk=chunk)
        turns = [run.round() for _ in range(min(4, 1000 - done))]
        for turn in turns[:2]:
            turn.release({7: [1.0]}, 1)
        for turn in turns[2:]:
            with pytest.raises(InputError, match=r"fewer than 2 rounds, found client 7$"):
                turn.release({7: [1.0]}, 1)
            turn.release({8: [1.0]}, 1)
        assert run.charged == due


def test_a_fork_counts_and_pays_for_its_own_rounds(url: str, tmp_path: Path) -> None:
    run = dpcli.rounds(limited(tmp_path, most=1, steps=1), url, "k")
    turn = run.round()
    run.round().release({7: [1.0]}, 1)

    def child() -> None:
        run.round().release({7: [1.0]}, 1)
        try:
            turn.release({8: [1.0]}, 1)
        except InputError:
            os._exit(run.charged)

    assert exit_code(child) == 2
    turn.release({8: [1.0]}, 1)
    with pytest.raises(InputError, match=r"found client 7$"):
        run.round().release({7: [1.0]}, 1)


@pytest.mark.parametrize("generations", [1, 2])
def test_a_fork_that_has_the_number_of_its_parent_is_another_process(generations: int, url: str, tmp_path: Path) -> None:
    """Process numbers are reused, and repeat in other PID namespaces."""
    run, number = dpcli.rounds(limited(tmp_path, most=1, steps=1), url, "k"), os.getpid()
    turn = run.round()
    run.round().release({7: [1.0]}, 1)

    def child() -> None:
        os.getpid = lambda: number
        with pytest.raises(InputError, match="already released"):
            turn.release({8: [1.0]}, 1)
        run.round().release({7: [1.0]}, 1)
        os._exit(run.charged)

    def within() -> None:
        os._exit(exit_code(child))

    assert exit_code(child if generations == 1 else within) == 2
    turn.release({8: [1.0]}, 1)


def test_a_fork_that_could_not_begin_begins_again(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It forgets the counts of its parent, and reads the charges under its key."""
    run = dpcli.rounds(limited(tmp_path, most=1, steps=1), url, "k")
    run.round().release({7: [1.0]}, 1)
    rounds_of: Any = sys.modules[dpcli.Rounds.__module__]
    ask, found = rounds_of.charges_of_run, list[str]()

    def once(*given: Any) -> Any:
        found.append("asked")
        if len(found) == 1:
            raise LedgerError("locked")
        return ask(*given)

    def child() -> None:
        monkeypatch.setattr(rounds_of, "charges_of_run", once)
        with pytest.raises(LedgerError, match="locked"):
            run.round()
        run.round().release({7: [1.0]}, 1)
        os._exit(len(found))

    assert exit_code(child) == 2


def exit_code(act: Callable[[], None]) -> int:
    child = os.fork()
    if child == 0:
        try:
            act()
        finally:
            os._exit(99)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_fork_within_a_round_of_another_thread_is_refused_and_does_not_wait(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, inside, go_on, spend = dpcli.rounds(written(tmp_path), url, "k"), threading.Event(), threading.Event(), Ledger.spend

    def slow(self: Ledger, *args: Any, **named: Any) -> Any:
        inside.set()
        go_on.wait(60)
        return spend(self, *args, **named)

    monkeypatch.setattr(Ledger, "spend", slow)
    thread = threading.Thread(target=run.round)
    thread.start()
    inside.wait(60)

    def child() -> None:
        try:
            run.round()
        except InputError as refusal:
            os._exit(0 if "forked while a round was charged" in str(refusal) else 1)

    child_code = exit_code(child)
    go_on.set()
    thread.join()
    assert child_code == 0 and run.round().number == 2


SIZES = (1e-320, 1e-200, 1e-170, 1e-12, 1.0, 1e100, 1e200, 1.7e308)


@of_each("clip, size", [(clip, size) for clip in (1e-8, 1e-3, 1.0, 1e12) for size in SIZES])
def test_a_norm_is_kept_whatever_its_square(clip: float, size: float) -> None:
    for update in (np.full(4, size), np.array([size, 0.0, -size, 1e-300]), np.array([1e-160] * 3 + [size])):
        got = clip_update(update, clip)
        exact = [Fraction(x) for x in got.tolist()]
        assert sum(x * x for x in exact) <= Fraction(clip) ** 2 * (1 + Fraction(1, 10**14))
        if sum(Fraction(x) ** 2 for x in update.tolist()) <= Fraction(clip) ** 2:
            assert got == pytest.approx(update, rel=1e-14, abs=0)
        else:
            assert np.linalg.norm(got) == pytest.approx(clip)


@of_each("clip", [1e-300, 9e-9, 1.1e12, 1e308])
def test_norms_that_cannot_be_measured_are_refused(clip: float, tmp_path: Path, url: str) -> None:
    with pytest.raises(InvalidFile, match=r"federated\.clip: expected a number from 1e-08 to 1e"):
        dpcli.rounds(written(tmp_path, {"clip": clip}), url, "k")

"""Tests of `dpcli.rounds`: each round has a charge of its own, the cap holds, and killed processes get no round for nothing."""

from __future__ import annotations

import copy
import math
import os
import pickle
import re
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dpcli
from dpcli.base.errors import Denied, InputError, InternalError, LedgerError
from dpcli.federated import round as federated_round
from dpcli.federated import rounds as module
from dpcli.ledger.ledger import Ledger
from dpcli.ledger.stores.places import open_ledger, open_store
from dpcli.random.streams import grid_of
from tests.cases import fresh_random, of_each
from tests.federated.files import file
from tests.ledger.blocks.client_rounds import DATASET, RHO, SIGMA, cap, keys, opened, spent, written
from tests.ledger.conftest import Place
from tests.ledger.deaths_and_damage.deaths import Deadly, killed
from tests.ledger.spenders import lines, started


@pytest.mark.long
def test_a_run_stops_before_the_round_that_would_pass_the_cap(place: Place, tmp_path: Path) -> None:
    url = opened(place.url)
    run, most = dpcli.rounds(written(tmp_path), url, "spring"), math.floor(cap(place.url) / RHO)
    taken = []

    def go_on() -> None:
        with open_ledger(url, DATASET) as ledger:
            for one in run:
                taken.append(one.key.rpartition("//")[2])
                assert float(ledger.state().spent["rho"]) == pytest.approx(len(taken) * RHO, rel=1e-9)  # before its noise

    with pytest.raises(Denied, match=rf"^round {most + 1}: denied, and nothing was written: fed: the run costs 0\.00125"):
        go_on()
    assert taken == keys(url) == [f"spring/round-{number:06d}" for number in range(1, most + 1)]
    assert spent(url) <= cap(url) < spent(url) + RHO
    with pytest.raises(Denied):
        run.round()
    assert len(keys(url)) == most and run.charged == run.taken == most
    # A run that was planned so: one Gaussian; its epsilon is below the cap, which rests on rho.
    assert 0 < run.epsilon() <= 1.0


@pytest.mark.sampled(1)
def test_the_rounds_of_a_plan_cost_what_the_whole_plan_costs(place: Place, tmp_path: Path) -> None:
    """Entries of each kind: at every round the charges cover what was released, and at the end they equal the plan."""
    plans: list[tuple[dict[str, Any], dict[str, Any], int]] = [
        ({}, {"steps": 12}, 1),
        ({"sampling": "cyclic", "clients_per_round": 25}, {"steps": 12, "sampling": {"scheme": "cyclic", "batch_size": 25}}, 4),
        ({"sampling": "shuffle", "clients_per_round": 30}, {"steps": 12, "sampling": {"scheme": "shuffle", "batch_size": 30}}, 3),
        ({"sampling": "poisson", "rounds": 12, "max_participations": 5}, {"steps": 5}, 1),
        (
            {"sampling": "cyclic", "clients_per_round": 25},
            {"type": "tree-aggregation", "steps": 3, "iterations": 4, "max_participations": 1, "min_separation": 4},
            4,
        ),
    ]
    url, before = opened(place.url, epsilon=20.0), 0.0
    for number, (table, entry, portion) in enumerate(plans):
        path = written(tmp_path, table, entry)
        with open_ledger(url, DATASET) as ledger:
            whole = float(ledger.cost(dpcli.load(path))[0].amounts["rho"])
            run = dpcli.rounds(path, url, f"plan {number}")
            for taken, _ in enumerate(run, start=1):
                due, now = min(-(-taken // portion), entry["steps"]), float(ledger.state().spent["rho"])
                assert now - before == pytest.approx(
                    whole * due * portion / (entry["steps"] * (4 if "type" in entry else 1)), rel=1e-8
                ) or ("max_participations" in table and now - before == pytest.approx(whole * min(taken, 5) / 5, rel=1e-8))
        assert taken == 12 and spent(url) - before == pytest.approx(whole, rel=1e-8)
        with pytest.raises(InputError, match="expected at most 12 rounds, as planned, found one more"):
            run.round()
        before = spent(url)


@pytest.mark.long
def test_sampled_rounds_add_up_in_renyi_divergence(place: Place, tmp_path: Path) -> None:
    url = opened(place.url, 8.0, "add-remove", "rdp", parameters={"order": 4.0})
    poisson = {"scheme": "poisson", "rate": 0.1}
    path = written(
        tmp_path,
        {"sampling": "poisson", "clients_per_round": 10},
        {"noise_multiplier": 1.0, "steps": 20, "sampling": poisson},
        adjacency="add-remove",
    )
    for _ in dpcli.rounds(path, url, "k", chunk=7):
        pass
    # Mironov, Talwar, Zhang 2019, at a whole order: the binomial sum.
    a, q = 4, 0.1
    one = math.log(sum(math.comb(a, k) * (1 - q) ** (a - k) * q**k * math.exp((k * k - k) / 2) for k in range(a + 1))) / (a - 1)
    with open_ledger(url, DATASET) as ledger:
        (total,) = [float(value) for name, value in ledger.state().spent.items() if name != "delta"]
    assert total == pytest.approx(20 * one, rel=1e-6) and total >= 20 * one * (1 - 1e-12)
    assert keys(url) == ["k/charge-000001", "k/charge-000002", "k/charge-000003"]


def test_what_else_the_file_releases_is_charged_with_the_first_round(place: Place, tmp_path: Path) -> None:
    url, path = opened(place.url), written(tmp_path, {"mechanism": "rounds"})
    Path(path).write_text(Path(path).read_text() + '[[mechanism]]\nname = "count"\ntype = "zcdp"\nrho = 0.005\n')
    for _ in range(2):
        dpcli.rounds(path, url, "k").round()
    assert spent(url) == pytest.approx(0.005 + 2 * RHO)


def work(url: str, path: str, folder: Path, name: str) -> None:
    """Go on with the run until denied; a note, synced, for each round whose noise may have been drawn, and one at the end."""
    run = dpcli.rounds(path, url, "night")
    noted = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    while True:
        try:
            one = run.round()
        except Denied:
            os.write(noted, b"denied\n")
            os.fsync(noted)
            return
        os.write(noted, f"{one.key.rpartition('//')[2]}\n".encode())
        os.fsync(noted)


def is_alive(child: int) -> bool:
    return os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None


@pytest.mark.sampled(0, 1)
def test_no_kill_gives_a_round_for_nothing(place: Place, tmp_path: Path) -> None:
    """Two servers under one key are killed and restarted: each recorded round has its own charge, up to the cap."""
    url, path, deaths = opened(place.url, epsilon=1.5), written(tmp_path), 0
    most, patience = math.floor(cap(url) / RHO), fresh_random()
    children: dict[str, int] = {}
    while not all("denied" in lines(tmp_path / name) for name in ("a", "b")):
        for name in ("a", "b"):
            if name not in children and "denied" not in lines(tmp_path / name):
                children[name] = started(lambda name=name: work(url, path, tmp_path, name))  # type: ignore[misc]
        victim, noted = patience.choice([*children]), 0
        enough = len(lines(tmp_path / victim)) + patience.randrange(1, 4)
        while noted < enough and "denied" not in lines(tmp_path / victim) and is_alive(children[victim]):
            time.sleep(patience.uniform(0.0, 0.001))
            noted = len(lines(tmp_path / victim))
        with suppress(ProcessLookupError):
            os.kill(children[victim], signal.SIGKILL)
        _, status = os.waitpid(children.pop(victim), 0)
        deaths += os.WIFSIGNALED(status)
        assert os.waitstatus_to_exitcode(status) in (0, -signal.SIGKILL)
    for child in children.values():
        os.waitpid(child, 0)
    drawn = [line for name in ("a", "b") for line in lines(tmp_path / name) if line != "denied"]
    assert len(set(drawn)) == len(drawn)  # no charge pays for two rounds
    assert set(drawn) <= set(keys(url)) and len(keys(url)) == most
    assert spent(url) == pytest.approx(most * RHO, rel=1e-9) and spent(url) <= cap(url)
    assert deaths >= 1


@pytest.fixture
def books(place: Place) -> str:
    return opened(place.url)


@pytest.mark.sampled(1)
@of_each("point, charges", [("locked", 1), ("written", 1), ("about to commit", 1), ("committed", 2)])
def test_what_is_charged_after_death_at(point: str, charges: int, books: str, tmp_path: Path) -> None:
    """A charged round whose noise may have been drawn stays charged, and the next process pays again to repeat it."""
    path, before = written(tmp_path), spent(books)
    dpcli.rounds(path, books, point).round()

    def dies() -> None:
        run = dpcli.rounds(path, books, point, done=1)
        run._open = lambda: Ledger(Deadly(open_store(books), point), DATASET)  # type: ignore[method-assign]
        run.round()

    assert killed(dies)
    assert len([key for key in keys(books) if key.startswith(f"{point}/")]) == charges
    run = dpcli.rounds(path, books, point, done=1)
    assert run.charged == charges
    again = run.round()
    assert (again.number, again.key.rpartition("//")[2]) == (2, f"{point}/round-{charges + 1:06d}")
    assert spent(books) - before == pytest.approx((charges + 1) * RHO)


def test_a_charge_whose_reply_was_lost_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the reply to a charge is lost, the next attempt makes another charge."""
    url, lost = opened(str(tmp_path / "l.db")), [True]
    spend = Ledger.spend

    def unheard(self: Ledger, *args: Any, **named: Any) -> Any:
        found = spend(self, *args, **named)
        if lost.pop() if lost else False:
            raise LedgerError("the server went away")
        return found

    monkeypatch.setattr(Ledger, "spend", unheard)
    run = dpcli.rounds(written(tmp_path), url, "k")
    with pytest.raises(LedgerError):
        run.round()
    assert run.taken == 0
    assert run.round().key == "k/round-000002" and len(keys(url)) == 2


def test_threads_share_a_run(tmp_path: Path) -> None:
    url, taken = opened(str(tmp_path / "l.db"), 5.0), []
    run = dpcli.rounds(written(tmp_path), url, "k", chunk=3)
    with ThreadPoolExecutor(4) as threads:
        for _ in range(4):
            threads.submit(lambda: taken.extend(run.round().number for _ in range(6)))
    assert sorted(taken) == list(range(1, 25)) and len(keys(url)) == 8


@of_each("copied", [copy.copy, copy.deepcopy, pickle.dumps])
def test_nothing_that_was_paid_for_is_copied(copied: Callable[[Any], Any], tmp_path: Path) -> None:
    run = dpcli.rounds(written(tmp_path), opened(str(tmp_path / "l.db")), "k", chunk=3)
    for one in (run, run.round()):
        with pytest.raises(InternalError, match="cannot be copied"):
            copied(one)


def of(tmp_path: Path, **more: Any) -> dpcli.Rounds:
    return dpcli.rounds(written(tmp_path), str(tmp_path / "l.db"), "k", **more)


@of_each(
    "more, words",
    [
        ({"chunk": 0}, "chunk: expected a whole number of at least 1, found 0"),
        ({"chunk": 1.0}, "chunk: expected a whole number of at least 1, found 1.0"),
        ({"done": -1}, "done: expected a whole number of at least 0, found -1"),
        ({"done": 10_001}, "done: expected at most 10,000 rounds, as planned, found 10001"),
        ({"clients": True}, "clients: expected a whole number of at least 0, found True"),
        *(
            ({name: 10**5000}, f"{name}: expected a whole number of at most 64 bits, found a larger number")
            for name in ("chunk", "done", "clients")
        ),
        ({"dataset": 7}, "dataset: expected a text, found 7"),
    ],
)
def test_invalid_arguments_are_refused(more: dict[str, Any], words: str, tmp_path: Path) -> None:
    opened(str(tmp_path / "l.db"))
    with pytest.raises(InputError, match=f"^{re.escape(words)}$"):
        of(tmp_path, **more)


def test_a_file_that_says_nothing_of_clients_is_refused(tmp_path: Path) -> None:
    (tmp_path / "plain.toml").write_text(file(None))
    with pytest.raises(
        InputError, match=r"federated: expected a \[federated\] table, which describes the server and its clients, found none"
    ):
        dpcli.rounds(tmp_path / "plain.toml", opened(str(tmp_path / "l.db")), "k")


def test_a_pass_is_charged_whole(tmp_path: Path) -> None:
    opened(str(tmp_path / "l.db"))
    path = written(
        tmp_path, {"sampling": "cyclic", "clients_per_round": 25}, {"steps": 12, "sampling": {"scheme": "cyclic", "batch_size": 25}}
    )
    with pytest.raises(
        InputError, match=r"^chunk: expected a multiple of 4, the number of rounds that one charge pays for, found 6$"
    ):
        dpcli.rounds(path, str(tmp_path / "l.db"), "k", chunk=6)


def drawn(run: dpcli.Rounds, rounds: int) -> Iterator[list[int]]:
    for _ in range(rounds):
        yield [int(client) for client in run.round().clients]


def test_clients_are_drawn_as_is_charged(tmp_path: Path) -> None:
    opened(str(tmp_path / "l.db"), 1e3)
    poisson = written(tmp_path, {"sampling": "poisson", "clients_per_round": 20})
    sizes = [len(one) for one in drawn(dpcli.rounds(poisson, str(tmp_path / "l.db"), "p", chunk=2000), 2000)]
    assert (
        abs(np.mean(sizes) - 20.0) < 5 * 4 / math.sqrt(2000) and abs(np.var(sizes) - 16.0) < 3.0
    )  # five standard errors of Binomial(100, 1/5)
    fixed = written(tmp_path, {"sampling": "fixed-size", "clients_per_round": 20})
    assert {len(set(one)) for one in drawn(dpcli.rounds(fixed, str(tmp_path / "l.db"), "f", chunk=50), 50)} == {20}
    cyclic = written(
        tmp_path, {"sampling": "cyclic", "clients_per_round": 20}, {"sampling": {"scheme": "cyclic", "batch_size": 20}}
    )
    turns = [*drawn(dpcli.rounds(cyclic, str(tmp_path / "l.db"), "c"), 10)]
    assert turns[:5] == turns[5:] and sorted(client for one in turns[:5] for client in one) == list(range(100))
    fewer = dpcli.rounds(poisson, str(tmp_path / "l.db"), "q", clients=3)
    assert {client for one in drawn(fewer, 30) for client in one} <= {0, 1, 2}
    own = written(tmp_path, {"sampling": "poisson", "max_participations": 9, "rounds": 10_000})
    with pytest.raises(
        InputError, match="expected clients that the server draws itself, found max_participations, which the server enforces"
    ):
        dpcli.rounds(own, str(tmp_path / "l.db"), "o").round().clients  # noqa: B018


HOSTILE = [
    [math.nan] * 3,
    [math.inf, 0.0, 0.0],
    [1e308] * 3,
    [-1e200, 1.0, 1.0],
    [3.0, 4.0, 0.0],
    [0.0] * 3,
    [1e-320] * 3,
    [0.1, 0.0, 0.0],
]


def test_one_client_moves_a_sum_by_the_clipping_norm_at_most(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened(str(tmp_path / "l.db"), 1e3)
    monkeypatch.setattr(federated_round, "normals", lambda count, stream, std: np.zeros(count))
    run = dpcli.rounds(written(tmp_path), str(tmp_path / "l.db"), "k", chunk=1000)
    others = {index: np.random.default_rng(fresh_random().getrandbits(32)).normal(size=3) for index in range(5)}
    base = run.round().release(others, 3)
    for update in [*HOSTILE, *np.random.default_rng(fresh_random().getrandbits(32)).normal(scale=50, size=(20, 3))]:
        moved = run.round().release({**others, 9: update}, 3) - base
        assert np.isfinite(moved).all() and np.linalg.norm(moved) <= 1 + 1e-8  # sums are rounded to a grid
    assert np.linalg.norm(run.round().release({1: [3.0, 4.0, 0.0]}, 3)) == pytest.approx(1.0)
    assert run.round().release({1: [0.1, 0.2, 0.0]}, 3) == pytest.approx([0.1, 0.2, 0.0])


def test_the_noise_of_a_round_is_as_large_as_is_charged_and_drawn_once(tmp_path: Path) -> None:
    opened(str(tmp_path / "l.db"), 1e3)
    run = dpcli.rounds(written(tmp_path, {"clip": 0.25}), str(tmp_path / "l.db"), "k")
    first, count = run.round(), 20_000
    noise = first.release({}, count)
    spread = 5 * math.sqrt(2 / count)  # five standard errors of a variance
    assert abs(np.var(noise) / (SIGMA * 0.25) ** 2 - 1) < spread and abs(np.mean(noise)) < 5 * SIGMA * 0.25 / math.sqrt(count)
    assert abs(np.corrcoef(noise, run.round().release({}, count))[0, 1]) < 5 / math.sqrt(count)
    assert np.array_equal(noise % grid_of(SIGMA * 0.25), np.zeros(count))  # the last digits of a sum would show it
    with pytest.raises(InputError, match=r"^round 1: already released: a second release would need noise that was not charged$"):
        first.release({}, count)


@of_each(
    "table, words",
    [
        ({"noise": "local"}, 'federated.noise: expected "server" with release, found "local": clients add the noise'),
        ({"clip": None}, "federated.clip: set the L2 norm to which an update is clipped"),
    ],
)
def test_a_round_that_has_no_noise_of_the_server_releases_nothing(table: dict[str, Any], words: str, tmp_path: Path) -> None:
    one = dpcli.rounds(written(tmp_path, table), opened(str(tmp_path / "l.db")), "k").round()
    with pytest.raises(InputError, match=re.escape(words)):
        one.release({}, 3)


def test_updates_of_others_and_of_other_sizes_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path, {"sampling": "poisson", "clients_per_round": 10})
    run = dpcli.rounds(path, opened(str(tmp_path / "l.db")), "k")
    one = run.round()
    stranger = next(client for client in range(100) if client not in one.clients)
    with pytest.raises(
        InputError, match=f"^round 1: expected updates of clients that were drawn for it, found an update of client {stranger}$"
    ):
        one.release({stranger: [0.0]}, 1)
    assert one.expected_clients == 10.0 and one.noise_multiplier == SIGMA
    while not len(run.round().clients):
        pass
    two = next(found for found in iter(run.round, None) if len(found.clients))
    client = int(two.clients[0])
    with pytest.raises(
        InputError, match=rf"^update of client {client}: expected an array of 2 numbers, found an array of shape \(3,\)$"
    ):
        two.release({client: [0.0, 1.0, 2.0]}, 2)
    assert module.charge_key("k", 3, 1) == "k/round-000003"


def test_a_client_is_told_its_share_of_the_noise(tmp_path: Path) -> None:
    shares = {"noise": "secure-aggregation", "min_clients": 30, "dishonest": 5}
    one = dpcli.rounds(written(tmp_path, shares), opened(str(tmp_path / "l.db")), "k").round()
    assert one.noise_multiplier == pytest.approx(SIGMA / 5) and one.noise_multiplier >= SIGMA / 5

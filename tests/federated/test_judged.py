"""Tests of federated/round_checks.py: a file with [federated] charges at least what it describes, or is refused with a reason."""

from __future__ import annotations

import itertools
import math
import random
import re
import tomllib
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any, get_args, get_type_hints

import numpy as np
import pytest

import dpcli
from dpcli.base.registry import SAMPLING
from dpcli.federated.federated_plan import federated_plan
from dpcli.federated.federated_settings import Federated
from dpcli.federated.participations import participation_limit
from dpcli.federated.round_checks import client_noise_multiplier
from dpcli.file.pipeline.canonical import tables_of
from dpcli.file.pipeline.read import parse
from dpcli.file.toml.findings import InvalidFile
from tests.cases import fresh_random, of_each
from tests.command import dpcli as run
from tests.federated.files import file


def wrong(text: str) -> str:
    """Everything that is wrong with a file, on lines of their own; "" where nothing is."""
    try:
        parse(text.encode(), "fed.toml")
    except InvalidFile as error:
        return "\n".join(f"{found.key}: {found.message}" for found in error.diagnostics)
    return ""


def epsilon(text: str) -> float:
    return dpcli.account(parse(text.encode(), "fed.toml")).upper


def gaussian_delta(epsilon: float, mu: float) -> float:
    """Of one Gaussian whose mean moves by mu standard deviations (Balle & Wang 2018, Theorem 8)."""

    def below(x: float) -> float:
        return 0.5 * math.erfc(-x / math.sqrt(2.0))

    return below(mu / 2 - epsilon / mu) - math.exp(epsilon) * below(-mu / 2 - epsilon / mu)


POISSON = {"sampling": {"scheme": "poisson", "batch_size": 10}}
FIXED = {"sampling": {"scheme": "fixed-size", "batch_size": 10}}
CYCLIC = {"sampling": {"scheme": "cyclic", "batch_size": 10}}
BALLS = {"sampling": {"scheme": "balls-in-bins", "batch_size": 10}}
SHARES = {"noise": "secure-aggregation", "min_clients": 10, "dishonest": 1, "noise_multiplier": 1.0}
ADDED = {"adjacency": "add-remove"}
REPLACED = {"adjacency": "replace-one"}
TREE = {"type": "tree-aggregation", "iterations": 30, "steps": 1, "max_participations": 3, "min_separation": 10}


def refused_case(case: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any], list[str]]:
    """Return what differs from the usual file in the table, the entry and [privacy], None for an absent key, and every message."""
    tables = {name: dict(case.get(name, {})) for name in ("table", "entry", "privacy")}
    for key in case.get("absent", ()):
        name, _, absent = key.partition(".")
        tables[name][absent] = None
    return tables["table"], tables["entry"], tables["privacy"], case["messages"]


REFUSED = [refused_case(case) for case in tomllib.loads(Path(__file__).with_name("refused.toml").read_text())["case"]]


@of_each("table, entry, privacy, messages", REFUSED)
def test_what_is_not_charged_is_refused(
    table: dict[str, Any], entry: dict[str, Any], privacy: dict[str, Any], messages: list[str]
) -> None:
    assert wrong(file(table, entry, privacy)).split("\n") == messages
    assert wrong(file(None, entry, privacy)) == ""  # the file is right but for what [federated] says


def test_an_entry_that_another_one_names_is_refused() -> None:
    both = '[[mechanism]]\nname = "both"\ntype = "composed"\nmechanisms = ["rounds"]\nsteps = 30\n'
    assert wrong(file({}, more=both)) == (
        'mechanism["rounds"].name: expected an entry that no other entry names, as a round performs only this entry, found '
        "'rounds', which 'both' names"
    )


def test_of_several_entries_one_is_named() -> None:
    other = '[[mechanism]]\nname = "other"\ntype = "gaussian"\nnoise_multiplier = 1.0\n'
    assert wrong(file({}, more=other)) == (
        "federated.mechanism: expected the name of the entry with Gaussian noise that a round performs (rounds, other), found several"
    )
    assert wrong(file({"mechanism": "rounds"}, more=other)) == ""


@of_each("key", ["sampling", "noise"])
def test_what_really_happens_is_never_defaulted(key: str) -> None:
    words = {
        "sampling": "'poisson', 'fixed-size', 'balls-in-bins', 'shuffle', 'cyclic', 'none'",
        "noise": "'server', 'secure-aggregation', 'local'",
    }
    assert wrong(file({key: None})) == f"federated.{key}: expected one of {words[key]}, found nothing"


def test_a_server_may_sample_in_every_way_that_is_charged() -> None:
    assert set(get_args(get_args(get_type_hints(Federated, include_extras=True)["sampling"])[0])) == set(SAMPLING)


ACCEPTED: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = [
    ({"sampling": "poisson", "clients_per_round": 10, "noise_multiplier": 2.0, "rounds": 30}, POISSON, ADDED),
    ({"sampling": "poisson"}, {}, ADDED),  # charged as if nobody were drawn: more
    ({"sampling": "fixed-size", "clients_per_round": 10}, FIXED, REPLACED),
    ({"sampling": "fixed-size", "clients_per_round": 10}, {}, REPLACED),
    ({"sampling": "fixed-size", "clients_per_round": 10}, {}, {}),
    ({"sampling": "balls-in-bins", "clients_per_round": 10}, BALLS, ADDED),
    ({"sampling": "cyclic", "clients_per_round": 10}, CYCLIC, ADDED),
    ({"sampling": "cyclic", "clients_per_round": 10, "noise": "local"}, CYCLIC, {}),
    ({"sampling": "poisson", "noise": "local", "rounds": 500, "max_participations": 30}, {}, REPLACED),
    ({"sampling": "poisson", "noise": "local", "rounds": 500, "min_separation": 17}, {}, REPLACED),
    ({**SHARES, "sampling": "cyclic", "clients_per_round": 20, "rounds": 150}, {}, {}),
    ({"sampling": "cyclic", "clients_per_round": 10}, TREE, {}),
    ({"sampling": "fixed-size", "max_participations": 3, "min_separation": 10}, TREE, {}),
    ({}, {}, {"unit": "user", "max_contributions": 3}),
]


@pytest.mark.long
@of_each("table, entry, privacy", ACCEPTED)
def test_what_is_charged_is_accepted_and_costs_what_the_plain_file_costs(
    table: dict[str, Any], entry: dict[str, Any], privacy: dict[str, Any], tmp_path: Any
) -> None:
    text, plain = file(table, entry, privacy), file(None, entry, privacy)
    assert wrong(text) == ""
    assert tables_of(parse(text.encode(), "a")) == tables_of(parse(plain.encode(), "a"))  # what a ledger keeps of it
    assert epsilon(text) == epsilon(plain)
    (tmp_path / "fed.toml").write_text(text)
    assert federated_plan(str(tmp_path / "fed.toml")).entry.name == "rounds"
    assert run("lint", str(tmp_path / "fed.toml")).code == 0


def drawn_file(rng: random.Random) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """A table, an entry and [privacy] that may or may not agree: each states what it says by itself."""
    population, cohort = 60, rng.choice([6, 10, 20, 60])
    rounds, noise = rng.randint(1, 40), rng.choice(["server", "secure-aggregation", "local"])
    table: dict[str, Any] = {"sampling": rng.choice([*SAMPLING]), "noise": noise, "rounds": rounds, "clients_per_round": cohort}
    table["noise_multiplier"] = rng.choice([0.5, 0.7, 1.0, 2.0])
    if noise == "secure-aggregation":
        table["min_clients"] = rng.randint(1, cohort)
        table["dishonest"] = rng.randint(0, table["min_clients"] - 1)
    for key in ("max_participations", "min_separation"):
        if rng.random() < 0.3:
            table[key] = rng.randint(1, 12)
    scheme = rng.choice([None, table["sampling"], rng.choice([*SAMPLING])])
    honest = table.get("min_clients", 1) - table.get("dishonest", 0)
    multiplier = rng.choice(
        [table["noise_multiplier"], table["noise_multiplier"] * math.sqrt(honest) * rng.choice([0.9, 0.999, 1.001])]
    )
    entry: dict[str, Any] = {"noise_multiplier": multiplier, "steps": rng.choice([rounds, rng.randint(1, 40)])}
    if scheme is not None:
        entry["sampling"] = {"scheme": scheme} if scheme == "none" else {"scheme": scheme, "batch_size": cohort}
    return table, entry, {"adjacency": rng.choice(["add-remove", "zero-out", "replace-one"]), "dataset_size": population}


def times(table: dict[str, Any], rng: random.Random) -> int:
    """In how many rounds some client takes part, in the worst of what may happen, played through round by round."""
    length, rounds, gap = 60 // table["clients_per_round"], table["rounds"], table.get("min_separation", 1)
    passes = {"cyclic": [length - 1] * 99, "shuffle": [rng.randrange(length) for _ in range(99)]}.get(table["sampling"])
    most = 0
    for first in range(length):
        wanted = [first if i == 0 or table["sampling"] == "cyclic" else place for i, place in enumerate(passes or [0])]
        taken: list[int] = []
        for number in range(rounds):
            turn = passes is None or wanted[number // length] == number % length
            if turn and (not taken or number - taken[-1] >= gap) and len(taken) < table.get("max_participations", rounds):
                taken.append(number)
        most = max(most, len(taken))
    return most


@pytest.mark.parametrize("many", [6, pytest.param(30, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("noise", ["secure-aggregation", "local", "server"])
def test_whatever_is_accepted_is_charged_for(noise: str, many: int) -> None:
    """Random files without amplification: the price covers the one Gaussian that the rounds amount to, in closed form."""
    rng, accepted, tried = fresh_random(), 0, 0
    while accepted < many:
        tried += 1
        assert tried < 200 * many, "hardly a file is accepted"
        table, entry, privacy = drawn_file(rng)
        table["noise"] = noise
        if noise != "secure-aggregation":
            table = {key: value for key, value in table.items() if key not in ("min_clients", "dishonest")}
        elif "min_clients" not in table:
            table |= {"min_clients": 3, "dishonest": 1}
        text = file(table, entry, privacy)
        if wrong(text) or entry.get("sampling", {}).get("scheme") in ("poisson", "fixed-size", "balls-in-bins"):
            continue
        accepted += 1  # of a hundred files a few are
        honest = table.get("min_clients", 1) - table.get("dishonest", 0)
        move = 2.0 if privacy["adjacency"] == "replace-one" else 1.0
        mu = move * math.sqrt(times(table, rng)) / (table["noise_multiplier"] * math.sqrt(honest))
        assert gaussian_delta(epsilon(text), mu) <= 1e-6 * (1 + 1e-9), text


def schedules(scheme: str, length: int, rounds: int) -> Iterator[list[int]]:
    """Every way in which one client's turns may fall, with a round of each pass for each of `rounds` + 1 passes."""
    passes = -(-rounds // length) + 1
    for places in itertools.product(range(length), repeat=1 if scheme == "cyclic" else passes):
        yield [k * length + places[k % len(places)] for k in range(passes)]


@of_each("scheme", ["cyclic", "shuffle"])
@of_each("cohort", [20, 30, 50])
def test_participations_are_those_of_the_worst_client(scheme: str, cohort: int) -> None:
    """The limit holds for every schedule and window of rounds, and is reached where passes are whole."""
    length = 100 // cohort
    for rounds in range(1, 8):
        table = Federated(sampling=scheme, noise="server", clients_per_round=cohort, population=100)  # type: ignore[arg-type]
        for first in (True, False):
            limit = participation_limit(table, rounds, Fraction(cohort, 100), first)
            most, apart = 0, rounds
            for turns in schedules(scheme, length, rounds + length):
                for start in [0] if first else range(length):
                    seen = [turn for turn in turns if start <= turn < start + rounds]
                    most = max(most, len(seen))
                    apart = min([apart, *(b - a for a, b in itertools.pairwise(seen))])
            assert limit.max_participations >= most
            assert limit.max_participations == 1 or limit.min_separation <= apart
            assert limit.max_participations == most or not first


def test_shares_of_clients_add_up_to_what_is_charged() -> None:
    for _ in range(300):
        honest, charged = random.randint(1, 10**6), 10.0 ** random.uniform(-3, 3)
        table = Federated(sampling="none", noise="secure-aggregation", min_clients=honest + 3, dishonest=3)
        share = Fraction(client_noise_multiplier(table, charged))
        assert share**2 * honest >= Fraction(charged) ** 2
        assert float(share) <= charged / math.sqrt(honest) * (1 + 1e-15)


def hockey_stick(epsilon: float, p: np.ndarray, q: np.ndarray, step: float) -> float:
    return float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum() * step)


def normal(x: np.ndarray, mean: float, deviation: float) -> np.ndarray:
    return np.exp(-(((x - mean) / deviation) ** 2) / 2) / (deviation * math.sqrt(2 * math.pi))


X = np.arange(-40.0, 40.0, 0.002)


@of_each("cohort, dropped, dishonest", [(6, 0, 0), (6, 2, 0), (6, 2, 2), (4, 3, 0)])
def test_noise_that_drops_out_is_paid_for(cohort: int, dropped: int, dishonest: int) -> None:
    """One round with any number of dropouts, integrated numerically: delta holds. At a full round's noise it would not."""
    share, least = 0.6, cohort - dropped
    charged = math.floor(share * math.sqrt(least - dishonest) * 1e9) / 1e9
    secure = {"noise": "secure-aggregation", "min_clients": least, "dishonest": dishonest, "noise_multiplier": share}
    text = file(secure, {"noise_multiplier": charged, "steps": 1}, {"delta": 1e-3})
    assert wrong(text) == ""
    eps = epsilon(text)
    seen = []
    for number in range(least, cohort + 1):  # whoever works with the server knows its own noise
        deviation = share * math.sqrt(number - dishonest)
        seen.append(hockey_stick(eps, normal(X, 1.0, deviation), normal(X, 0.0, deviation), 0.002))
    assert max(seen) <= 1e-3 * 1.0001
    assert seen[0] == pytest.approx(1e-3, rel=1e-3)
    if dropped or dishonest:
        full = share * math.sqrt(cohort)
        assert wrong(file(secure, {"noise_multiplier": full, "steps": 1})) != ""
        assert epsilon(file(None, {"noise_multiplier": full, "steps": 1}, {"delta": 1e-3})) < eps


def test_amplification_does_not_survive_rounds_that_are_given_up() -> None:
    """Two clients drawn with probability 1/2: only a round with both is released, so a release reveals who was drawn."""
    rate, deviation, eps = 0.5, 1.0, 3.0
    one, none = normal(X, 1.0, deviation), normal(X, 0.0, deviation)
    given_up = rate * rate * hockey_stick(eps, one, none, 0.002)
    sampled = hockey_stick(eps, (1 - rate) * none + rate * one, none, 0.002)
    assert given_up > 2 * sampled > 0


@pytest.mark.parametrize("scheme", ["poisson", "fixed-size"])
def test_one_round_of_few_clients_by_enumeration(scheme: str) -> None:
    """Three clients with extreme updates, of which one is drawn, or each with probability 1/3: all samples are enumerated."""
    rate, multiplier, delta = 1 / 3, 1.0, 1e-3
    entry = {"noise_multiplier": multiplier, "steps": 1, "sampling": {"scheme": scheme, "batch_size": 1}}
    size = {"dataset_size": 3, "delta": delta}
    text = file({"sampling": scheme, "clients_per_round": 1}, entry, {**size, "adjacency": "replace-one"})
    assert wrong(text) == ""
    eps = epsilon(text)
    worst = 0.0
    for others in itertools.product([-1.0, 0.0, 1.0], repeat=2):
        worst = max(
            worst, hockey_stick(eps, released(scheme, [1.0, *others], rate), released(scheme, [-1.0, *others], rate), 0.002)
        )
    assert 0 < worst <= delta * 1.0001


def released(scheme: str, updates: list[float], rate: float) -> np.ndarray:
    if scheme == "fixed-size":
        return sum(normal(X, update, 1.0) for update in updates) / len(updates)  # type: ignore[no-any-return]
    found = np.zeros_like(X)
    for taken in itertools.product([False, True], repeat=len(updates)):
        chance = math.prod(rate if one else 1 - rate for one in taken)
        found += chance * normal(X, sum(u for u, one in zip(updates, taken, strict=True) if one), 1.0)
    return found


def test_solved_noise_is_judged_again(tmp_path: Any) -> None:
    """A file that says "calibrate" has no noise when it is read, so the solution is compared with the clients' shares."""
    budget = "[budget]\nepsilon = 1.0\n"
    table = {"noise": "secure-aggregation", "min_clients": 4, "dishonest": 0, "noise_multiplier": 0.5}
    (tmp_path / "fed.toml").write_text(file(table, {"noise_multiplier": "calibrate"}, more=budget))
    with pytest.raises(
        dpcli.base.errors.InputError, match=re.escape('fed.toml: mechanism["rounds"].noise_multiplier: expected at most 1')
    ):  # type: ignore[attr-defined]
        federated_plan(str(tmp_path / "fed.toml"))
    del table["noise_multiplier"]
    (tmp_path / "fed.toml").write_text(file(table, {"noise_multiplier": "calibrate"}, more=budget))
    plan = federated_plan(str(tmp_path / "fed.toml"))
    assert client_noise_multiplier(plan.table, plan.entry.spec.noise_multiplier) > 10  # type: ignore[attr-defined]


CONTRADICTED: list[tuple[str, dict[str, Any], dict[str, Any], str, str]] = [
    (
        "noise",
        {"noise": "secure-aggregation", "min_clients": 40, "dishonest": 4, "noise_multiplier": 0.5},
        {},
        "1",
        "noise_multiplier",
    ),
    ("noise", {"noise": "local", "noise_multiplier": 2.0}, {}, "1", "noise_multiplier"),
    ("steps", {"rounds": 30}, {}, "60", "steps"),
    ("steps", {"sampling": "poisson", "rounds": 300, "max_participations": 30}, {}, "3", "steps"),
    ("steps", {"sampling": "poisson", "rounds": 30}, POISSON, "9", "rounds"),
    ("rate", {"sampling": "poisson", "client_rate": 0.1}, {"sampling": {"scheme": "poisson", "rate": 0.1}}, "0.5", "client_rate"),
    ("batch-size", {"sampling": "poisson", "clients_per_round": 10}, POISSON, "0.5", "clients_per_round"),
]


@of_each("solve, table, entry, target, key", CONTRADICTED)
def test_an_answer_that_the_table_contradicts_is_not_given(
    solve: str, table: dict[str, Any], entry: dict[str, Any], target: str, key: str, tmp_path: Any
) -> None:
    """If the file with the solution would be refused, no solution is returned."""
    path, answer = tmp_path / "fed.toml", tmp_path / "answer.toml"
    path.write_text(file(table, entry))
    found = run("calibrate", str(path), "--solve", solve, "--target-epsilon", target, "--write", str(answer))
    assert found.code == 2 and found.out == "" and not answer.exists()
    words = rf"(federated|mechanism\[.rounds.\])\.{key}: expected "
    assert re.search(words, found.err), found.err
    with pytest.raises(dpcli.base.errors.InputError, match=words):  # type: ignore[attr-defined]
        dpcli.calibrate(dpcli.load(path), float(target), solve=solve)  # type: ignore[arg-type]
    path.write_text(file(None, entry))
    assert run("calibrate", str(path), "--solve", solve, "--target-epsilon", target).code == 0


@of_each("epsilon, rho, code", [(30.0, 3.76, 0), (16.2, 100.0, 0), (30.0, 3.0, 2), (12.0, 100.0, 2), (30.0, 100.0, 2)])
def test_a_number_on_the_way_to_the_answer_is_not_held_against_the_table(
    epsilon: float, rho: float, code: int, tmp_path: Any
) -> None:
    """With caps on epsilon and on rho, only the smaller of the two solutions has to be the 30 rounds of the file."""
    path, answer = tmp_path / "fed.toml", tmp_path / "answer.toml"
    path.write_text(file({"rounds": 30}, more=f"[budget]\nepsilon = {epsilon}\nrho = {rho}\n"))
    found = run("calibrate", str(path), "--solve", "steps", "-f", "text", "--write", str(answer))
    assert found.code == code, found
    assert answer.exists() == (code == 0) and ("steps = 30 for rounds" in found.out or "steps: expected 30 steps" in found.err)
    assert code or wrong(answer.read_text()) == ""


def test_an_answer_that_agrees_with_the_table_is_written_and_read(tmp_path: Any) -> None:
    path, answer = tmp_path / "fed.toml", tmp_path / "answer.toml"
    path.write_text(file({"noise": "secure-aggregation", "min_clients": 40, "dishonest": 4}))
    assert run("calibrate", str(path), "--solve", "noise", "--target-epsilon", "1", "--write", str(answer)).code == 0
    assert wrong(answer.read_text()) == ""


@pytest.mark.parametrize("turn", [0, pytest.param(1, marks=pytest.mark.long)])
@of_each("place, asked", list(enumerate(CONTRADICTED)))
def test_what_would_fit_is_a_file_that_is_taken_or_says_that_the_table_changes_too(
    turn: int, place: int, asked: tuple[str, dict[str, Any], dict[str, Any], str, str], tmp_path: Any
) -> None:
    """The proposed change is made in the file: the file is valid, unless the proposal says that [federated] must change too."""
    (_, table, entry, _, _), cap = asked, (0.3, 1.0)[(place + turn) % 2]
    path, ledger = tmp_path / "fed.toml", str(tmp_path / "l.db")
    terms = ("--dataset", "phones", "--unit", "client", "--adjacency", "zero-out", "--epsilon", str(cap), "--delta", "1e-6")
    assert run("budget", "init", ledger, *terms, "--filter", "rdp").code == 0
    path.write_text(file(table, entry))
    found = run("budget", "spend", ledger, str(path), "--key", "k")
    (said,) = re.findall("would fit: (.*) a smaller total", " ".join(found.out.split()))
    changed = {
        key: float(re.search(pattern, said)[1].replace(",", ""))  # type: ignore[index]
        for key, pattern in (("noise_multiplier", r"noise_multiplier = ([0-9.]+)"), ("steps", r"([0-9,]+) steps"))
        if re.search(pattern, said)
    }
    proposed = said.split("; or ")
    assert len(changed) == len(proposed) > 0
    for (name, value), words in zip(changed.items(), proposed, strict=True):
        new = wrong(file(table, {**entry, name: int(value) if name == "steps" else value}))
        assert (new != "") == ("with [federated] changed to match" in words), (new, words)

"""Tests that `verify` computes each cost under the ledger's terms, and reports charges that state other terms or too low a cost."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from dpcli.file.pipeline.canonical import tables_of
from dpcli.file.pipeline.model import Pipeline
from dpcli.file.pipeline.read import parse
from dpcli.ledger import amounts
from dpcli.ledger.chain import seal
from dpcli.ledger.filters.filter import filter_for_cap
from dpcli.ledger.ledger import Ledger
from dpcli.ledger.state import LedgerState
from dpcli.ledger.stores.places import init
from dpcli.ledger.terms import LedgerTerms
from dpcli.ledger.verify import Prices, verify
from dpcli.mechanisms.neighbours import Adjacency
from tests.cases import of_each
from tests.command import dpcli

FILE = """\
format = 1
[privacy]
unit = "user"
adjacency = "replace-one"
max_contributions = 2
dataset_size = 1000
delta = 1e-7
[[mechanism]]
name = "train"
type = "gaussian"
noise_multiplier = 20.0
steps = 2
"""
SAMPLED = 'sampling = { scheme = "poisson", batch_size = 10 }\n'
HONEST = parse(FILE.encode(), "run.toml")
OTHERS: dict[str, dict[str, Any]] = {
    "unit": {"unit": "example", "max_contributions": None},
    "adjacency": {"adjacency": Adjacency.ADD_REMOVE},
    "dataset_size": {"dataset_size": 10**6},
}


def terms(name: str) -> LedgerTerms:
    found = filter_for_cap(name, 100.0, 1e-5, {})
    return LedgerTerms("user", "replace-one", 100.0, 1e-5, filter=name, parameters=dict(found.parameters()), dataset_size=1000)


def stated(pipeline: Pipeline, names: tuple[str, ...]) -> Pipeline:
    changes = {key: value for name in names for key, value in OTHERS[name].items()}
    return replace(pipeline, privacy=replace(pipeline.privacy, **changes))


def charge(found: LedgerTerms, pipeline: Pipeline, price: Pipeline | None = None) -> dict[str, Any]:
    """An entry that is priced as it is stated, or as `price`."""
    cost = found.price(price or pipeline, 1e-7)
    return {
        "kind": "spend",
        "key": "run",
        "pipeline": tables_of(pipeline),
        "delta": "1e-07",
        "cost": dict(cost.amounts),
        "detail": "",
    }


def problems(found: LedgerTerms, *contents: dict[str, Any]) -> list[str]:
    state, entries = LedgerState("visits"), []
    opening = {"kind": "open", "terms": found.content(), "caps": dict(found.the_filter.caps(found.epsilon, found.delta))}
    for content in (opening, *contents):
        entries.append(seal(content, "visits", state.head))
        state.apply(entries[-1])
    prices = Prices(state.open_terms())
    return [said for entry in entries[1:] for said in prices.problems_of(entry)]


CHANGED = [names for count in (1, 2, 3) for names in itertools.combinations(OTHERS, count)]


@pytest.mark.long
@of_each("name, others", [(name, others) for name in ("rdp", "zcdp", "gdp", "approx-dp", "advanced") for others in CHANGED])
def test_other_terms_are_found_with_what_the_run_costs_there(name: str, others: tuple[str, ...]) -> None:
    sampled = "dataset_size" in others and name not in ("gdp", "zcdp")
    honest = parse((FILE + SAMPLED * sampled).encode(), "run.toml")
    if sampled:  # amplification under replace-one is not what this is about
        honest = replace(honest, privacy=replace(honest.privacy, adjacency=Adjacency.ADD_REMOVE))
    found = replace(terms(name), adjacency=honest.privacy.adjacency.value)
    other = stated(honest, tuple(n for n in others if not (sampled and n == "adjacency")))
    assert problems(found, charge(found, honest)) == []
    (said,) = problems(found, charge(found, other))
    assert said.startswith('entry 2 ("run", dpcli None): stated for ')
    changed = [n for n in others if not (sampled and n == "adjacency")]
    assert all(f"{n} " in said for n in changed)
    assert "(DP103)" in said
    one = replace(honest, privacy=replace(honest.privacy, max_contributions=1 if "unit" in others else 2))
    true, paid = found.price(one, 1e-7).amounts, found.price(other, 1e-7).amounts
    dearer = [key for key in true if Decimal(true[key]) > Decimal(paid[key])]
    for key in dearer:
        assert f"{amounts.read(true)[key]:.10g}" in said
        assert ("at least " in said) is ("unit" in others)
    if "adjacency" in changed:
        assert dearer


def test_a_quarter_of_the_price_is_four_times_as_much() -> None:
    """A Gaussian that was charged for example/add-remove, in a ledger for user/replace-one."""
    found = terms("zcdp")
    (said,) = problems(found, charge(found, stated(HONEST, ("unit", "adjacency"))))
    assert said.endswith("charged 0.0025 of rho, this version finds at least 0.01, 4 times as much (DP408)"), said


def test_a_price_of_another_run_is_found() -> None:
    found = terms("zcdp")
    cheap = parse(FILE.replace("20.0", "200.0").encode(), "run.toml")
    (said,) = problems(found, charge(found, HONEST, cheap))
    assert "100 times as much" in said


@of_each(
    "mechanism",
    [
        {},
        {"type": "gaussian"},
        {"name": {"a": []}, "type": []},
        {"name": "a", "type": "gaussian", "noise_multiplier": "x"},
        {"steps": -1},
    ],
)
def test_a_run_that_nobody_can_price_is_a_problem_and_no_crash(mechanism: dict[str, Any]) -> None:
    found = terms("zcdp")
    content = charge(found, HONEST)
    content["pipeline"]["mechanism"] = [mechanism]
    (said,) = problems(found, content)
    assert "its cost cannot be computed again" in said


def test_a_file_with_such_an_entry_fails_verify(tmp_path: Any) -> None:
    path = str(tmp_path / "l.db")
    ledger = init(path, "visits", terms("zcdp"))
    content = charge(terms("zcdp"), stated(HONEST, ("unit", "adjacency")))
    with ledger.store.writing("visits") as tail:
        tail.append(seal(ledger._with_signature(content), "visits", ledger.state().head).row)
    done = dpcli("budget", "verify", path)
    assert done.code == 1
    assert "stated for unit example instead of user, adjacency add-remove instead of replace-one" in done.out
    assert "4 times as much" in done.out


def test_a_declared_run_that_is_another_is_found() -> None:
    from dpcli.ledger.filters.declared_set import declared_caps
    from dpcli.ledger.opening import declared_terms

    found = declared_terms(LedgerTerms("user", "replace-one", 100.0, 1e-5, dataset_size=1000), [(HONEST, 2)])
    state = LedgerState("visits")
    opening = seal({"kind": "open", "terms": found.content(), "caps": declared_caps(found.declared)}, "visits", state.head)
    state.apply(opening)
    heavy = {**charge(found, HONEST), "pipeline": tables_of(parse(FILE.replace("20.0", "0.2").encode(), "run.toml"))}
    entry = seal(heavy, "visits", state.head)
    state.apply(entry)
    (said,) = Prices(state.open_terms()).problems_of(entry)
    assert "is not one of the 1 runs that were declared" in said


@of_each("remembered", [1, 3, 1_000])
def test_a_cached_price_equals_a_computed_price(remembered: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cached prices: random runs, some repeated, each charged too little, are all reported."""
    seed = random.randrange(2**32)
    monkeypatch.setattr("dpcli.ledger.verify.CACHED_COSTS", remembered)
    found, chance = terms("rdp"), random.Random(seed)
    changes = [
        {"noise": 20.0},
        {"noise": 19.0},
        {"steps": 3},
        {"sampled": True},
        {"contributions": 3},
        {"size": 999},
        {"others": ("unit",)},
    ]
    contents = []
    for i in range(30):
        change = chance.choice(changes)
        text = FILE.replace("20.0", str(change.get("noise", 20.0))).replace("steps = 2", f"steps = {change.get('steps', 2)}")
        text = text.replace("max_contributions = 2", f"max_contributions = {change.get('contributions', 2)}")
        text = text.replace("size = 1000", f"size = {change.get('size', 1000)}") + (SAMPLED if "sampled" in change else "")
        pipeline = stated(parse(text.encode(), "run.toml"), change.get("others", ()))
        cost = {name: str(Decimal(value) / chance.choice([1, 2])) for name, value in charge(found, pipeline)["cost"].items()}
        contents.append({**charge(found, pipeline), "key": f"run {i}", "cost": cost, "delta": chance.choice(["1e-07", "1e-06"])})
    alone = [said.partition(": ")[2] for content in contents for said in problems(found, content)]
    assert [said.partition(": ")[2] for said in problems(found, *contents)] == alone, seed
    assert alone, seed


def test_a_run_that_comes_again_is_composed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    found, asked = terms("rdp"), []
    cost = type(found).price
    contents = [{**charge(found, HONEST), "key": f"run {i}"} for i in range(5)]
    monkeypatch.setattr(LedgerTerms, "price", lambda self, *run: asked.append(run) or cost(self, *run))
    assert problems(found, *contents) == [] and len(asked) == 1


def test_verify_is_quiet_about_what_is_right(tmp_path: Any) -> None:
    ledger: Ledger = init(str(tmp_path / "l.db"), "visits", terms("rdp"))
    ledger.spend(HONEST, "run")
    assert verify(ledger).problems == ()

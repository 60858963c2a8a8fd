"""Tests that every key that a change may loosen is reported, and that windows that move keep their width."""

from __future__ import annotations

import datetime
import json
import random
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from dpcli.base.lazy import load
from dpcli.file.keys.annotations import members_of
from dpcli.file.pipeline.gate_keys import Gate, Horizon, Waiver
from dpcli.file.pipeline.model import Budget, Privacy
from dpcli.file.pipeline.read import parse
from dpcli.file.pipeline.section import MECHANISM_TYPES
from dpcli.file.toml.positions import locate
from dpcli.gate.claims import standings_of
from dpcli.gate.term_changes import _compared_keys, keeps_its_width, terms_of, value_in_words
from dpcli.ledger.plugin import BLOCKS
from dpcli.mechanisms.spec import Spec
from tests.cases import of_each
from tests.gate.changes import BASE, TYPES, judged, put, text_of, with_mechanism
from tests.inline import toml

OTHER: dict[str, Any] = {
    "privacy.unit": "household",
    "privacy.dataset": "views",
    "privacy.window": ["us"],
    "privacy.adjacency": "zero-out",
    "privacy.max_contributions": 2,
    "privacy.dataset_size": 10**5,
    "privacy.delta": 1e-7,
    "privacy.releases": "outputs",
    "privacy.adaptive": True,
    "budget.epsilon": 31.0,
    "budget.delta": 1e-9,
    "budget.warn_at": 0.9,
    "budget.rho": 2.0,
    "gate.max_increase": 0.6,
    "gate.horizon": {"epsilon": 901.0, "runs": 3},
    "gate.waiver": [{"rule": "DP105", "reason": "other", "approver": "ada", "expires": datetime.date(2031, 1, 2)}],
}


def test_no_key_is_forgotten() -> None:
    tables = {"privacy": Privacy, "budget": Budget, "gate": Gate}
    assert set(OTHER) == {f"{table}.{key}" for table, cls in tables.items() for key in members_of(cls)}
    own = terms_of(parse(text_of(BASE).encode(), "x"))
    assert set(own) == set(OTHER) - {"gate.waiver", "gate.horizon"} == set(_compared_keys())
    assert set(members_of(Horizon)) == {"epsilon", "every", "years", "runs"}
    assert set(members_of(Waiver)) == {"rule", "reason", "approver", "expires", "mechanism", "epsilon"}


HOW = ["changed", pytest.param("dropped", marks=pytest.mark.long)]


@of_each(
    "name, how", [("privacy.unit", "changed"), ("budget.rho", "dropped"), ("gate.horizon", "changed"), ("privacy.delta", "dropped")]
)
def test_a_changed_term_is_placed_where_it_stands(folder: Path, name: str, how: str) -> None:
    placed_where_it_stands(folder, name, how)


@pytest.mark.nightly
@pytest.mark.long
@of_each("name, how", [(name, how) for name in OTHER if name != "gate.waiver" for how in ("changed", "dropped")])
def test_any_changed_term_is_placed_where_it_stands(folder: Path, name: str, how: str) -> None:
    placed_where_it_stands(folder, name, how)


def placed_where_it_stands(folder: Path, name: str, how: str) -> None:
    """Each key on a line of its own; of one that is gone, the table that held it."""
    table, key = name.split(".")
    tables = {**BASE, table: {**BASE[table], key: OTHER[name]}}
    if how == "dropped":
        del tables[table][key]
    text = "".join(f"\n[{head}]\n{text_of(keys)}" for head, keys in tables.items() if isinstance(keys, dict))
    text = f"format = 1\nmechanism = {toml(BASE['mechanism'])}\n{text}"
    code, out = judged(folder, BASE, text)
    if code == 2:
        assert how == "dropped" and key in ("adjacency", "max_contributions", "epsilon")  # it is required
        return
    conditions = [one for one in json.loads(out.splitlines()[0])["conditions"] if key in one["message"]]
    places = [(one["line"], one["column"]) for one in conditions if one["name"] in ("statement", "terms")]
    path = (table, key)
    assert places == [locate(text, [path])[path]] or (not places and how == "dropped" and key in ("adaptive", "warn_at"))


@pytest.mark.sampled(0, 1)
@pytest.mark.long
@pytest.mark.parametrize("how", HOW)
@of_each("name", OTHER)
def test_a_changed_term_is_told(folder: Path, name: str, how: str) -> None:
    after = put(BASE, tuple(name.split(".")), OTHER[name])
    if name == "privacy.adjacency" and how == "dropped":
        return  # it is required
    if how == "dropped":
        table, key = name.split(".")
        after = {**BASE, table: {k: v for k, v in BASE[table].items() if k != key}}
    code, out = judged(folder, BASE, after)
    if how == "dropped" and name in ("privacy.adaptive", "budget.warn_at", "gate.waiver"):
        return  # what holds without it is what it said, or more
    if how == "dropped" and name == "privacy.max_contributions":
        assert code == 2
        assert f"{name}: expected " in out
        return
    assert words_of(name, how == "dropped") in out
    assert code == (0 if name in ("gate.waiver", "budget.delta") and (how, name) != ("changed", "budget.delta") else 1), out


def words_of(name: str, dropped: bool) -> str:
    """What the gate says of the key."""
    table, key = name.split(".")
    if name == "gate.waiver":
        return "new waiver, added by this change"
    if name == "gate.horizon":
        return "gate.horizon 3 runs within 900 -> " + ("none" if dropped else "3 runs within 901")
    statement = table == "privacy" and key not in ("releases", "delta")
    label = key if statement or (name == "budget.delta" and not dropped) else name
    old, new = (", ".join(value) if isinstance(value, list) else value for value in (BASE[table][key], OTHER[name]))
    return f"{label} {value_in_words(old)} -> {value_in_words(None if dropped else new)}"


@of_each(
    "old, new, words",
    [
        (0.8, 0.7, "budget.warn_at 0.8 -> 0.7 (weakens no cap in force)"),
        (
            0.8,
            0.9,
            'budget.warn_at 0.8 -> 0.9 (allowed with a waiver of "statement", which names its approver, or --allow-statement-change)',
        ),
    ],
)
def test_a_stricter_term_is_told_and_passes(folder: Path, old: float, new: float, words: str) -> None:
    code, out = judged(folder, put(BASE, ("budget", "warn_at"), old), put(BASE, ("budget", "warn_at"), new))
    assert words in out
    assert code == (1 if new > old else 0)


def test_booleans_are_those_of_the_file(folder: Path) -> None:
    _, out = judged(folder, BASE, put(BASE, ("privacy", "adaptive"), True))
    assert "adaptive false -> true" in out


COMPUTED = [kind for kind in TYPES if load(MECHANISM_TYPES.registry[kind]).evidence == 2]
FEW = [("gaussian", kind) for kind in TYPES] + [(kind, "pure-dp") for kind in TYPES] + [("pure-dp", "post-processing")]


PAIRS = [pair for pair in FEW if pair[0] != pair[1]]


@pytest.mark.long
@of_each("pair", PAIRS[4::27])
def test_a_change_of_type_is_told(folder: Path, pair: tuple[str, str]) -> None:
    told_of_a_type(folder, *pair)


@pytest.mark.nightly
@of_each("pair", PAIRS)
def test_a_change_of_any_type_is_told(folder: Path, pair: tuple[str, str]) -> None:
    told_of_a_type(folder, *pair)


def told_of_a_type(folder: Path, before: str, after: str) -> None:
    """And judged where the new type rests on less."""
    old, new = with_mechanism(before, TYPES[before]), with_mechanism(after, TYPES[after])
    new["privacy"] = old["privacy"] = {**old["privacy"], "adjacency": "zero-out"}
    old["mechanism"], new["mechanism"] = (
        [*d["mechanism"], {"name": "other", "type": "pure-dp", "epsilon": 0.1}] for d in (old, new)
    )
    code, out = judged(folder, old, new)
    assert '"old": "' + before in out or f'"{before}"' in out or f"{before} ->" in out or f"as {before}" in out, out
    weaker = load(MECHANISM_TYPES.registry[after]).evidence < load(MECHANISM_TYPES.registry[before]).evidence
    assert ("rests" in out or "restatement" in out) == weaker, out
    assert (code == 1) == weaker or code in (1, 2, 3), out


def test_every_type_says_what_it_rests_on() -> None:
    for target in MECHANISM_TYPES.registry.values():
        cls = load(target)
        stated = next(base for base in cls.__mro__ if "evidence" in vars(base))
        assert stated is not Spec, cls
        # Noise and parts are priced; a number that is stated, and a word, are not.
        assert (cls.evidence == 1) == ("stated_for" in members_of(cls)), cls
        assert (cls.evidence == 0) == (not members_of(cls)), cls


def test_a_list_in_the_place_of_one_value_is_held_to_what_the_entry_rested_on(folder: Path) -> None:
    """Each way round: nothing is gone, and a stated cost in the place of noise is a restatement."""
    noise = {**BASE["mechanism"][0], "steps": 1}
    for one, other in (([40.0, 60.0], 50.0), (50.0, [40.0, 60.0])):
        old, new = ({**BASE, "mechanism": [{**noise, "noise_multiplier": value}]} for value in (one, other))
        code, out = judged(folder, old, new, "text")
        assert code == 0 and "was removed" not in out, out
    stated = {"name": "train", "type": "pure-dp", "epsilon": [0.01, 0.02]}
    code, out = judged(folder, BASE, {**BASE, "mechanism": [stated]}, "text")
    assert (
        code == 1
        and "restatement: train[1]: it states its own cost, and as gaussian it had a cost that followed from its noise" in out
    ), out


def test_an_entry_is_worth_its_weakest_part() -> None:
    document = with_mechanism("composed", TYPES["composed"])
    assert standings_of(parse(text_of(document).encode(), "x"))["train"] == ("composed", 2)
    document["mechanism"][0] = {"name": "part", "type": "zcdp", "rho": 0.1}
    assert standings_of(parse(text_of(document).encode(), "x"))["train"] == ("composed", 1)


@pytest.mark.long
@of_each(
    "key, old, new",
    [
        ("steps", 9, 8),
        ("noise_multiplier", 40.0, 41.0),
        ("description", "a", "b"),
        ("sampling", {"scheme": "poisson", "rate": 0.1}, {"scheme": "poisson", "rate": 0.05}),
        ("partition", None, {"of": "region", "part": "north"}),
        ("name", "train", "model"),
    ],
)
def test_a_changed_key_of_an_entry_is_told(folder: Path, key: str, old: Any, new: Any) -> None:
    entry = {**BASE["mechanism"][0], **({} if old is None else {key: old})}
    _, out = judged(folder, {**BASE, "mechanism": [entry]}, {**BASE, "mechanism": [{**entry, key: new}]}, "markdown")
    assert f"train: {key}" in out.replace("sampling.rate", "sampling").replace("\\", ""), out


Case = tuple[list[str] | None, list[str] | None]
MOVED: list[Case] = [
    (["2026-01-01..2026-01-28"], ["2026-01-08..2026-02-04"]),
    (["2026-01-01..2026-01-03"], ["2026-01-02", "2026-01-04", "2026-01-03"]),
    (["2026-02-01..2026-02-28"], ["2026-03-01..2026-03-28"]),
    (["2026-W50..2026-W53"], ["2027-W01..2027-W04"]),
    (["0..3"], ["8..10", "7"]),
    (["2026-01-01", "2026-01-01..2026-01-02"], ["2026-01-03..2026-01-04"]),  # stated twice, read once
]
OTHERWISE: list[Case] = [
    (["2026-01-01..2026-01-28"], ["2026-01-01..2026-01-29"]),
    (["2026-01-01..2026-01-28"], ["2026-01-02..2026-01-28"]),
    (["2026-02-01..2026-02-28"], ["2026-03-01..2026-03-31"]),  # a month
    (["2026-01-01..2026-01-28"], None),
    (None, ["2026-01-01..2026-01-28"]),
    (["2026-01-01..2026-01-04"], ["2026-W01..2026-W04"]),
    (["2026-01-01"], ["2026-01-01", "eu"]),
    (["0..3"], ["2026-01-01..2026-01-04"]),
    (["eu"], ["us"]),
    (["2026-01-01"], ["2026-02-30"]),
    (["2026-01-03..2026-01-01"], ["2026-01-03..2026-01-01", "2026-01-05"]),
    (["0001-01-01..9999-12-31"], ["0001-01-02..9999-12-31"]),
]


def told(folder: Path, case: Case) -> tuple[int, dict[str, Any]]:
    """The exit code, and what of the conditions names the window."""
    before, after = (put(BASE, ("privacy", "window"), window) for window in case)
    for document in (before, after):
        if document["privacy"]["window"] is None:
            del document["privacy"]["window"]
    code, out = judged(folder, before, after)
    conditions = json.loads(out.splitlines()[0])["conditions"]
    return code, {one["name"]: one for one in conditions if "privacy.window" in one["message"]}


@pytest.mark.long
@of_each("case", [*MOVED])
def test_a_window_that_moves_is_told_and_passes(case: Case, folder: Path) -> None:
    code, found = told(folder, case)
    assert code == 0 and [*found] == ["terms"] and found["terms"]["verdict"] == "pass", found
    assert "weakens no cap" in found["terms"]["message"] and ", ".join(case[1] or ()) in found["terms"]["message"]


@pytest.mark.long
@of_each("case", [*OTHERWISE])
def test_any_other_change_of_it_is_one_of_the_statement(case: Case, folder: Path) -> None:
    code, found = told(folder, case)
    assert code == 1 and [*found] == ["statement"] and found["statement"]["verdict"] == "fail", found


def test_windows_are_counted_as_they_are() -> None:
    """Against sets of days: however they are spelled."""
    draw, first = random.Random(1), date(2026, 1, 1)
    for _ in range(300):
        windows, sets = [], []
        for _ in range(2):
            days: set[date] = set()
            words = []
            for _ in range(draw.randrange(1, 4)):
                begin, length = first + timedelta(draw.randrange(12)), draw.randrange(4)
                days |= {begin + timedelta(i) for i in range(length + 1)}
                words.append(f"{begin}..{begin + timedelta(length)}" if length or draw.random() < 0.5 else f"{begin}")
            windows.append(", ".join(words))
            sets.append(days)
        assert keeps_its_width(*windows) == (len(sets[0]) == len(sets[1])), windows


def test_every_kind_with_an_order_moves() -> None:
    assert {by for by, target in BLOCKS.items() if load(target).ordered} == {"day", "week", "hash"}

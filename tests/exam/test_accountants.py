"""Tests of every registered accountant against the enumeration, with planted bugs. A new accountant is tested once it is registered."""

from __future__ import annotations

from itertools import chain, product

import pytest

from dpcli.analysis import inquiry
from dpcli.analysis.account import account
from dpcli.base.lazy import load
from dpcli.base.registry import ACCOUNTANTS, MECHANISMS
from dpcli.exam.accountant_plants import ACCOUNTANT_PLANTS, LowerBoundLifted, Plant, TenthOfEpsilon, is_detected
from dpcli.exam.questions import question_sample, replies
from dpcli.exam.subjects import SEED
from tests.cases import every, in_turn, tiered
from tests.strategies import entry, pipeline

SOUND = [name for name, target in ACCOUNTANTS.items() if load(target).sound]


@pytest.mark.sampled(4, 4)
@pytest.mark.parametrize(
    ("kind", "part"), [*every(8, MECHANISMS), *every(3, MECHANISMS, pytest.mark.long), *every(1, MECHANISMS, pytest.mark.nightly)]
)
def test_no_answer_is_false(kind: str, part: slice) -> None:
    questions = list(question_sample(kind, str(SEED)))[part]
    found = {name: [answer for answer in replies(load(ACCOUNTANTS[name]), questions) if answer.is_false] for name in SOUND}
    assert {name: false for name, false in found.items() if false} == {}, f"seed {SEED}"


@pytest.mark.parametrize("name", SOUND)
def test_every_accountant_says_something(name: str) -> None:
    questions = chain.from_iterable(question_sample(kind, str(SEED)) for kind in MECHANISMS)
    assert any(True for _ in replies(load(ACCOUNTANTS[name]), questions)), f"seed {SEED}"


EACH_ONCE = in_turn(ACCOUNTANTS, ACCOUNTANT_PLANTS)
DEAR = [pair for pair in EACH_ONCE if pair[0] == "rdp-optimal"]
CHEAP = [pair for pair in EACH_ONCE if pair not in DEAR]
NEXT = in_turn(ACCOUNTANTS, [*list(ACCOUNTANT_PLANTS)[1:], *list(ACCOUNTANT_PLANTS)[:1]])
OTHERS = [pair for pair in product(ACCOUNTANTS, ACCOUNTANT_PLANTS) if pair not in (*EACH_ONCE, *NEXT)]


@pytest.mark.parametrize(("name", "plant"), [*CHEAP, *tiered([*DEAR, *NEXT], 0, 4), *tiered(OTHERS, 0)])
def test_a_bug_in_any_accountant_is_seen(name: str, plant: str) -> None:
    accountant, bug = load(ACCOUNTANTS[name]), ACCOUNTANT_PLANTS[plant]
    if accountant.sound or bug.claims:  # one that is not promises nothing: what it may decide is tested below
        assert is_detected(bug, accountant), f"{plant} in {name} is not seen"


@pytest.mark.parametrize("name", [name for name, target in ACCOUNTANTS.items() if not load(target).sound])
def test_an_accountant_that_is_not_sound_decides_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    subject = pipeline(entry("gaussian", steps=9, noise_multiplier=3.0), entry("laplace", noise_multiplier=2.0))
    true = account(subject)
    for plant in (Plant(profile=TenthOfEpsilon), Plant(profile=LowerBoundLifted)):
        planted = plant.planted(load(ACCOUNTANTS[name]))
        with monkeypatch.context() as patched:
            patched.setattr(inquiry, "accountant_named", lambda n, p=planted: p if n == p.name else load(ACCOUNTANTS[n]))
            found = account(subject)
        row = next(row for row in found.rows if row.accountant.name == name)
        assert row.bound is not None and row.accountant is planted
        assert (found.upper, found.lower, found.winner) == (true.upper, true.lower, true.winner)

"""Every registered accountant against the enumeration, and bugs in it that must be seen, though nobody names it."""

from __future__ import annotations

import functools
from itertools import chain, product

import pytest

from dpcli.accountants.base import Accountant
from dpcli.analysis import asking
from dpcli.analysis.account import account
from dpcli.base.lazy import load
from dpcli.base.registry import ACCOUNTANTS, MECHANISMS
from tests.cases import every, in_turn, tiered
from tests.exam.accountant_plants import ACCOUNTANT_PLANTS, Lifted, Plant, Tenth
from tests.exam.known import Known, answers, known, one_of_each
from tests.exam.subjects import SEED
from tests.strategies import entry, pipeline

SLOW_LAST = tuple(reversed(MECHANISMS))


@functools.cache
def questions() -> tuple[Known, ...]:
    """Those first whose lower bounds an enumeration can contradict: a false one is found sooner."""
    return tuple(sorted(chain.from_iterable(map(known, SLOW_LAST)), key=lambda question: not question.tells_most(0)))


def seen(plant: Plant, accountant: Accountant) -> bool:
    """Whether some answer is false, asking only until there is one, and only what the bug touches; or nothing promises more.

    Of a mechanism whose bound no data attain, more may be promised than the bound allows and still be true.
    """
    harmless = True
    for question in questions():
        if plant.touches(accountant, question.steps):
            planted, true = (list(answers(one, [question])) for one in (plant.planted(accountant), accountant))
            if any(answer.false for answer in planted):
                return True
            tight = all(mechanism.attained() for mechanism, _ in question.steps)
            more = any(one.promises_more(other) for one, other in zip(planted, true, strict=False))
            harmless = harmless and not (tight and more)
    return harmless


SOUND = [name for name, target in ACCOUNTANTS.items() if load(target).sound]


@pytest.mark.sampled(28, 14)
@pytest.mark.parametrize(
    ("kind", "part"), [*every(8, MECHANISMS), *every(3, MECHANISMS, pytest.mark.long), *every(1, MECHANISMS, pytest.mark.nightly)]
)
def test_no_answer_is_false(kind: str, part: slice) -> None:
    questions = list(one_of_each(kind, str(SEED)))[part]
    found = {name: [answer for answer in answers(load(ACCOUNTANTS[name]), questions) if answer.false] for name in SOUND}
    assert {name: false for name, false in found.items() if false} == {}, f"seed {SEED}"


@pytest.mark.parametrize("name", SOUND)
def test_every_accountant_says_something(name: str) -> None:
    questions = chain.from_iterable(one_of_each(kind, str(SEED)) for kind in MECHANISMS)
    assert any(True for _ in answers(load(ACCOUNTANTS[name]), questions)), f"seed {SEED}"


EACH_ONCE = in_turn(ACCOUNTANTS, ACCOUNTANT_PLANTS)
NEXT = in_turn(ACCOUNTANTS, [*list(ACCOUNTANT_PLANTS)[1:], *list(ACCOUNTANT_PLANTS)[:1]])
OTHERS = [pair for pair in product(ACCOUNTANTS, ACCOUNTANT_PLANTS) if pair not in (*EACH_ONCE, *NEXT)]


@pytest.mark.parametrize(("name", "plant"), [*EACH_ONCE, *tiered(NEXT, 0, len(NEXT)), *tiered(OTHERS, 0)])
def test_a_bug_in_any_accountant_is_seen(name: str, plant: str) -> None:
    accountant, bug = load(ACCOUNTANTS[name]), ACCOUNTANT_PLANTS[plant]
    if accountant.sound or bug.claims:  # one that is not promises nothing: what it may decide is tested below
        assert seen(bug, accountant), f"{plant} in {name} is not seen"


@pytest.mark.parametrize("name", [name for name, target in ACCOUNTANTS.items() if not load(target).sound])
def test_an_accountant_that_is_not_sound_decides_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    subject = pipeline(entry("gaussian", steps=9, noise_multiplier=3.0), entry("laplace", noise_multiplier=2.0))
    true = account(subject)
    for plant in (Plant(profile=Tenth), Plant(profile=Lifted)):
        planted = plant.planted(load(ACCOUNTANTS[name]))
        with monkeypatch.context() as patched:
            patched.setattr(asking, "accountant_named", lambda n, p=planted: p if n == p.name else load(ACCOUNTANTS[n]))
            found = account(subject)
        row = next(row for row in found.rows if row.accountant.name == name)
        assert row.bound is not None and row.accountant is planted
        assert (found.upper, found.lower, found.winner) == (true.upper, true.lower, true.winner)

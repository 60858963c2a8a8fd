"""Tests that every accountant gives a number or a reason for every mechanism type, sampling scheme and adjacency."""

from __future__ import annotations

import math
from contextlib import suppress
from random import Random

import pytest

from dpcli.accountants.base import Accountant, Bound, PrivacyProfile, Steps, checked
from dpcli.analysis.account import account
from dpcli.base.errors import InputError, NotRepresentable
from dpcli.base.lazy import load
from dpcli.base.registry import ACCOUNTANTS, MECHANISMS
from dpcli.exam.subjects import SEED, drawn
from dpcli.file.pipeline.resolve import resolve
from dpcli.numerics.work import LEAST
from tests.cases import every
from tests.strategies import entry, pipeline

DELTAS = (1e-6, 0.1)
LARGE = DELTAS[-1]
TYPES = 6  # on which a search is tried
CROWDS = 3  # drawings of each type
CHEAP = [kind for kind in MECHANISMS if kind != "gaussian-mixture"]  # of which one question takes as long as one of each other type

# By how much delta(epsilon(delta)) may pass delta: what is a search for the best split, a lattice or a contour on the way there need
# not end at the same place on the way back; and beside a pure epsilon the last digits of epsilon are digits of delta.
BACK = {True: 3e-3, False: 1e-6}
SEARCHED = {"exact", "optimal", "advanced", "advanced-classical", "rdp-optimal"}

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def _searches(accountant: Accountant) -> bool:
    """Whether its delta(epsilon) is the general search."""
    return type(accountant.profile(())).delta is PrivacyProfile.delta


@pytest.mark.sampled(3, 5)
@pytest.mark.parametrize(
    ("kind", "part"), [*every(12, CHEAP), *every(4, MECHANISMS, pytest.mark.long), *every(1, MECHANISMS, pytest.mark.nightly)]
)
def test_every_accountant_answers_or_says_why(kind: str, part: slice) -> None:
    cases = list(enumerate(drawn(kind, str(SEED))))
    assert cases, f"nothing of type {kind} was drawn (seed {SEED})"
    for number, subject in cases[part]:
        rows = account(subject.pipeline).rows
        assert all((row.bound is None) == bool(row.reason) for row in rows), subject.source
        for name in ACCOUNTANTS:
            try:
                with suppress(NotRepresentable):
                    _asked(name, subject.steps, DELTAS[number % len(DELTAS)])
            except Exception as error:
                raise AssertionError(f"{name} {subject.source}") from error


@pytest.mark.sampled(3, 10)
@pytest.mark.parametrize(
    ("kind", "part"), [*every(13, MECHANISMS), *every(4, MECHANISMS, pytest.mark.long), *every(1, MECHANISMS, pytest.mark.nightly)]
)
def test_a_crowd_that_is_always_sampled_is_answered(kind: str, part: slice) -> None:
    """So many records that a sample holds one of them for certain: the rate of the whole group is 1, or rounds to it."""
    for subject in [one for k in range(CROWDS) for one in drawn(kind, f"{SEED}/{k}")][part]:
        for size in (300, 10**6):
            try:
                with suppress(InputError):
                    rows = account(subject.pipeline, ["basic", "rdp"], group_size=size).rows
                    assert all((row.bound is None) == bool(row.reason) for row in rows)
            except Exception as error:
                raise AssertionError(f"{size} at once {subject.source}") from error


@pytest.mark.sampled(0, 1)
@pytest.mark.parametrize("name", [name for name, target in ACCOUNTANTS.items() if _searches(load(target))])
def test_what_is_found_by_searching_leads_back(name: str) -> None:
    """The same of those whose delta(epsilon) is a search over epsilon(delta), which takes longer: on one case of some types."""
    for kind in Random(f"{SEED}/{name}").sample(list(MECHANISMS), TYPES):
        subject = Random(f"{SEED}/{kind}").choice(drawn(kind, str(SEED)))
        for delta in DELTAS:
            with suppress(NotRepresentable):
                _leads_back(name, subject.steps, delta, subject.source)


@pytest.mark.long
def test_two_pure_mechanisms_lead_back() -> None:
    """At a delta near 1 the lattice of several sizes says little, which is no reason to say nothing at a smaller one."""
    two = resolve(pipeline(entry("exponential", epsilon=1.0), entry("exponential", epsilon=0.1)))
    steps = tuple((charge.mechanism, charge.count) for charge in two)
    for delta in (1e-6, 0.1, 0.25, 0.4):
        _leads_back("optimal", steps, delta, "")


def _asked(name: str, steps: Steps, delta: float) -> None:
    """epsilon, delta back again where that is no search, and shares; NotRepresentable where there is none."""
    accountant = load(ACCOUNTANTS[name])
    profile = accountant.profile(steps).tuned(None, 0.1)
    with accountant.within_allowance(LEAST):
        checked(profile.epsilon(delta))
        profile.shares(delta)
    if not _searches(accountant) and name != "pld":  # whose own tests ask it this: the grid for an epsilon is another one
        _leads_back(name, steps, delta, "")


def _leads_back(name: str, steps: Steps, delta: float, said: str) -> None:
    """delta(epsilon(delta)) is at most delta, or its interval holds delta: with little noise both sides of one may lie far apart."""
    accountant = load(ACCOUNTANTS[name])
    profile = accountant.profile(steps)
    epsilon = checked(profile.epsilon(delta)).upper
    back = checked(profile.delta(epsilon)) if math.isfinite(epsilon) else Bound(0.0)
    within = delta * (1.0 + BACK[name in SEARCHED]) + 1e-11 * max(epsilon, 1.0)
    least = back.upper if back.lower is None else back.lower
    assert least <= within, f"{name}: {delta} -> {epsilon} -> {back} {said}"

"""Epsilons up to 1e300, where formulas overflow, and randomised response with up to 1e18 categories.

Every type that states an epsilon must not report less for a larger statement. For randomised response, whose record is replaced or blanked,
epsilon and delta are compared with the closed form in 60 digits.
"""

from __future__ import annotations

import math
from contextlib import suppress
from random import Random

import mpmath as mp
import pytest

from dpcli.accountants.exact import ExactProfile
from dpcli.analysis.account import account
from dpcli.analysis.account_rows import accountant_named
from dpcli.base.errors import NotRepresentable
from dpcli.base.lazy import load
from dpcli.base.registry import ACCOUNTANTS, MECHANISMS
from dpcli.exam.subjects import SEED
from dpcli.file.pipeline.model import Entry, Pipeline, Privacy
from dpcli.mechanisms.choice.randomized_response import BlankedResponse, RandomizedResponse
from dpcli.mechanisms.neighbours import Adjacency
from tests.cases import by_tier, fresh_random, of_each

mp.mp.dps = 60
STATING = [name for name in MECHANISMS if "epsilon" in load(MECHANISMS[name]).example]


def bound(name: str, epsilon: float) -> float:
    cls = load(MECHANISMS[name])
    entry = Entry("one", name, cls(**{**cls.example, "epsilon": epsilon}), 1)
    return account(Pipeline(Privacy(Adjacency.ZERO_OUT, unit="example", delta=1e-6), (entry,))).upper


@pytest.mark.sampled(2, 3)
@pytest.mark.parametrize("name", STATING)
def test_no_epsilon_falls_as_what_is_stated_grows(name: str) -> None:
    found = [bound(name, 10.0**power) for power in (0, 5, 300)]
    assert found == sorted(found) and found[0] > 0.5


def events(kind: type, epsilon: float, categories: int) -> list[tuple[mp.mpf, mp.mpf]]:
    """Return the probabilities, before and after the change, of the events one of which is the best test at any epsilon."""
    k = mp.mpf(categories)
    true = 1 / (1 + (k - 1) * mp.exp(-mp.mpf(epsilon)))
    false = mp.exp(-mp.mpf(epsilon)) * true
    return [(true, 1 / k), ((k - 1) / k, (k - 1) * false)] if kind is BlankedResponse else [(true, false)]


def least_epsilon(kind: type, epsilon: float, categories: int, delta: float) -> float:
    return float(max([mp.log((p - delta) / q) for p, q in events(kind, epsilon, categories) if p > delta], default=mp.mpf(0)))


@pytest.mark.parametrize("draws", by_tier(40, 200, 3000))
@of_each("kind", [RandomizedResponse, BlankedResponse])
def test_many_categories_cost_no_digits(kind: type, draws: int) -> None:
    random = Random(f"{SEED}/categories/{kind.__name__}")
    for _ in range(draws):
        epsilon, categories = 10.0 ** random.uniform(-15.0, 4.0), int(10.0 ** random.uniform(0.4, 18.0))
        delta = random.choice([10.0 ** random.uniform(-300.0, 0.0), random.random()])
        known = least_epsilon(kind, epsilon, categories, delta)
        found = kind(epsilon, categories).approx_dp(delta)
        assert found >= known * (1.0 - 1e-15), (epsilon, categories, delta)
        if known > 1e-3 * epsilon:
            assert found <= known * (1.0 + 1e-9) + 1e-9, (epsilon, categories, delta)


@of_each("epsilon", [1e-6, 0.5, 25.6, 50.0, 800.0])
@of_each("categories", [3, 10**6, 10**12, 10**15, 10**18])
def test_a_uniform_blank_among_many_categories_is_exact(categories: int, epsilon: float) -> None:
    delta = 1e-3 * math.exp(min(epsilon, 1.0)) * min(epsilon, 1.0) / categories
    known = least_epsilon(BlankedResponse, epsilon, categories, delta)
    found = ExactProfile(((BlankedResponse(epsilon, categories), 1),)).epsilon(delta)
    assert found.lower is not None
    assert found.lower * (1.0 - 1e-12) <= known <= found.upper * (1.0 + 1e-12)
    assert found.upper - found.lower <= 1e-6 * found.upper


@pytest.mark.parametrize("draws", by_tier(2, 4, 100))
@of_each("kind", [RandomizedResponse, BlankedResponse])
def test_delta_holds_up_to_the_largest_epsilons(kind: type, draws: int) -> None:
    """Every accountant's bounds hold: a probability is no sum of two large logarithms, and large differences are rounded up."""
    seed = fresh_random().getrandbits(32)
    random = Random(seed)
    for _ in range(draws):
        epsilon, categories = 10.0 ** random.choice((random.uniform(0.0, 7.0), random.uniform(7.0, 300.0))), random.randint(2, 1000)
        mechanism = kind(epsilon, categories)
        at = mechanism.approx_dp(0.0) * random.choice((random.random(), 1.0 - 10.0 ** random.uniform(-13.0, 0.0)))
        known = max(max(p - mp.exp(mp.mpf(at)) * q, mp.mpf(0)) for p, q in events(kind, epsilon, categories))
        for name in ACCOUNTANTS:
            accountant = accountant_named(name)
            profile = accountant.profile(((mechanism, 1),))
            if not accountant.sound:
                continue
            with suppress(NotRepresentable):
                bound = profile.delta(at)
                assert known <= bound.upper <= 1.0, (seed, name, epsilon, categories, at, bound)
                assert bound.lower is None or bound.lower <= known, (seed, name, epsilon, categories, at, bound)

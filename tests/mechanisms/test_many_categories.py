"""Randomised response with up to 1e18 categories and epsilons up to 1e300, for a record that is replaced or blanked: epsilon and delta
against the closed form in 60 digits.
"""

from __future__ import annotations

import math
from contextlib import suppress
from random import Random

import mpmath as mp
import pytest

from dpcli.accountants.exact import ExactProfile
from dpcli.analysis.account_rows import accountant_named
from dpcli.base.errors import NotRepresentable
from dpcli.base.registry import ACCOUNTANTS
from dpcli.exam.subjects import SEED
from dpcli.mechanisms.choice.randomized_response import BlankedResponse, RandomizedResponse
from tests.cases import by_tier, of_each

mp.mp.dps = 60


def truth(blanked: bool, epsilon: float, categories: int, delta: float) -> float:
    """Return the least epsilon at `delta`."""
    k, e0 = mp.mpf(categories), mp.mpf(epsilon)
    true = 1 / (1 + (k - 1) * mp.exp(-e0))
    false = mp.exp(-e0) * true
    pairs = ((true, 1 / k), ((k - 1) / k, (k - 1) * false)) if blanked else ((true, false),)
    return float(max([mp.log((p - delta) / q) for p, q in pairs if p > delta], default=mp.mpf(0)))


@pytest.mark.parametrize("draws", by_tier(40, 200, 3000))
@of_each("kind", [RandomizedResponse, BlankedResponse])
def test_many_categories_cost_no_digits(kind: type, draws: int) -> None:
    random = Random(f"{SEED}/categories/{kind.__name__}")
    for _ in range(draws):
        epsilon, categories = 10.0 ** random.uniform(-15.0, 4.0), int(10.0 ** random.uniform(0.4, 18.0))
        delta = random.choice([10.0 ** random.uniform(-300.0, 0.0), random.random()])
        known = truth(kind is BlankedResponse, epsilon, categories, delta)
        found = kind(epsilon, categories).approx_dp(delta)
        assert found >= known * (1.0 - 1e-15), (epsilon, categories, delta)
        if known > 1e-3 * epsilon:
            assert found <= known * (1.0 + 1e-9) + 1e-9, (epsilon, categories, delta)


@of_each("epsilon", [1e-6, 0.5, 25.6, 50.0, 800.0])
@of_each("categories", [3, 10**6, 10**12, 10**15, 10**18])
def test_a_uniform_blank_among_many_categories_is_exact(categories: int, epsilon: float) -> None:
    delta = 1e-3 * math.exp(min(epsilon, 1.0)) * min(epsilon, 1.0) / categories
    known = truth(True, epsilon, categories, delta)
    found = ExactProfile(((BlankedResponse(epsilon, categories), 1),)).epsilon(delta)
    assert found.lower is not None
    assert found.lower * (1.0 - 1e-12) <= known <= found.upper * (1.0 + 1e-12)
    assert found.upper - found.lower <= 1e-6 * found.upper


def true_delta(blanked: bool, epsilon: float, categories: int, at: float) -> mp.mpf:
    """Return delta at the epsilon `at`."""
    k, grown = mp.mpf(categories), mp.exp(mp.mpf(at))
    true = 1 / (1 + (k - 1) * mp.exp(-mp.mpf(epsilon)))
    false = mp.exp(-mp.mpf(epsilon)) * true
    pairs = ((true, 1 / k), ((k - 1) / k, (k - 1) * false)) if blanked else ((true, false),)
    return max(max(p - grown * q, mp.mpf(0)) for p, q in pairs)


@pytest.mark.parametrize("draws", by_tier(2, 4, 100))
@of_each("kind", [RandomizedResponse, BlankedResponse])
def test_delta_holds_up_to_the_largest_epsilons(kind: type, draws: int) -> None:
    """By every accountant that answers: a probability is no sum of two large logarithms; differences of large numbers are rounded up."""
    seed = Random().getrandbits(32)
    random = Random(seed)
    for _ in range(draws):
        epsilon, categories = 10.0 ** random.choice((random.uniform(0.0, 7.0), random.uniform(7.0, 300.0))), random.randint(2, 1000)
        mechanism = kind(epsilon, categories)
        at = mechanism.approx_dp(0.0) * random.choice((random.random(), 1.0 - 10.0 ** random.uniform(-13.0, 0.0)))
        known = true_delta(kind is BlankedResponse, epsilon, categories, at)
        for name in ACCOUNTANTS:
            accountant = accountant_named(name)
            profile = accountant.profile(((mechanism, 1),))
            if isinstance(profile, str) or not accountant.sound:
                continue
            with suppress(NotRepresentable):
                bound = profile.delta(at)
                assert known <= bound.upper <= 1.0, (seed, name, epsilon, categories, at, bound)
                assert bound.lower is None or bound.lower <= known, (seed, name, epsilon, categories, at, bound)

"""Randomised response with very many categories, against its closed form in high precision."""

from __future__ import annotations

import math
from random import Random

import mpmath as mp
import pytest

from dpcli.accountants.exact import ExactProfile
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

"""Sums of two-point losses (`two_point_epsilon`, the core of optimal composition) against full binomial sums and enumeration of every
subset of the steps, in high precision: never below the truth, and above it by no more than the lattice of losses allows.
"""

from __future__ import annotations

import math

import mpmath as mp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcli.base.stated import stated
from dpcli.numerics.closed.two_point_sums import two_point_epsilon
from tests import oracles
from tests.cases import of_each


@of_each("delta", [0.3, 1e-2, 1e-5, 1e-12, 1e-40])
@of_each(("epsilon", "count"), [(1.0, 1), (1.0, 2), (0.1, 10), (0.01, 700), (2.0, 30), (20.0, 3), (1e-6, 50)])
def test_equal_steps_are_exact(epsilon: float, count: int, delta: float) -> None:
    found = two_point_epsilon(((epsilon, count),), delta)
    if found < epsilon * count * (1.0 - 1e-15):  # else it is the plain sum, to its last digit
        assert oracles.binomial_delta(epsilon, count, found) <= delta
    if 0.0 < found < epsilon * count * (1.0 - 1e-9):
        assert oracles.binomial_delta(epsilon, count, found * (1.0 - 1e-6)) >= delta * (1.0 - 1e-9)


@pytest.mark.long
def test_many_equal_steps_stay_above_a_full_sum() -> None:
    epsilon, count, delta = 0.01, 20_000, 1e-9
    found = two_point_epsilon(((epsilon, count),), delta)
    assert delta * (1 - 1e-6) <= oracles.binomial_delta(epsilon, count, found) <= mp.mpf(delta)


@pytest.mark.parametrize("count", [10**6, 10**8])
def test_millions_of_steps_approach_the_gaussian_limit(count: int) -> None:
    """Losses of e0 = mu / sqrt(n) tend to a mu-Gaussian; the difference falls like 1/n, the lattice of losses adds one step."""
    epsilon = 1.0 / math.sqrt(count)
    exact = float(oracles.gaussian_epsilon(1.0, 1e-6))
    assert exact * (1.0 - 1e-5) <= two_point_epsilon(((epsilon, count),), 1e-6) <= exact * (1.0 + 1e-5) + 2.0 * epsilon


def check(epsilons: list[float], delta: float, tolerance: float) -> None:
    sizes = {e: epsilons.count(e) for e in epsilons}
    found = two_point_epsilon(tuple(sorted(sizes.items())), delta)
    worst = math.fsum(epsilons)
    exact = oracles.decreasing_root(lambda at: oracles.two_point_delta(epsilons, at), delta, worst)
    assert exact * (1.0 - 1e-9) <= found <= min(exact * (1.0 + tolerance) + 1e-3 * tolerance * max(epsilons), worst * (1.0 + 1e-14))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("delta", [1e-6, 1e-12])
@pytest.mark.parametrize(
    "epsilons",
    [
        [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8],
        [1.0, 1.0, 1.0, 2.0, 2.0, 0.5],
        [5.0, 0.001],
        [0.01] * 9 + [3.0],
        [10.0, 8.0, 0.3, 0.3],
    ],
)
def test_different_steps_against_every_subset(epsilons: list[float], delta: float) -> None:
    check(epsilons, delta, 0.01)


@given(st.lists(st.floats(0.01, 4.0), min_size=2, max_size=8), st.floats(-9.0, -0.5))
def test_random_steps_never_fall_below_the_subsets(epsilons: list[float], log10_delta: float) -> None:
    check(epsilons, 10.0**log10_delta, 10.0)


@pytest.mark.parametrize("epsilons", [[1.0, 2.0], [10.0, 8.0, 0.3, 0.3], [1.0, 1.0, 1.0, 2.0, 2.0, 0.5]])
def test_few_steps_at_a_large_delta(epsilons: list[float]) -> None:
    check(epsilons, 0.1, 0.01)


def test_edges() -> None:
    assert 2.0 <= two_point_epsilon(((0.5, 4),), 0.0) <= 2.0 + 1e-15
    assert two_point_epsilon((), 1e-5) == 0.0
    assert two_point_epsilon(((1.0, 1),), 0.999) == 0.0
    assert two_point_epsilon(((0.5, 4), (1.0, 2)), 1e-300) <= 4.0


@of_each(("epsilon", "count"), [(13.2, 8058), (142.4835223654604, 2118176), (45.9, 364693818), (109.9489737375877, 6)])
def test_the_largest_loss_is_rounded_up(epsilon: float, count: int) -> None:
    """All of the mass may lie at the largest loss, so an epsilon that is an ulp below it has a delta far above 1e-300."""
    assert stated(two_point_epsilon(((epsilon, count),), 1e-300)) >= count * stated(epsilon)
    assert stated(two_point_epsilon(((epsilon, count), (0.1, 3)), 0.0)) >= count * stated(epsilon) + 3 * stated(0.1)

"""The best test between two counts with Laplace noise (numerics/closed/trade_off.py): its curve of false positives and missed ones, against
scipy's Laplace distribution and a linear programme over all tests on a fine partition of the counts.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import optimize, stats

from dpcli.numerics.closed.trade_off import false_negatives, laplace_advantage, laplace_missed, laplace_tail, laplace_threshold

EPSILONS = (0.01, 0.5, 1.0, 4.0, 20.0)
every_epsilon = pytest.mark.parametrize("epsilon", EPSILONS)


@every_epsilon
def test_rates_are_those_of_the_distribution(epsilon: float) -> None:
    x = np.linspace(-5.0, 5.0, 41) / min(epsilon, 1.0)
    np.testing.assert_allclose(laplace_tail(epsilon, x), stats.laplace.sf(x, scale=1.0 / epsilon), rtol=1e-12)
    for rate in (1e-6, 0.01, 0.3, 0.5, 0.7, 0.999):
        tail = laplace_tail(epsilon, np.array([laplace_threshold(epsilon, rate)]))
        assert tail == pytest.approx(rate, rel=1e-12, abs=0.0)


@every_epsilon
def test_the_curve_is_that_of_the_best_tests(epsilon: float) -> None:
    """Thresholds lie on the curve, and no test on a fine partition of the counts lies below it, as a linear programme over them says."""
    x = np.linspace(-8.0, 9.0, 201) / min(epsilon, 1.0)
    np.testing.assert_allclose(
        laplace_missed(epsilon, laplace_tail(epsilon, x)), 1.0 - laplace_tail(epsilon, x - 1.0), rtol=1e-9, atol=1e-12
    )
    edges = np.concatenate([[-np.inf], np.linspace(0.0, 1.0, 60), [np.inf]])
    without, with_it = (np.diff(stats.laplace.cdf(edges, loc=at, scale=1.0 / epsilon)) for at in (0.0, 1.0))
    for alpha in (max(0.25 * math.exp(-epsilon), 1e-3), max(0.6 * math.exp(-0.5 * epsilon), 1e-2), 0.5, 0.9):
        found = optimize.linprog(-with_it, A_ub=without[None, :], b_ub=[alpha], bounds=(0.0, 1.0))
        (least,) = laplace_missed(epsilon, np.array([alpha]))
        assert least - 1e-4 <= 1.0 + found.fun <= least + 3e-3


@every_epsilon
def test_the_curve_attains_the_bound_at_both_ends_and_nowhere_between(epsilon: float) -> None:
    corner = 0.5 * math.exp(-epsilon)
    for alphas, attained in (
        (np.array([0.0, 0.5, 1.0]) * corner, True),
        (np.array([0.5, 0.7, 1.0]), True),
        (np.linspace(corner, 0.5, 7)[1:-1], False),
    ):
        gap = laplace_missed(epsilon, alphas) - false_negatives(np.array([epsilon]), np.array([0.0]), alphas)
        assert np.all(gap >= -1e-15)
        assert np.all((gap < 1e-13) == attained)


@every_epsilon
def test_the_advantage_is_the_largest_along_the_curve(epsilon: float) -> None:
    alphas = np.linspace(0.0, 1.0, 20001)
    assert laplace_advantage(epsilon) == pytest.approx(float((1.0 - alphas - laplace_missed(epsilon, alphas)).max()), rel=1e-3)
    assert laplace_advantage(epsilon) <= math.tanh(0.5 * epsilon)

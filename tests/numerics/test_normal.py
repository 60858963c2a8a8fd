"""The Gaussian mechanism in closed form (numerics/closed/normal.py).

The analytic curve: the published table and sixty-digit arithmetic, with bounds on their own sides. The classical noise of textbooks: where
it is proved (epsilon < 1) and where it fails.
"""

from __future__ import annotations

import math

import mpmath as mp
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from dpcli.numerics.closed.normal import (
    PROVED_BELOW,
    analytic_sigma,
    classical_delta,
    classical_sigma,
    fails_from,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_epsilon_upper,
)
from tests import oracles
from tests.cases import of_each

# (sigma, delta, epsilon to the digits shown), Balle & Wang 2018, Theorem 8
TABLE = [
    (1.0, 1e-5, 4.377178),
    (1.0, 1e-8, 5.776098),
    (1.0, 1e-10, 6.547924),
    (1.0, 1e-12, 7.238494),
    (1.0, 1e-14, 7.868736),
    (1.0, 1e-20, 9.510936),
    (1.0, 1e-30, 11.743883),
    (0.1, 1e-5, 91.81729),
    (0.05, 1e-5, 284.39185),
    (0.01, 1e-5, 5425.5098),
    (10.0, 1e-5, 0.34066936),
    (100.0, 1e-5, 0.02721942),
    (1000.0, 1e-5, 0.001938725),
]


@of_each(("sigma", "delta", "epsilon"), TABLE)
def test_published_table(sigma: float, delta: float, epsilon: float) -> None:
    lower, upper = gaussian_epsilon(1.0 / sigma, delta)
    assert lower <= upper <= lower * (1.0 + 1e-9)
    assert float(f"{upper:.{len(str(epsilon).replace('.', '').lstrip('0'))}g}") == pytest.approx(epsilon, rel=2e-7)


def test_zero_exactly_where_delta_covers_the_total_variation() -> None:
    assert gaussian_epsilon(1e-5, 1e-5) == (0.0, 0.0)
    variation = float(mp.erf(1 / mp.sqrt(8)))
    assert gaussian_epsilon_upper(1.0, variation * (1.0 + 1e-12)) == 0.0
    assert gaussian_epsilon_upper(1.0, variation * (1.0 - 1e-9)) > 0.0


def test_delta_zero_is_no_guarantee() -> None:
    assert gaussian_epsilon(1.0, 0.0) == (math.inf, math.inf)


@given(st.floats(-5.0, 4.0), st.floats(-300.0, -0.5))
def test_epsilon_is_bracketed(log10_mu: float, log10_delta: float) -> None:
    mu, delta = 10.0**log10_mu, 10.0**log10_delta
    lower, upper = gaussian_epsilon(mu, delta)
    assert 0.0 <= lower <= upper and upper == gaussian_epsilon_upper(mu, delta)
    if upper > 0.0:
        assert oracles.gaussian_delta(mu, upper) <= mp.mpf(delta)
    if lower > 0.0:
        assert oracles.gaussian_delta(mu, lower) >= mp.mpf(delta)


def test_delta_upper_is_never_zero() -> None:
    """Zero would claim pure privacy."""
    assert gaussian_delta(1.0, 100.0)[1] > 0.0


@given(st.floats(-3.0, 2.5), st.floats(0.0, 3.0))
def test_delta_is_bracketed(log10_mu: float, position: float) -> None:
    mu = 10.0**log10_mu
    assume(position * position * (mu + 8.0) ** 2 < 5000.0)  # far below 1e-300 the answer is no double any more
    epsilon = position * (0.5 * mu * mu + 4.0 * mu)
    lower, upper = gaussian_delta(mu, epsilon)
    exact = oracles.gaussian_delta(mu, epsilon)
    assert lower <= exact <= upper


@pytest.mark.parametrize(("mu", "epsilon"), [(1.0, 1.0), (0.1, 0.3), (20.0, 220.0), (0.01, 0.3)])
def test_delta_is_tight(mu: float, epsilon: float) -> None:
    lower, upper = gaussian_delta(mu, epsilon)
    assert upper - lower <= 1e-8 * upper  # 4e-16 |log delta|, magnified by the subtraction


@of_each(
    ("mu", "epsilon"),
    [(9.907261071038272e-15, 9.589351456594392e-14), (2.5595416248811e-14, 4.7773097344210e-13), (3e-15, 1.3e-14)],
)
def test_no_lower_bound_is_above_a_delta_that_rounding_exceeds(mu: float, epsilon: float) -> None:
    with mp.workdps(80):
        x, half = mp.mpf(epsilon) / mp.mpf(mu), mp.mpf(mu) / 2
        truth = mp.ncdf(half - x) - mp.exp(epsilon) * mp.ncdf(-half - x)
        lower, upper = gaussian_delta(mu, epsilon)
        assert lower <= truth <= upper
        assert gaussian_epsilon(mu, float(truth))[0] <= epsilon * (1.0 + 1e-9)


DELTAS = (0.3, 1e-2, 1e-5, 1e-9)


def delta_of(sigma: float, epsilon: float) -> float:
    return float(oracles.gaussian_delta(1.0 / sigma, epsilon))


def test_published_values() -> None:
    """4.84 at epsilon = 1 and delta = 1e-5 is in every lecture; 3.73 is the analytic noise there."""
    assert classical_sigma(1.0, 1e-5) == pytest.approx(4.844805262605389, rel=1e-14)
    assert analytic_sigma(1.0, 1e-5) == pytest.approx(3.730631634815, rel=1e-11)  # by 60 digits of bisection
    assert classical_sigma(0.5, 1.25 * math.exp(-8.0)) == 8.0


@of_each("delta", DELTAS)
@of_each("epsilon", [0.01, 0.5, 1.0, 3.0, 10.0])
def test_the_analytic_noise_is_the_least(epsilon: float, delta: float) -> None:
    sigma = analytic_sigma(epsilon, delta)
    assert delta_of(sigma, epsilon) == pytest.approx(delta, rel=1e-6, abs=0.0)
    assert delta_of(0.99 * sigma, epsilon) > delta > delta_of(1.01 * sigma, epsilon)
    assert delta_of(classical_sigma(epsilon, delta), epsilon) == pytest.approx(classical_delta(epsilon, delta), rel=1e-6, abs=0.0)


@pytest.mark.parametrize("delta", DELTAS)
def test_where_it_is_proved_it_is_enough_and_more(delta: float) -> None:
    for epsilon in (1e-3, 0.1, 0.5, 0.9, 0.999 * PROVED_BELOW):
        assert classical_sigma(epsilon, delta) > 1.1 * analytic_sigma(epsilon, delta)
        assert classical_delta(epsilon, delta) < delta


@pytest.mark.parametrize("delta", DELTAS)
def test_far_above_it_fails(delta: float) -> None:
    start = fails_from(delta)
    assert start > PROVED_BELOW
    assert delta_of(classical_sigma(start, delta), start) == pytest.approx(delta, rel=1e-6, abs=0.0)
    for factor in (1.01, 1.5, 3.0):
        assert delta_of(classical_sigma(start * factor, delta), start * factor) > delta > 0.0
        assert classical_sigma(start * factor, delta) < analytic_sigma(start * factor, delta)
        assert classical_sigma(start / factor, delta) > analytic_sigma(start / factor, delta)

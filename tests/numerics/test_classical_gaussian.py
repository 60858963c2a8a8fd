"""The classical noise of a Gaussian release against the exact one, where it is proved and where it fails."""

from __future__ import annotations

import math

import pytest
from scipy import integrate, stats

from dpcli.numerics.closed.normal import PROVED_BELOW, analytic_sigma, classical_delta, classical_sigma, fails_from
from tests.cases import of_each

DELTAS = (0.3, 1e-2, 1e-5, 1e-9)


def delta_of(sigma: float, epsilon: float) -> float:
    """By its definition: the area by which one density is above e^epsilon times the other."""
    start = epsilon * sigma * sigma + 0.5  # where they are e^epsilon apart

    def above(x: float) -> float:
        return float(stats.norm.pdf(x, 1.0, sigma) - math.exp(epsilon) * stats.norm.pdf(x, 0.0, sigma))

    return float(integrate.quad(above, start, start + 12.0 * sigma, epsabs=0.0, epsrel=1e-9, limit=200)[0])


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

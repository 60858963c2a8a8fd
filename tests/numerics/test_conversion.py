"""Conversions from Renyi divergence to epsilon (numerics/closed/conversion.py): against brute force over pairs with two outcomes, and
against each other. `optimal` must be the best that one order allows, and no conversion may be better.
"""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcli.numerics.closed.conversion import balle, classic, optimal, zcdp_epsilon
from tests import oracles
from tests.cases import of_each


def converted(name: str, order: float, rdp: float, delta: float) -> float:
    return float(
        {"balle": balle, "classic": classic, "optimal": optimal}[name](np.array([order]), np.array([rdp]), math.log(delta))[0]
    )


def worst_delta(order: float, rdp: float, epsilon: float) -> float:
    """Return max p - e^eps q over coins with D_a((p,1-p) || (q,1-q)) <= rdp, by a zooming grid over q and bisection over p."""
    limit = (order - 1.0) * rdp

    def largest_p(q: float) -> float:
        def fits(p: float) -> bool:
            a = order * math.log(p) + (1.0 - order) * math.log(q)
            b = order * math.log1p(-p) + (1.0 - order) * math.log1p(-q) if p < 1.0 else -math.inf
            return max(a, b) + math.log1p(math.exp(-abs(a - b))) <= limit

        low, high = q, 1.0 - 1e-16
        for _ in range(60):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if fits(middle) else (low, middle)
        return low

    def gap(log_q: float) -> float:
        q = math.exp(log_q)
        return largest_p(q) - math.exp(epsilon) * q

    low, high = -600.0, -1e-9
    for _ in range(14):
        points = np.linspace(low, high, 25)
        best = int(np.argmax([gap(float(x)) for x in points]))
        low, high = float(points[max(best - 1, 0)]), float(points[min(best + 1, 24)])
    return max(gap(0.5 * (low + high)), 0.0)


CASES = [
    (1.5, 0.3, 1e-3),
    (2.0, 1.0, 1e-5),
    (3.0, 0.01, 1e-4),
    (8.12, 1.2, 1e-5),
    (32.0, 1.1, 1e-5),
    (1.05, 0.5, 1e-2),
    (64.0, 0.2, 1e-9),
]


@pytest.mark.parametrize(("order", "rdp", "delta"), CASES)
def test_joint_range_is_the_best_that_one_order_allows(order: float, rdp: float, delta: float) -> None:
    """At its epsilon no pair of coins exceeds delta, and a hair below it some pair does."""
    epsilon = converted("optimal", order, rdp, delta)
    assert worst_delta(order, rdp, epsilon) <= delta * (1.0 + 1e-6)  # the brute force rounds by 1e-16 / delta
    assert worst_delta(order, rdp, epsilon * (1.0 - 1e-5) - 1e-7) >= delta * (1.0 - 1e-9)


@of_each(("order", "rdp", "delta"), CASES)
@of_each("name", ["balle", "classic"])
def test_published_conversions_hold_for_the_worst_pair(name: str, order: float, rdp: float, delta: float) -> None:
    assert worst_delta(order, rdp, converted(name, order, rdp, delta)) <= delta * (1.0 + 1e-9)


@given(st.floats(-3.0, 3.0), st.floats(-4.0, 1.5), st.floats(-30.0, -0.5))
def test_order_of_the_conversions(log10_z: float, log10_rdp: float, log10_delta: float) -> None:
    order, rdp, delta = 1.0 + 10.0**log10_z, 10.0**log10_rdp, 10.0**log10_delta
    best, better, plain = (converted(name, order, rdp, delta) for name in ("optimal", "balle", "classic"))
    assert better <= plain * (1.0 + 1e-12)
    if order * delta < 0.5:  # beyond, the worst pair sits on the boundary p = 1, which the stationary search only approaches
        assert best == math.inf or best <= better * (1.0 + 1e-9) + 1e-9  # its own upward rounding
    assert not math.isnan(best)


@pytest.mark.parametrize("name", ["balle", "classic"])
def test_an_infinite_divergence_gives_no_epsilon(name: str) -> None:
    assert converted(name, 2.0, math.inf, 1e-5) == math.inf


@pytest.mark.parametrize("rdp", [math.inf, math.nan, 3e6])
def test_joint_range_of_large_divergences(rdp: float) -> None:
    """A mechanism of pure epsilon 3 million has D_2 <= 3 million and needs nearly all of it."""
    assert converted("optimal", 2.0, rdp, 1e-5) > 2.9e6


@given(st.integers(2, 5), st.floats(1.1, 30.0), st.floats(-8.0, -0.7), st.randoms(use_true_random=False))
def test_conversions_hold_for_random_pairs(size: int, order: float, log10_delta: float, random: object) -> None:
    rng = np.random.default_rng(random.getrandbits(32))  # type: ignore[attr-defined]
    p, q = rng.dirichlet(np.full(size, 0.5)) + 1e-12, rng.dirichlet(np.full(size, 0.5)) + 1e-12
    p, q = p / p.sum(), q / q.sum()
    delta, rdp = 10.0**log10_delta, oracles.renyi(p, q, order)
    for name in ("optimal", "balle", "classic"):
        epsilon = converted(name, order, rdp, delta)
        assert epsilon == math.inf or oracles.hockey_stick(p, q, epsilon) <= delta * (1.0 + 1e-9) + 1e-15


@of_each("delta", [0.5, 1e-2, 1e-5, 1e-12, 1e-100, 1e-300])
@of_each("rho", [1e-12, 1e-4, 0.05, 0.81, 10.0, 1e5])
def test_zcdp_epsilon_is_the_best_order(rho: float, delta: float) -> None:
    """The oracle is the minimum over a fine grid in thirty digits; the result is never below it by more than rounding."""
    with mp.workdps(30):

        def bound(z: mp.mpf) -> mp.mpf:
            return rho * (1 + z) + mp.log(z / (1 + z)) - (mp.log(mp.mpf(delta)) + mp.log(1 + z)) / z

        centre = mp.log(mp.sqrt(-mp.log(mp.mpf(delta)) / rho))
        low, high = centre - 8, centre + 8
        for _ in range(12):
            points = [low + (high - low) * i / 20 for i in range(21)]
            best = min(range(21), key=lambda i: bound(mp.exp(points[i])))
            low, high = points[max(best - 1, 0)], points[min(best + 1, 20)]
        exact = max(bound(mp.exp((low + high) / 2)), mp.mpf(0))
    found = zcdp_epsilon(rho, delta)
    assert exact * (1 - mp.mpf("1e-12")) <= found <= exact * (1 + mp.mpf("1e-3")) + mp.mpf("1e-12")


def test_zcdp_epsilon_of_nothing() -> None:
    assert zcdp_epsilon(0.0, 1e-9) == 0.0

"""The search over Renyi orders (numerics/orders.py).

Any order gives a valid epsilon; the search must find the deepest of several valleys and go to its bottom. `least_rho`, over the same
orders, must miss none, as a maximum that is missed is a rho that is too small.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcli.accountants.base import Accountant
from dpcli.accountants.rdp import ACCOUNTANT, CLASSIC
from dpcli.accountants.renyi_curve import renyi_curve
from dpcli.mechanisms.noise.laplace import Laplace
from dpcli.mechanisms.sampling.poisson import PoissonSampled
from dpcli.mechanisms.stated.pure_and_approx import Pure
from dpcli.numerics.arrays import Array
from dpcli.numerics.closed.conversion import balle, classic
from dpcli.numerics.orders import least_over_orders, least_rho
from tests.cases import of_each

FINE = 4.0 * 2.0 ** np.linspace(-12.0, 24.0, 36 * 64 + 1)  # where the least value is looked for one by one


@given(st.floats(-24.0, 24.0), st.floats(0.5, 3.0))
def test_one_valley_is_found_to_its_bottom(centre: float, width: float) -> None:
    calls: dict[float, float] = {}

    def f(z: Array) -> Array:
        values = np.asarray(3.0 + ((np.log(z) - centre) / width) ** 2)
        calls.update(zip(z.tolist(), values.tolist(), strict=True))
        return values

    z, value = least_over_orders(f)
    assert calls[z] == value == min(calls.values())
    assert 3.0 <= value <= 3.0 + 1e-9 / width**2
    assert len(calls) < 130


@given(st.lists(st.tuples(st.floats(3.5, 6.0), st.floats(0.0, 1.0)), min_size=2, max_size=4))
def test_the_deepest_of_several_valleys_is_found(steps: list[tuple[float, float]]) -> None:
    """Each valley is wide enough to be seen from points a factor of 2 apart: a factor e from bottom to ridge, and above z = 1/64."""
    valleys = list(
        zip(itertools.accumulate((step for step, _ in steps), initial=-4.0), (depth for _, depth in steps), strict=False)
    )

    def f(z: Array) -> Array:
        """Return the valleys on high ground. The search would stop where a value is twice the least one."""
        return np.asarray(100.0 + np.min([depth + np.abs(np.log(z) - centre) for centre, depth in valleys], axis=0))

    assert least_over_orders(f)[1] <= 100.0 + min(depth for _, depth in valleys) + 1e-4


@pytest.mark.parametrize("top", [1e-9, 0.01, 3.0, 1e5])
def test_beside_a_cliff(top: float) -> None:
    """Renyi curves are finite up to some order and then infinite, or NaN where arithmetic gave up."""

    def f(z: Array) -> Array:
        with np.errstate(invalid="ignore"):
            return np.where(z <= top, 10.0 / z + z, np.where(z < 10.0 * top, np.inf, np.nan))

    z, value = least_over_orders(f)
    exact = 10.0 / min(top, math.sqrt(10.0)) + min(top, math.sqrt(10.0))
    assert z <= top and exact <= value * (1.0 + 1e-12) <= exact * (1.0 + 1e-4)


def test_a_corner_at_an_integer_order_is_met() -> None:
    assert least_over_orders(lambda z: np.where(z <= 15.0, 30.0 / z, np.inf)) == (15.0, 2.0)


def test_the_least_of_nothing_is_infinite() -> None:
    assert least_over_orders(lambda z: np.full_like(z, np.nan))[1] == math.inf


def test_nothing_costs_nothing() -> None:
    z, value = least_over_orders(np.zeros_like)
    assert value == 0.0 and z > 0.01


CASES = [(1.0, 0.316, 10, 1e-2), (0.118879, 0.173923, 10, 2.68449e-11), (1.0, 1e-4, 2, 1e-4), (0.3, 0.7, 100, 1e-6)]


@of_each(("accountant", "conversion"), [(ACCOUNTANT, balle), (CLASSIC, classic)])
@of_each(("epsilon", "rate", "steps", "delta"), CASES)
def test_sampled_pure_mechanisms(
    accountant: Accountant, conversion: object, epsilon: float, rate: float, steps: int, delta: float
) -> None:
    """Their curve is the larger of two directions, each the smaller of several bounds: against all orders, one by one, and back."""
    composition = ((PoissonSampled(Pure(epsilon), rate), steps),)
    profile = accountant.compose(composition)
    every = conversion(1.0 + FINE, renyi_curve(composition).at(1.0 + FINE), math.log(delta))  # type: ignore[operator]
    found = profile.epsilon(delta).upper
    assert found <= float(every.min()) * (1.0 + 1e-8)
    assert profile.delta(found).upper <= delta * (1.0 + 1e-9)


def test_orders_that_are_useless_are_not_looked_at() -> None:
    """If the divergence alone exceeds the best value so far, larger orders, which cost the most, are not evaluated."""
    asked: list[float] = []

    def bound(z: Array) -> Array:
        asked.extend(z.tolist())
        return np.asarray(0.5 * z + 12.0 / z)

    assert least_over_orders(bound)[1] == pytest.approx(math.sqrt(24.0), rel=1e-8)
    assert max(asked) <= 64.0
    assert least_over_orders(lambda z: np.minimum(0.5 * z, 3.0) + 12.0 / z)[1] == pytest.approx(3.0, rel=1e-8)


@of_each("kind", [Pure, Laplace])
@of_each("epsilon", [1e-4, 0.1, 1.0, 5.0, 40.0, 300.0])
def test_rho_of_a_bounded_loss(kind: Callable[[float], Pure | Laplace], epsilon: float) -> None:
    """Both closed forms are tight, the latter at z = 0."""
    mechanism = kind(epsilon)
    found = least_rho(mechanism.losses()[0].cgf, epsilon)
    assert mechanism.zcdp() * (1 - 1e-11) <= found <= mechanism.zcdp() * 1.0011


def test_rho_that_is_needed_at_a_large_order_is_found() -> None:
    """A rare, large loss: K(z)/(z(z+1)) has its maximum far from 0, and no order is missed."""

    def cgf(z: Array) -> Array:  # ratio e^50 with probability e^-60 under Q, else about 1
        return np.asarray(np.logaddexp(0.0, 50.0 * (z + 1.0) - 60.0)) - np.logaddexp(0.0, -10.0)

    z = np.geomspace(1e-3, 1e6, 200_000)
    most = float(np.max(cgf(z) / z / (z + 1.0)))
    assert math.isfinite(most) and most <= least_rho(cgf, 50.0) <= most * 1.01

"""rho-zCDP of every mechanism: its Renyi divergence is at most rho a at every order a, and rho is the least such number where the docstring
claims it. With xi: the whole of xi is added once.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcli.accountants.rdp import RdpProfile
from dpcli.accountants.zcdp import ZcdpProfile
from dpcli.base.errors import NotRepresentable
from dpcli.mechanisms.choice.exponential import BoundedRange
from dpcli.mechanisms.choice.randomized_response import RandomizedResponse
from dpcli.mechanisms.combined.composed import Composed, Parallel
from dpcli.mechanisms.combined.group import Group
from dpcli.mechanisms.mechanism import Mechanism
from dpcli.mechanisms.noise.discrete_gaussian import DiscreteGaussian
from dpcli.mechanisms.noise.discrete_laplace import DiscreteLaplace
from dpcli.mechanisms.noise.gaussian import Gaussian
from dpcli.mechanisms.noise.gaussian_spec import SampledGaussian, SampledGaussianReplaced
from dpcli.mechanisms.noise.laplace import Laplace
from dpcli.mechanisms.sampling.poisson import PoissonReplaced, PoissonSampled
from dpcli.mechanisms.stated.pure_and_approx import Pure, approx
from dpcli.mechanisms.stated.renyi import Zcdp
from dpcli.numerics.closed.conversion import balle, balle_delta, zcdp_epsilon
from tests.cases import fresh_random, of_each
from tests.oracles import Array

Z: Array = np.geomspace(1e-3, 1e5, 300)

MECHANISMS: list[Mechanism] = [
    *(Pure(e) for e in (1e-3, 0.5, 3.0, 12.0, 500.0)),
    *(Laplace(e) for e in (1e-4, 2e-3, 0.5, 3.0, 50.0)),
    *(BoundedRange(e) for e in (1e-3, 0.5, 3.0, 7.9, 8.1, 40.0)),
    RandomizedResponse(1.0, 2),
    RandomizedResponse(3.0, 20),
    DiscreteLaplace(1.0, 1),
    DiscreteLaplace(3.0, 4),
    DiscreteGaussian(0.4, 1),
    DiscreteGaussian(2.0, 3),
    Gaussian(0.9),
    Zcdp(0.3, 0.2),
    Composed(((Laplace(0.5), 3), (Gaussian(0.2), 2))),
    Parallel((Composed(((Laplace(0.5), 3),)), Composed(((Gaussian(0.2), 2),)))),
    Group(Pure(0.3), 3),
]


@of_each("mechanism", MECHANISMS)
def test_rho_bounds_the_whole_curve(mechanism: Mechanism) -> None:
    assert (mechanism.rdp(1.0 + Z) <= mechanism.zcdp() * (1.0 + Z) * (1.0 + 1e-7)).all()  # upward slack at tiny epsilon


@pytest.mark.parametrize("mechanism", [Pure(0.5), Pure(3.0), Laplace(0.5), Laplace(3.0), Laplace(2e-3)], ids=repr)
def test_rho_is_tight_at_order_one(mechanism: Mechanism) -> None:
    """These mechanisms claim the smallest rho. It is reached as the order falls to 1, where D_1 is the mean loss."""
    z = np.array([1e-6])
    assert mechanism.rdp(1.0 + z)[0] >= mechanism.zcdp() * (1.0 - 1e-5)


def test_rho_of_a_gaussian_is_exact() -> None:
    assert Gaussian(0.6).zcdp() == pytest.approx(0.18, rel=1e-15)
    assert DiscreteGaussian(2.0, 3).zcdp() == pytest.approx(9.0 / 8.0, rel=1e-15)


def test_rho_of_sums_and_groups() -> None:
    assert Composed(((Pure(0.5), 3), (Gaussian(0.2), 2))).zcdp() == pytest.approx(3 * Pure(0.5).zcdp() + 0.04, rel=1e-14)
    assert Group(Gaussian(0.2), 3).zcdp() == pytest.approx(9 * 0.02, rel=1e-14)


@given(st.floats(1e-3, 30.0))
def test_bounded_range_is_never_dearer_than_pure(epsilon: float) -> None:
    assert BoundedRange(epsilon).zcdp() <= Pure(epsilon).zcdp()
    assert (BoundedRange(epsilon).rdp(1.0 + Z) <= Pure(epsilon).rdp(1.0 + Z) * (1.0 + 1e-9)).all()


@pytest.mark.parametrize(
    "mechanism",
    [SampledGaussian(1.0, 0.1), SampledGaussianReplaced(1.0, 0.1), PoissonSampled(Pure(1.0), 0.1), PoissonReplaced(Pure(1.0), 0.1)],
    ids=repr,
)
def test_sampling_claims_no_rho(mechanism: Mechanism) -> None:
    with pytest.raises(NotRepresentable, match="sampling does not lower rho"):
        mechanism.zcdp()


def test_a_stated_delta_has_no_renyi_form() -> None:
    for view in (approx(1.0, 1e-6).zcdp, lambda: approx(1.0, 1e-6).rdp(np.array([2.0]))):
        with pytest.raises(NotRepresentable, match="may reveal everything"):
            view()


def test_a_rho_far_below_xi_is_not_lost_in_the_rounding_of_xi() -> None:
    """Three times rho = 1e-17 add what 3e-17 costs to the sum of the xis, which is about 1.3."""
    random = fresh_random()
    xis, rho, delta = [random.uniform(0.1, 1.0) for _ in range(3)], 3e-17, 10.0 ** random.uniform(-300.0, -40.0)
    steps = tuple((Zcdp(1e-17, xi), 1) for xi in xis)
    for case in (steps, ((Composed(steps), 1),)):
        epsilon = ZcdpProfile(case).epsilon(delta).upper
        assert epsilon - sum(xis) >= 0.999 * zcdp_epsilon(rho, delta) > 1e-8, (xis, delta, epsilon)


def test_xi_is_added_to_epsilon_once() -> None:
    """Every order has the whole of xi, so that the zcdp accountant has the epsilon of the Renyi curve, at 1e-6 and any other delta."""
    random = fresh_random()
    for count in (1, 7):
        stated, other = (
            Zcdp(random.uniform(1e-4, 0.5), random.uniform(1e-4, 2.0)),
            Composed(((Zcdp(0.1, 0.2), 2), (Gaussian(0.3), 1))),
        )
        delta = 10.0 ** random.uniform(-12.0, -1.0)
        steps = ((stated, count), (other, 1), (stated.unclaimed(), 1))
        zcdp, renyi = ZcdpProfile(steps).epsilon(delta), RdpProfile(steps, balle, balle_delta).epsilon(delta)
        assert zcdp.upper == pytest.approx(renyi.upper, rel=1e-6), (steps, delta)
        assert zcdp.detail["xi"] == pytest.approx((count + 1) * stated.xi + 0.4, rel=1e-14), (steps, delta)
        assert ZcdpProfile(steps).rho() == pytest.approx(zcdp.detail["xi"] + zcdp.detail["rho"], rel=1e-14), (steps, delta)

"""Every Renyi curve against quadrature or closed sums in thirty digits: never below the exact value, and above it by rounding only."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcli.mechanisms.choice.exponential import BoundedRange
from dpcli.mechanisms.choice.randomized_response import RandomizedResponse
from dpcli.mechanisms.combined.composed import Composed
from dpcli.mechanisms.mechanism import Mechanism
from dpcli.mechanisms.noise.discrete_gaussian import DiscreteGaussian
from dpcli.mechanisms.noise.discrete_laplace import DiscreteLaplace
from dpcli.mechanisms.noise.gaussian import Gaussian
from dpcli.mechanisms.noise.gaussian_spec import SampledGaussian, SampledGaussianReplaced
from dpcli.mechanisms.noise.laplace import Laplace
from dpcli.mechanisms.noise.normal_mixture import MixtureAddLoss, MixtureRemoveLoss
from dpcli.mechanisms.stated.pure_and_approx import Pure
from dpcli.mechanisms.stated.renyi import Renyi
from dpcli.numerics.mixture import binomial_mixture
from tests import oracles
from tests.cases import of_each
from tests.oracles import Array

ORDERS = [1.0 + 2.0**-20, 1.01, 1.5, 2.0, 3.25, 8.12, 33.0, 300.0]
ROUNDING = 1e-13  # of the formulas in doubles; their own upward slack is 1e-15 to 1e-12


def rdp(mechanism: Mechanism, order: float) -> float:
    return float(mechanism.rdp(np.array([order]))[0])


def between(found: float, exact: mp.mpf, tolerance: float, atol: float = 0.0) -> None:
    """Assert exact <= found <= exact (1 + tolerance), both up to rounding."""
    assert exact * (1 - ROUNDING) - atol <= found <= exact * (1 + tolerance) + atol


# Orders near 1 are exact sums whose order itself is rounded: z = order - 1 is what counts, and 2^-20 is exact.


@of_each("order", ORDERS)
@of_each("epsilon", [1e-9, 1e-4, 0.3, 1.0, 5.0, 40.0])
def test_laplace(epsilon: float, order: float) -> None:
    """Closed form in thirty digits; the closed form itself is checked by quadrature below."""
    with mp.workdps(50):
        z, e0 = mp.mpf(order) - 1, mp.mpf(epsilon)
        exact = mp.log((z + 1) / (2 * z + 1) * mp.exp(z * e0) + z / (2 * z + 1) * mp.exp(-(z + 1) * e0)) / z
    # half an ulp of e0 is added for the cancellation at tiny e0: relative to e0^2 / 2 that is 1e-15 / e0
    between(rdp(Laplace(epsilon), order), exact, 1e-12 + 2e-15 / (epsilon * (order - 1.0)))


@pytest.mark.parametrize(("epsilon", "z"), [(0.3, 0.5), (1.0, 1.0), (2.0, 7.0)])
def test_laplace_closed_form_by_quadrature(epsilon: float, z: float) -> None:
    between(rdp(Laplace(epsilon), 1.0 + z) * z, oracles.laplace_cgf(epsilon, z), 1e-12)


@of_each("order", ORDERS)
@of_each("epsilon", [1e-9, 1e-4, 0.3, 1.0, 5.0, 40.0, 600.0, 2000.0])
def test_pure(epsilon: float, order: float) -> None:
    with mp.workdps(1500 if epsilon > 100 else 60):
        z, e0 = mp.mpf(order) - 1, mp.mpf(epsilon)
        p = 1 / (1 + mp.exp(-e0))
        exact = mp.log(p * mp.exp(z * e0) + (1 - p) * mp.exp(-z * e0)) / z
    between(rdp(Pure(epsilon), order), exact, 1e-12, 1e-15 * epsilon if epsilon > 20 else 0.0)


@of_each("order", ORDERS)
@of_each(("epsilon", "categories"), [(1e-6, 2), (0.5, 2), (1.0, 4), (3.0, 10), (8.0, 1000), (0.2, 10**6)])
def test_randomized_response(epsilon: float, categories: int, order: float) -> None:
    with mp.workdps(40):
        z, other = mp.mpf(order) - 1, 1 / (mp.exp(mp.mpf(epsilon)) + categories - 1)
        kept = mp.exp(mp.mpf(epsilon)) * other
        ratio = mp.exp(mp.mpf(epsilon))
        exact = mp.log1p(kept * (ratio**z - 1) + other * (ratio**-z - 1)) / z
    between(rdp(RandomizedResponse(epsilon, categories), order), exact, 1e-12)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("scale", "sensitivity"), [(1.0, 1), (2.0, 3), (0.4, 5), (30.0, 7)])
def test_discrete_laplace(scale: float, sensitivity: int, order: float) -> None:
    p, q = oracles.discrete_laplace_pair(scale, sensitivity)
    with mp.workdps(oracles.DIGITS):
        exact = oracles.finite_cgf(p, q, order - 1.0) / (mp.mpf(order) - 1)
    between(rdp(DiscreteLaplace(scale, sensitivity), order), exact, 1e-12)


@of_each("order", [1.0 + 2.0**-10, 1.25, 1.5, 2.0, 3.25, 8.5, 33.0])
@of_each(("sigma", "sensitivity"), [(0.1, 1), (0.3, 1), (0.5, 2), (1.0, 1), (1.0, 3), (2.9, 4), (3.1, 1), (20.0, 7)])
def test_discrete_gaussian(sigma: float, sensitivity: int, order: float) -> None:
    """Shifted theta sums in thirty digits."""
    with mp.workdps(40):
        s, z = mp.mpf(sigma), mp.mpf(order) - 1
        reach = math.ceil(16 * sigma) + 3
        shift = z * sensitivity - mp.nint(z * sensitivity)
        theta, norm = (mp.fsum(mp.exp(-((y - c) ** 2) / (2 * s * s)) for y in range(-reach, reach + 1)) for c in (shift, 0))
        exact = (z * (z + 1) * sensitivity**2 / (2 * s * s) + mp.log(theta / norm)) / z
    between(rdp(DiscreteGaussian(sigma, sensitivity), order), exact, 1e-12, 2e-15 / (order - 1.0))


def test_discrete_gaussian_closed_form_by_summing_the_pair() -> None:
    p, q = oracles.discrete_gaussian_pair(0.7, 2)
    between(rdp(DiscreteGaussian(0.7, 2), 2.5) * 1.5, oracles.finite_cgf(p, q, 1.5), 1e-12)


def test_discrete_gaussian_without_noise_is_never_free() -> None:
    assert rdp(DiscreteGaussian(0.01, 1), 1.5) > 100.0


@of_each("order", ORDERS)
@of_each("epsilon", [1e-6, 0.1, 1.0, 4.0, 12.0])
def test_bounded_range_is_the_largest_over_t(epsilon: float, order: float) -> None:
    """A zooming grid over t in [0, eps] of the exact two-outcome moment."""
    with mp.workdps(40):
        z, e0 = mp.mpf(order) - 1, mp.mpf(epsilon)

        def moment(t: mp.mpf) -> mp.mpf:
            p = (mp.exp(e0) - mp.exp(t)) / mp.expm1(e0)
            return mp.log1p(p * mp.expm1(z * t) + (1 - p) * mp.expm1(z * (t - e0))) / z

        low, high = mp.mpf(0), e0
        for _ in range(14):
            points = [low + (high - low) * i / 10 for i in range(11)]
            best = max(range(11), key=lambda i: moment(points[i]))
            low, high = points[max(best - 1, 0)], points[min(best + 1, 10)]
        exact = moment((low + high) / 2)
    between(rdp(BoundedRange(epsilon), order), exact, 1e-11)


SAMPLED = [
    (1.0 / 1.1, 256 / 60000, 7.12, 1),
    (1.0, 0.01, 0.25, 1),
    (0.25, 0.5, 31.0, 1),
    (3.0, 1e-4, 2.0, 1),
    (0.02, 0.3, 1.5, 1),
    (1.0, 0.999, 3.0, 1),
    (1.0, 1e-9, 1.0, 1),
    (2.0, 1e-6, 0.01, 1),
    (0.5, 0.01, 2.0, 2),
    (1.0, 0.2, 1.5, 3),
    (0.2, 1e-4, 6.0, 20),
    (1.0, 1e-8, 1.5, 2),
    (0.05, 1e-10, 0.5, 5),
]


SIDES = {"remove": MixtureRemoveLoss, "add": MixtureAddLoss}


@pytest.mark.sampled(1, 4)
@pytest.mark.parametrize(("mu", "rate", "z", "records"), SAMPLED)
@pytest.mark.parametrize("direction", ["remove", "add"])
def test_sampled_gaussian(direction: str, mu: float, rate: float, z: float, records: int) -> None:
    loss = SIDES[direction](binomial_mixture(mu, rate, records))
    exact = oracles.sampled_gaussian_cgf(mu, rate, z, direction, records)
    assert exact <= loss.cgf(np.array([z]))[0] <= exact * (1 + mp.mpf("1e-11"))


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("mu", "rate", "z"),
    [(1.0 / 1.1, 256 / 60000, 4.5), (1.0, 0.01, 0.25), (0.25, 0.5, 15.0), (2.0, 1e-4, 2.0), (0.02, 0.3, 1.5), (1.0, 0.999, 3.0)],
)
def test_sampled_gaussian_replaced(mu: float, rate: float, z: float) -> None:
    exact = oracles.replaced_gaussian_cgf(mu, rate, z)
    found = SampledGaussianReplaced(mu, rate).losses()[0].cgf(np.array([z]))[0]
    assert exact <= found <= exact * (1 + mp.mpf("1e-11"))


@pytest.mark.nightly
@given(st.floats(-2.0, 0.5), st.floats(-4.0, -0.01), st.floats(-14.0, 1.0))
@settings(max_examples=10)
def test_sampled_gaussian_replaced_anywhere(log10_mu: float, log10_rate: float, log10_z: float) -> None:
    mu, rate, z = 10.0**log10_mu, 10.0**log10_rate, 10.0**log10_z
    exact = oracles.replaced_gaussian_cgf(mu, rate, z)
    found = SampledGaussianReplaced(mu, rate).losses()[0].cgf(np.array([z]))[0]
    assert exact <= found <= exact * (1 + mp.mpf("1e-11"))


def test_sampled_gaussian_at_a_vanishing_rate() -> None:
    """The integrand stays quadratic, with its peak at 2 mu rather than mu."""
    exact = oracles.sampled_gaussian_cgf(5.0, 1e-25, 0.01, "remove")
    assert exact <= MixtureRemoveLoss(binomial_mixture(5.0, 1e-25, 1)).cgf(np.array([0.01]))[0]


@pytest.mark.long
@given(st.floats(-2.0, 0.7), st.floats(-6.0, -0.01), st.floats(-14.0, 1.5), st.sampled_from(["remove", "add"]))
@settings(max_examples=10)
def test_sampled_gaussian_anywhere(log10_mu: float, log10_rate: float, log10_z: float, direction: str) -> None:
    mu, rate, z = 10.0**log10_mu, 10.0**log10_rate, 10.0**log10_z
    loss = SIDES[direction](binomial_mixture(mu, rate, 1))
    exact = oracles.sampled_gaussian_cgf(mu, rate, z, direction)
    assert exact <= loss.cgf(np.array([z]))[0] <= exact * (1 + mp.mpf("1e-11"))


@given(st.floats(-2.0, 0.5), st.floats(-5.0, -0.02), st.floats(-2.0, 2.0))
def test_remove_is_the_larger_direction(log10_mu: float, log10_rate: float, log10_z: float) -> None:
    """Mironov, Talwar, Zhang 2019, Theorem 5, on which the single-record curve relies."""
    mu, rate, z = 10.0**log10_mu, 10.0**log10_rate, np.array([10.0**log10_z])
    mixture = binomial_mixture(mu, rate, 1)
    assert MixtureAddLoss(mixture).cgf(z)[0] <= MixtureRemoveLoss(mixture).cgf(z)[0] * (1.0 + 1e-11)


def test_large_groups_are_bounded_by_one_record_of_their_size() -> None:
    orders = np.array([1.5, 4.0, 9.0])
    assert (SampledGaussian(0.01, 1e-3, 65).rdp(orders) >= SampledGaussian(0.01, 1e-3, 64).rdp(orders)).all()


def test_a_group_that_is_surely_sampled() -> None:
    assert np.isfinite(SampledGaussian(0.01, 0.9, 1000).rdp(np.array([2.0]))).all()


@pytest.mark.parametrize(("mu", "rate", "records", "order"), [(3.0, 0.01, 1, 118.0), (0.5, 1e-4, 64, 3.0), (1.0, 1e-4, 20, 4.0)])
def test_strong_signals_have_finite_curves(mu: float, rate: float, records: int, order: float) -> None:
    assert math.isfinite(rdp(SampledGaussian(mu, rate, records), order))


@given(st.floats(0.1, 2.0), st.lists(st.floats(1.001, 60.0), min_size=1, max_size=5, unique=True), st.floats(1.0001, 80.0))
def test_a_stated_curve_is_bounded_between_its_orders(mu: float, known: list[float], order: float) -> None:
    """The curve is a Gaussian's, which is known everywhere. Chords lie above it, meet it at the knots, and are infinite beyond the last."""
    knots = tuple(sorted(known))
    stated = Renyi(knots, tuple(0.5 * mu * mu * a for a in knots))
    found, exact = rdp(stated, order), 0.5 * mu * mu * order
    assert found >= exact * (1.0 - 1e-12)
    assert (found == math.inf) == (order > knots[-1])
    assert rdp(stated, knots[0]) == pytest.approx(0.5 * mu * mu * knots[0], rel=1e-9)


CURVES: list[Mechanism] = [
    Gaussian(0.8),
    Laplace(0.7),
    Pure(1.2),
    RandomizedResponse(1.0, 5),
    DiscreteLaplace(2.0, 3),
    DiscreteGaussian(1.5, 2),
    BoundedRange(0.9),
    SampledGaussian(0.9, 0.02),
    SampledGaussian(0.9, 0.02, 3),
    SampledGaussianReplaced(0.9, 0.02),
    Composed(((Laplace(0.1), 4), (Gaussian(0.2), 3))),
]


@of_each("mechanism", CURVES)
def test_moments_near_order_one(mechanism: Mechanism) -> None:
    """K(z) >= z E[L], the slope of K at 0: also at orders that 1 + z does not tell apart."""
    z: Array = np.geomspace(1e-17, 1.0, 103)
    for loss in mechanism.losses():
        near, next_to = loss.cgf(np.array([1e-4, 2e-4])) / np.array([1e-4, 2e-4])
        assert (loss.cgf(z) >= z * (2.0 * near - next_to) * (1.0 - 1e-6)).all()


@of_each("mechanism", CURVES)
def test_curves_rise_with_the_order_and_moments_are_convex(mechanism: Mechanism) -> None:
    """Two facts that hold for every Renyi curve, on 200 orders from 1.001 to 61 (exact sums all the way)."""
    z: Array = np.geomspace(1e-3, 60.0, 200)
    values = mechanism.rdp(1.0 + z)
    assert (np.diff(values) >= -1e-11 * values[1:]).all() and (values > 0.0).all()
    slopes = np.diff(z * values) / np.diff(z)
    assert (np.diff(slopes) >= -1e-8 * slopes[1:]).all()

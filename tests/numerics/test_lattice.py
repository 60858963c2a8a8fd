"""A loss on a grid: the hockey-stick curve lies between the two lattices', whatever the loss and the spacing."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcli.mechanisms.mechanism import PrivacyLoss
from dpcli.mechanisms.noise.discrete_gaussian import DiscreteGaussianLoss
from dpcli.mechanisms.noise.gaussian import GaussianLoss
from dpcli.mechanisms.noise.laplace import LaplaceLoss
from dpcli.mechanisms.noise.normal_mixture import MixtureAddLoss, MixtureRemoveLoss, MixtureReplaceLoss
from dpcli.mechanisms.stated.atoms import TwoPointLoss
from dpcli.mechanisms.stated.pure_and_approx import ApproxLoss
from dpcli.numerics.grid.composed_losses import GridCurve
from dpcli.numerics.grid.convolution import convolved, transform_size
from dpcli.numerics.grid.lattice import Lattice, coarsened, convex, discretised, edges
from dpcli.numerics.mixture import binomial_mixture
from tests.cases import of_each

REPLACE = MixtureReplaceLoss(binomial_mixture(0.9, 0.1, 1))
LOSSES: list[PrivacyLoss] = [
    GaussianLoss(0.3),
    MixtureRemoveLoss(binomial_mixture(0.9, 0.01, 1)),
    MixtureRemoveLoss(binomial_mixture(0.9, 0.3, 5)),
    MixtureAddLoss(binomial_mixture(0.9, 0.01, 1)),
    MixtureAddLoss(binomial_mixture(0.9, 0.3, 3)),
    REPLACE,
    LaplaceLoss(1.3),
    TwoPointLoss(0.7),
    DiscreteGaussianLoss(3.0, 2),
    ApproxLoss(0.5, 1e-3),
]
EPSILONS = np.linspace(-0.5, 2.0, 41) + 0.0003


def curve(lattice: Lattice, epsilons: np.ndarray) -> np.ndarray:
    """The hockey-stick divergence of a lattice, by its definition."""
    at = lattice.spacing * (lattice.start + np.arange(len(lattice.weights)))
    mass = lattice.weights * np.exp(lattice.log_scale - lattice.tilt * at)
    loss = at - lattice.shift
    return np.array([lattice.infinite + (mass * np.maximum(-np.expm1(epsilon - loss), 0.0)).sum() for epsilon in epsilons])


def true_curve(loss: PrivacyLoss, epsilons: np.ndarray) -> np.ndarray:
    tails = loss.tails(epsilons)
    return np.exp(tails.p_above) - np.exp(epsilons + tails.q_above)


def both(loss: PrivacyLoss, spacing: float, tilt: float) -> tuple[Lattice, Lattice]:
    start = -int(6.0 / spacing)
    return discretised(loss.tails(edges(start, int(18.0 / spacing), spacing)), start, spacing, tilt)


@of_each("loss", LOSSES)
@of_each("tilt", [0.3, 2.0, 8.0])
@of_each("spacing", [0.05, 0.0071])
def test_the_curve_lies_between_the_two_lattices(loss: PrivacyLoss, tilt: float, spacing: float) -> None:
    lower, upper = both(loss, spacing, tilt)
    exact = true_curve(loss, EPSILONS)
    assert (curve(lower, EPSILONS) <= exact + 1e-13).all()
    assert (exact <= curve(upper, EPSILONS) + 1e-13).all()
    assert (lower.weights >= 0.0).all() and (upper.weights >= 0.0).all()


@of_each("loss", LOSSES)
@of_each("tilt", [0.3, 8.0])
def test_coarsening_keeps_the_order(loss: PrivacyLoss, tilt: float) -> None:
    lower, upper = both(loss, 0.0071, tilt)
    assert (curve(coarsened(lower, False), EPSILONS) <= curve(lower, EPSILONS) + 1e-13).all()
    assert (curve(upper, EPSILONS) <= curve(coarsened(upper, True), EPSILONS) + 1e-13).all()


@pytest.mark.parametrize("loss", [GaussianLoss(0.3), REPLACE, MixtureAddLoss(binomial_mixture(0.9, 0.3, 3))], ids=repr)
def test_smooth_losses_are_second_order(loss: PrivacyLoss) -> None:
    gaps = []
    for spacing in (0.01, 0.005):
        lower, upper = both(loss, spacing, 2.0)
        gaps.append(float((curve(upper, EPSILONS) - curve(lower, EPSILONS)).max()))
    assert gaps[1] < 0.35 * gaps[0]


def test_both_lattices_keep_p_and_q() -> None:
    """The upper pair is a pair: both measures have mass 1."""
    loss = REPLACE
    _, upper = both(loss, 0.01, 1.0)
    at = 0.01 * (upper.start + np.arange(len(upper.weights)))
    mass = upper.weights * np.exp(upper.log_scale - at)
    assert mass.sum() == pytest.approx(1.0, abs=1e-12)
    assert (mass * np.exp(-at)).sum() == pytest.approx(1.0, abs=1e-9)


@given(st.lists(st.floats(-1.0, 1.0), min_size=2, max_size=30), st.floats(0.0, 3.0))
def test_the_hull_is_convex_and_lies_below(raw: list[float], tilt: float) -> None:
    weights = np.array([*raw, 2.0])
    spacing = 0.1
    hull = convex(weights, spacing, tilt)
    assert (hull >= 0.0).all()
    loss = spacing * np.arange(len(weights))
    points = np.linspace(-3.0, loss[-1], 200)

    def height(masses: np.ndarray) -> np.ndarray:
        mass = masses * np.exp(-tilt * loss)
        return np.array([(mass * np.maximum(-np.expm1(point - loss), 0.0)).sum() for point in points])

    before = height(weights)
    if (before >= 0.0).all():  # a curve that ends at 0 and never falls below it, as those of pairs do
        assert (height(hull) <= before + 1e-12).all()


def test_convolution_equals_the_sum_over_pairs() -> None:
    rng = np.random.default_rng(3)
    parts = [
        (Lattice(1.0, 0.1, start, rng.random(size) / size, 0.2, 0.0, 0.0, 0.0), n) for start, size, n in ((-3, 5, 2), (1, 4, 1))
    ]
    direct = np.convolve(np.convolve(parts[0][0].weights, parts[0][0].weights), parts[1][0].weights)
    found = convolved(parts, -5, transform_size(len(direct)))
    assert found.start == -5
    assert found.weights[: len(direct)] == pytest.approx(direct, abs=1e-15)
    assert np.linalg.norm(found.weights[: len(direct)] - direct) <= found.error
    assert found.log_scale == pytest.approx(0.6)


def test_rounding_of_a_large_power_stays_within_its_bound() -> None:
    lattice = Lattice(1.0, 0.1, -2, np.array([0.02, 0.1, 0.7, 0.15, 0.03]), 0.0, 0.0, 0.0, 0.0)
    count, size = 1000, 4096
    fast = convolved([(lattice, count)], -2 * count, transform_size(size))
    slow = convolved([(lattice, 10)], -20, 64)
    for _ in range(2):
        slow = convolved([(slow, 10)], 10 * slow.start, transform_size(10 * len(slow.weights)))
    length = min(len(fast.weights), len(slow.weights))
    assert np.linalg.norm(fast.weights[:length] - slow.weights[:length]) <= fast.error + slow.error
    assert fast.error < 1e-9


def test_infinite_mass_composes() -> None:
    lattice = Lattice(1.0, 0.1, 0, np.array([0.5, 0.5]), 0.0, 1e-3, 0.0, 0.0)
    assert convolved([(lattice, 20)], 0, 32).infinite == pytest.approx(-math.expm1(20 * math.log1p(-1e-3)))


@given(st.lists(st.floats(0.0, 1.0), min_size=3, max_size=30), st.floats(1e-4, 0.2), st.floats(0.1, 20.0), st.integers(-40, 10))
def test_coarsening_any_lattice_keeps_the_order_everywhere(raw: list[float], spacing: float, tilt: float, start: int) -> None:
    """Left of the first grid point too, where the lowered curve must not be steeper than the curve."""
    lattice = Lattice(tilt, spacing, start, np.array(raw) + 1e-6, 0.0, 0.0, 0.0, 0.0)
    low, high = coarsened(lattice, False), coarsened(lattice, True)
    at = spacing * np.concatenate(([start - 400.0], np.linspace(start - 4.0, start + len(raw) + 1.0, 60)))
    exact, size = curve(lattice, at), float(curve(lattice, at[:1])[0])
    assert (curve(low, at) <= exact + 1e-12 * size + low.error * size).all()
    assert (exact <= curve(high, at) + 1e-12 * size).all()


def test_a_curve_of_nothing_known_claims_nothing() -> None:
    lost = Lattice(1.0, 0.1, 0, np.array([0.5, math.nan]), 0.0, 0.0, 0.0, 0.0)
    assert GridCurve(lost, 0.0, 0.0, 1.0).delta(0.05) == 1.0 and GridCurve(lost, 0.0, 0.0, -1.0).delta(0.05) == 0.0
    assert GridCurve(lost, 0.0, 0.0, 1.0).epsilon(math.log(1e-5)) == math.inf

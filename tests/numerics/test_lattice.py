"""A privacy loss on a grid (numerics/grid): the true hockey-stick curve lies between the grid's lower and upper bounds, whatever the loss,
the spacing and the number of steps, through discretisation, coarsening and convolution.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcli.mechanisms.mechanism import PrivacyLoss
from dpcli.mechanisms.noise.discrete_gaussian import DiscreteGaussianLoss
from dpcli.mechanisms.noise.gaussian import GaussianLoss
from dpcli.mechanisms.noise.laplace import LaplaceLoss
from dpcli.mechanisms.noise.normal_mixture import MixtureAddLoss, MixtureRemoveLoss, MixtureReplaceLoss
from dpcli.mechanisms.stated.atoms import TwoPointLoss
from dpcli.mechanisms.stated.pure_and_approx import MayFailLoss
from dpcli.numerics.grid.convolution import convolve, transform_size
from dpcli.numerics.grid.grid_curve import GridCurve
from dpcli.numerics.grid.lattice import Lattice, coarsen, discretise, edges
from dpcli.numerics.mixture import binomial_mixture
from dpcli.numerics.tails import atom_tails
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
    MayFailLoss(TwoPointLoss(0.5), 1e-3),
]
EPSILONS = np.linspace(-0.5, 2.0, 41) + 0.0003


def curve(lattice: Lattice, epsilons: np.ndarray) -> np.ndarray:
    """Return the hockey-stick divergence of a lattice, by its definition."""
    at = lattice.spacing * (lattice.start + np.arange(len(lattice.weights)))
    mass = lattice.weights * np.exp(lattice.log_scale - lattice.tilt * at)
    return np.array([lattice.infinite + (mass * np.maximum(-np.expm1(epsilon - at), 0.0)).sum() for epsilon in epsilons])


def bounds(lattice: Lattice, epsilons: np.ndarray, infinite: float = 0.0) -> np.ndarray:
    """Return the lattice's bounds on the true curve, from below and from above."""
    grid = GridCurve(lattice, 0.0, infinite)
    return np.array([grid.delta(epsilon) for epsilon in epsilons.tolist()]).T


def true_curve(loss: PrivacyLoss, epsilons: np.ndarray) -> np.ndarray:
    tails = loss.tails(epsilons)
    return np.exp(tails.p_above) - np.exp(epsilons + tails.q_above)


def laid(loss: PrivacyLoss, spacing: float, tilt: float) -> Lattice:
    start = -int(6.0 / spacing)
    return discretise(loss.tails(edges(start, int(18.0 / spacing), spacing)), start, spacing, tilt)


@of_each("loss", LOSSES)
@of_each("tilt", [0.3, 2.0, 8.0])
@of_each("spacing", [0.05, 0.0071])
def test_the_curve_lies_between_the_bounds(loss: PrivacyLoss, tilt: float, spacing: float) -> None:
    lattice = laid(loss, spacing, tilt)
    exact, (lower, upper) = true_curve(loss, EPSILONS), bounds(lattice, EPSILONS)
    assert (lower <= exact + 1e-13).all() and (exact <= upper + 1e-13).all()
    assert (exact <= curve(lattice, EPSILONS) + 1e-13).all()
    assert (lattice.weights >= 0.0).all()


@of_each("loss", LOSSES)
@of_each("tilt", [0.3, 8.0])
def test_coarsening_keeps_the_order(loss: PrivacyLoss, tilt: float) -> None:
    fine = laid(loss, 0.0071, tilt)
    exact, (lower, upper) = true_curve(loss, EPSILONS), bounds(coarsen(fine), EPSILONS)
    assert (curve(fine, EPSILONS) <= curve(coarsen(fine), EPSILONS) + 1e-13).all()
    assert (lower <= exact + 1e-13).all() and (exact <= upper + 1e-13).all()


@pytest.mark.parametrize("loss", [GaussianLoss(0.3), REPLACE, MixtureAddLoss(binomial_mixture(0.9, 0.3, 3))], ids=repr)
def test_smooth_losses_are_second_order(loss: PrivacyLoss) -> None:
    gaps = []
    for spacing in (0.01, 0.005):
        lower, upper = bounds(laid(loss, spacing, 2.0), EPSILONS)
        gaps.append(float((upper - lower).max()))
    assert gaps[1] < 0.35 * gaps[0]


def test_a_lattice_keeps_p_and_q() -> None:
    """The upper pair is a pair: both measures have mass 1."""
    lattice = laid(REPLACE, 0.01, 1.0)
    at = 0.01 * (lattice.start + np.arange(len(lattice.weights)))
    mass = lattice.weights * np.exp(lattice.log_scale - at)
    assert mass.sum() == pytest.approx(1.0, abs=1e-12)
    assert (mass * np.exp(-at)).sum() == pytest.approx(1.0, abs=1e-9)


def test_atoms_on_the_grid_are_not_dispersed() -> None:
    """Two outcomes, both on it: the two bounds are one."""
    lattice = laid(TwoPointLoss(0.7), 0.1, 1.0)
    lower, upper = bounds(lattice, EPSILONS)
    assert lattice.dispersion == 0.0 and (upper - lower <= 1e-9).all()
    assert laid(TwoPointLoss(0.7), 0.3, 1.0).dispersion > 0.0


@given(
    st.lists(st.tuples(st.floats(0.01, 1.0), st.floats(-1.0, 1.0)), min_size=2, max_size=4),
    st.integers(1, 9),
    st.floats(0.1, 6.0),
    st.floats(0.003, 0.3),
    st.booleans(),
    st.lists(st.floats(-1.0, 4.0), min_size=5, max_size=5),
)
@settings(max_examples=60, deadline=None)
def test_compositions_lie_between_the_bounds(
    outcomes: list[tuple[float, float]], count: int, tilt: float, spacing: float, coarser: bool, epsilons: list[float]
) -> None:
    """Atoms anywhere between grid points, many times over: against all of their sums, counted one by one."""
    q = np.array([weight for weight, _ in outcomes])
    p = q * np.exp([loss for _, loss in outcomes])
    q, p = q / q.sum(), p / p.sum()
    losses = np.log(p / q)
    order = np.argsort(losses)
    log_p, losses = np.log(p)[order], losses[order]
    at = np.array(epsilons)
    exact = np.zeros(len(at))
    for counts in itertools.product(range(count + 1), repeat=len(losses)):
        if sum(counts) == count:
            log_ways = math.lgamma(count + 1) - sum(math.lgamma(c + 1) for c in counts)
            mass = math.exp(log_ways + float(np.dot(counts, log_p)))
            exact += mass * np.maximum(-np.expm1(at - float(np.dot(counts, losses))), 0.0)
    start, size = math.floor(float(losses[0]) / spacing) - 2, math.ceil(float(np.ptp(losses)) / spacing) + 6
    one = discretise(atom_tails(edges(start, size, spacing), losses, log_p, log_p - losses), start, spacing, tilt, count)
    one = coarsen(one) if coarser else one
    lattice = convolve([(one, count)], count * one.start, transform_size(count * len(one.weights)))
    lower, upper = bounds(lattice, at)
    assert (lower <= exact + 1e-12).all() and (exact <= upper + 1e-12).all()
    for log_delta in (-1.0, -3.0):
        least, most = GridCurve(lattice, 0.0, 0.0).epsilon(log_delta)
        assert least <= most
        ends = bounds(lattice, np.array([max(least, -1e3), most]))
        assert ends[0, 0] >= math.exp(log_delta) * (1.0 - 1e-9) or least == -math.inf
        assert ends[1, 1] <= math.exp(log_delta) * (1.0 + 1e-9)


def test_convolution_equals_the_sum_over_pairs() -> None:
    rng = np.random.default_rng(3)
    parts = [
        (Lattice(1.0, 0.1, start, rng.random(size) / size, 0.2, 0.0, 0.0, 0.0), n) for start, size, n in ((-3, 5, 2), (1, 4, 1))
    ]
    direct = np.convolve(np.convolve(parts[0][0].weights, parts[0][0].weights), parts[1][0].weights)
    found = convolve(parts, -5, transform_size(len(direct)))
    assert found.start == -5
    assert found.weights[: len(direct)] == pytest.approx(direct, abs=1e-15)
    assert np.linalg.norm(found.weights[: len(direct)] - direct) <= found.error
    assert found.log_scale == pytest.approx(0.6)


def test_rounding_of_a_large_power_stays_within_its_bound() -> None:
    lattice = Lattice(1.0, 0.1, -2, np.array([0.02, 0.1, 0.7, 0.15, 0.03]), 0.0, 0.0, 0.0, 0.0)
    count, size = 1000, 4096
    fast = convolve([(lattice, count)], -2 * count, transform_size(size))
    slow = convolve([(lattice, 10)], -20, 64)
    for _ in range(2):
        slow = convolve([(slow, 10)], 10 * slow.start, transform_size(10 * len(slow.weights)))
    length = min(len(fast.weights), len(slow.weights))
    assert np.linalg.norm(fast.weights[:length] - slow.weights[:length]) <= fast.error + slow.error
    assert fast.error < 1e-9


def test_infinite_mass_composes() -> None:
    lattice = Lattice(1.0, 0.1, 0, np.array([0.5, 0.5]), 0.0, 1e-3, 0.0, 0.0)
    assert convolve([(lattice, 20)], 0, 32).infinite == pytest.approx(-math.expm1(20 * math.log1p(-1e-3)))


@given(st.lists(st.floats(0.0, 1.0), min_size=3, max_size=30), st.floats(1e-4, 0.2), st.floats(0.1, 20.0), st.integers(-40, 10))
def test_coarsening_any_lattice_keeps_the_order_everywhere(raw: list[float], spacing: float, tilt: float, start: int) -> None:
    """Left of the first grid point too."""
    lattice = Lattice(tilt, spacing, start, np.array(raw) + 1e-6, 0.0, 0.0, 0.0, 0.0)
    high = coarsen(lattice)
    at = spacing * np.concatenate(([start - 400.0], np.linspace(start - 4.0, start + len(raw) + 1.0, 60)))
    exact, size = curve(lattice, at), float(curve(lattice, at[:1])[0])
    assert (exact <= curve(high, at) + 1e-12 * size).all()


def test_a_curve_of_nothing_known_claims_nothing() -> None:
    lost = Lattice(1.0, 0.1, 0, np.array([0.5, math.nan]), 0.0, 0.0, 0.0, 0.0)
    assert GridCurve(lost, 0.0, 0.0).delta(0.05) == (0.0, 1.0)
    assert GridCurve(lost, 0.0, 0.0).epsilon(math.log(1e-5)) == (-math.inf, math.inf)


@of_each("log_error", [1e-6, 0.1, 2.0, 8.0, 900.0])
def test_a_common_error_counts_with_its_exponential(log_error: float) -> None:
    """All masses, and the mass that was left out, may be larger by e^log_error."""
    weights = np.array([0.2, 0.5, 0.3])
    lattice = Lattice(
        tilt=1.5, spacing=0.2, start=10, weights=weights, log_scale=-9.0, infinite=0.0, error=1e-3, log_error=log_error
    )
    exact = replace(lattice, log_error=0.0)
    epsilons = np.linspace(1.0, 3.0, 21)
    low, high = bounds(lattice, epsilons)
    with np.errstate(over="ignore"):
        assert (high >= np.minimum(bounds(exact, epsilons)[1] * np.exp(log_error) * (1.0 - 1e-9), 1.0)).all()
    assert (low <= curve(lattice, epsilons) * math.exp(-log_error)).all()
    found, known = GridCurve(lattice, 0.0, 0.0).epsilon(-4.0)[1], GridCurve(exact, 0.0, 0.0).epsilon(-4.0 - log_error)[1]
    assert found >= known * (1.0 - 1e-9)

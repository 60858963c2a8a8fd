"""What a spec's keys become under an adjacency, several records of a unit, and groups (`Spec.resolve`, `Spec.poisson`): the expected
mechanisms one by one, the refusals, and the group theorems against random chains of single changes.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcli.base.errors import InputError
from dpcli.mechanisms.choice.exponential import ExponentialChoice, ExponentialSpec
from dpcli.mechanisms.choice.noisy_max import PermuteAndFlipSpec, ReportNoisyMaxSpec, SparseVectorSpec, noisy_maximum
from dpcli.mechanisms.choice.randomized_response import RandomizedResponse, RandomizedResponseSpec
from dpcli.mechanisms.choice.stability import ProposeTestReleaseSpec
from dpcli.mechanisms.combined.composed import BoundGroup, Composed
from dpcli.mechanisms.combined.group import Group, for_group
from dpcli.mechanisms.mechanism import Dominated, Mechanism
from dpcli.mechanisms.neighbours import Adjacency, Neighbours, any_sampled
from dpcli.mechanisms.noise.discrete_gaussian import DiscreteGaussian, DiscreteGaussianSpec, DiscreteGaussianVector
from dpcli.mechanisms.noise.discrete_laplace import DiscreteLaplace, DiscreteLaplaceSpec
from dpcli.mechanisms.noise.gaussian import Gaussian
from dpcli.mechanisms.noise.gaussian_mixture import GaussianMixtureReplaced
from dpcli.mechanisms.noise.gaussian_spec import GaussianSpec, SampledGaussian, SampledGaussianReplaced
from dpcli.mechanisms.noise.laplace import Laplace, LaplaceSpec
from dpcli.mechanisms.noise.laplace_mixture import LaplaceMixture
from dpcli.mechanisms.sampling.poisson import PoissonSampled
from dpcli.mechanisms.spec import Spec
from dpcli.mechanisms.stated.pure_and_approx import ApproxSpec, Free, PostProcessingSpec, Pure, PureSpec, StatedPure, approx
from dpcli.mechanisms.stated.renyi import RdpSpec, Renyi, StatedZcdp, Zcdp, ZcdpSpec
from dpcli.numerics.mixture import binomial_mixture
from tests.cases import fresh_random, of_each
from tests.oracles import Array, FinitePairs, hockey_stick, renyi

ADD, REPLACE, ZERO = (Neighbours(a) for a in Adjacency)
USER = Neighbours(Adjacency.ADD_REMOVE, contributions=5)
CROWD = Neighbours(Adjacency.ADD_REMOVE, contributions=5, group=3)

RESOLVED: list[tuple[Spec, Neighbours, Mechanism]] = [
    (GaussianSpec(noise_multiplier=2.0), ADD, Gaussian(0.5)),
    (GaussianSpec(noise_multiplier=2.0), ZERO, Gaussian(0.5)),
    (GaussianSpec(noise_multiplier=2.0), REPLACE, Gaussian(1.0)),
    (GaussianSpec(noise_multiplier=2.0), USER, Gaussian(2.5)),
    (GaussianSpec(noise_multiplier=2.0), CROWD, Gaussian(7.5)),
    (GaussianSpec(sigma=4.0, sensitivity=2.0), REPLACE, Gaussian(0.5)),
    (GaussianSpec(sigma=4.0, sensitivity=2.0), USER, Gaussian(0.5)),
    (GaussianSpec(sigma=4.0, sensitivity=2.0), CROWD, Gaussian(1.5)),
    (LaplaceSpec(noise_multiplier=2.0), REPLACE, Laplace(1.0)),
    (LaplaceSpec(noise_multiplier=2.0), CROWD, Laplace(7.5)),
    (LaplaceSpec(scale=4.0, sensitivity=2.0), CROWD, Laplace(1.5)),
    (DiscreteGaussianSpec(sigma=3.0, sensitivity=2, dimension=1), CROWD, DiscreteGaussian(3.0, 6)),
    (DiscreteGaussianSpec(sigma=3.0, sensitivity=2), ADD, DiscreteGaussianVector(3.0, ((1, 1, 1, 1), (2,)))),
    (DiscreteGaussianSpec(sigma=3.0, sensitivity=1), USER, DiscreteGaussian(3.0, 1)),
    (DiscreteGaussianSpec(sigma=3.0, sensitivity=1), CROWD, Dominated(DiscreteGaussianVector(3.0, ((1, 1, 1), (2, 1), (3,))))),
    (DiscreteGaussianSpec(sigma=9.0, l2_sensitivity=2.0**0.5), ADD, DiscreteGaussian(9.0 * 2.0**0.5 * (1.0 - 4e-16), 2)),
    (DiscreteGaussianSpec(sigma=3.0, l2_sensitivity=0.5), REPLACE, Zcdp(0.5 * (0.5 / 3.0) ** 2)),
    (DiscreteLaplaceSpec(scale=3.0, sensitivity=2), CROWD, DiscreteLaplace(3.0, 6)),
    (RandomizedResponseSpec(epsilon=1.0, categories=4), REPLACE, RandomizedResponse(1.0, 4)),
    (
        RandomizedResponseSpec(epsilon=1.0, stated_for="record"),
        Neighbours(Adjacency.ZERO_OUT, 2, 3),
        Composed(((Dominated(RandomizedResponse(1.0, 2)), 6),)),
    ),
    (ExponentialSpec(epsilon=0.5, stated_for="unit"), CROWD, ExponentialChoice(1.5)),
    (ExponentialSpec(epsilon=0.5, stated_for="record"), CROWD, ExponentialChoice(7.5)),
    (ReportNoisyMaxSpec(epsilon=0.5, noise="gumbel", stated_for="unit"), CROWD, ExponentialChoice(1.5)),
    (ReportNoisyMaxSpec(epsilon=0.5), ADD, noisy_maximum(0.5, laplace=True)),
    (ReportNoisyMaxSpec(epsilon=0.5, stated_for="record"), CROWD, noisy_maximum(7.5, laplace=True)),
    (PermuteAndFlipSpec(epsilon=0.5, stated_for="record"), CROWD, noisy_maximum(7.5)),
    (SparseVectorSpec(epsilon=0.5, answers=7), ADD, Pure(0.5)),
    (PureSpec(epsilon=0.5, stated_for="record"), CROWD, Pure(7.5)),
    (PureSpec(epsilon=0.5, adjacency=Adjacency.ADD_REMOVE), REPLACE, Pure(1.0)),
    (PureSpec(epsilon=0.5, adjacency=Adjacency.ZERO_OUT), REPLACE, Pure(1.0)),
    (PureSpec(epsilon=0.5, adjacency=Adjacency.REPLACE_ONE), REPLACE, StatedPure(0.5)),
    (PureSpec(epsilon=0.0), CROWD, Free()),
    (ApproxSpec(epsilon=0.5, delta=1e-6), ADD, approx(0.5, 1e-6)),
    (ApproxSpec(epsilon=0.5, delta=1e-6, adjacency=Adjacency.ADD_REMOVE), REPLACE, Group(approx(0.5, 1e-6), 2)),
    (ZcdpSpec(rho=0.1, stated_for="record"), CROWD, Group(StatedZcdp(0.1), 15)),
    (RdpSpec(orders=(2.0,), values=(0.1,), stated_for="unit"), CROWD, Group(Renyi((2.0,), (0.1,)), 3)),
    (PostProcessingSpec(), CROWD, Free()),
]


@of_each(("spec", "neighbours", "expected"), RESOLVED)
def test_resolution(spec: Spec, neighbours: Neighbours, expected: Mechanism) -> None:
    assert spec.resolve(neighbours) == expected


def test_keep_probability_is_another_word_for_epsilon() -> None:
    found = RandomizedResponseSpec(keep=0.7, categories=4).resolve(REPLACE)
    assert isinstance(found, RandomizedResponse) and found.categories == 4
    assert found.epsilon == pytest.approx(math.log(0.7 / 0.1), rel=1e-14)


SAMPLED: list[tuple[Spec, Neighbours, Mechanism]] = [
    (GaussianSpec(noise_multiplier=2.0), ADD, SampledGaussian(0.5, 0.1)),
    (GaussianSpec(noise_multiplier=2.0), ZERO, SampledGaussian(0.5, 0.1)),
    (GaussianSpec(noise_multiplier=2.0), REPLACE, SampledGaussianReplaced(0.5, 0.1)),
    (GaussianSpec(noise_multiplier=2.0), CROWD, SampledGaussian(0.5, 0.1, 15)),
    (GaussianSpec(sigma=4.0, sensitivity=2.0), ADD, SampledGaussian(0.5, 0.1)),
    (GaussianSpec(sigma=4.0, sensitivity=2.0), CROWD, Dominated(SampledGaussian(1.5, any_sampled(0.1, 15)))),
    (GaussianSpec(sigma=4.0, sensitivity=2.0), USER, SampledGaussian(0.5, any_sampled(0.1, 5))),
    (GaussianSpec(noise_multiplier=2.0), Neighbours(Adjacency.REPLACE_ONE, 3), SampledGaussianReplaced(0.5, 0.1, 3)),
    (
        GaussianSpec(noise_multiplier=20.0),
        Neighbours(Adjacency.REPLACE_ONE, 100),
        Dominated(GaussianMixtureReplaced(binomial_mixture(0.05, 0.1, 100))),
    ),
    (LaplaceSpec(noise_multiplier=2.0), CROWD, LaplaceMixture(binomial_mixture(0.5, 0.1, 15))),
    (LaplaceSpec(scale=4.0, sensitivity=2.0), USER, PoissonSampled(Laplace(0.5), any_sampled(0.1, 5))),
    (PureSpec(epsilon=0.5, stated_for="unit"), CROWD, PoissonSampled(Pure(1.5), any_sampled(0.1, 15))),
    (PostProcessingSpec(), REPLACE, Free()),
    (
        BoundGroup(((GaussianSpec(noise_multiplier=5.0), 9), (GaussianSpec(noise_multiplier=5.0), 16))),
        ADD,
        SampledGaussian(1.0, 0.1),
    ),
    (BoundGroup(((GaussianSpec(noise_multiplier=5.0), 9), (PostProcessingSpec(), 4))), REPLACE, SampledGaussianReplaced(0.6, 0.1)),
    (
        BoundGroup(((LaplaceSpec(noise_multiplier=5.0), 9), (GaussianSpec(noise_multiplier=5.0), 1))),
        ADD,
        PoissonSampled(Composed(((Laplace(0.2), 9), (Gaussian(0.2), 1))), 0.1),
    ),
]


@of_each(("spec", "neighbours", "expected"), SAMPLED)
def test_poisson_resolution(spec: Spec, neighbours: Neighbours, expected: Mechanism) -> None:
    found, orders = spec.poisson(0.1, neighbours), np.array([1.5, 2.0, 5.0])
    assert type(found) is type(expected)
    np.testing.assert_allclose(found.rdp(orders), expected.rdp(orders), rtol=1e-12)
    assert found.approx_dp(1e-4) == pytest.approx(expected.approx_dp(1e-4), rel=1e-12)


@pytest.mark.parametrize(
    ("spec", "neighbours", "words"),
    [
        (PureSpec(epsilon=1.0), USER, "say whom the guarantee covers"),
        (PureSpec(epsilon=1.0, adjacency=Adjacency.REPLACE_ONE), ADD, "says nothing under add-remove"),
        (ApproxSpec(epsilon=1.0, delta=1e-6, adjacency=Adjacency.ADD_REMOVE), ZERO, "says nothing under zero-out"),
        (RandomizedResponseSpec(epsilon=1.0), ADD, "needs adjacency = replace-one or zero-out"),
    ],
)
def test_refusals(spec: Spec, neighbours: Neighbours, words: str) -> None:
    with pytest.raises(InputError, match=words):
        spec.resolve(neighbours)


def chain(size: int, length: int, seed: int) -> list[Array]:
    """Return output distributions along a chain of `length` single changes."""
    rng = np.random.default_rng(seed)
    logs = rng.uniform(0.0, 2.0, size) + np.cumsum(rng.uniform(-0.7, 0.7, (length + 1, size)), axis=0)
    return [row / row.sum() for row in np.exp(logs)]


@pytest.mark.nightly
@given(st.integers(2, 4), st.integers(2, 5), st.integers(0, 2**32 - 1))
def test_group_theorems_cover_random_chains(size: int, length: int, seed: int) -> None:
    """k single changes in a row, each covered by the record-level mechanism: the ends are covered by its group."""
    states = chain(size, length, seed)
    record = FinitePairs(tuple((tuple(p.tolist()), tuple(q.tolist())) for p, q in itertools.pairwise(states)))
    group, p, q = for_group(record, length), states[0], states[-1]
    for order, value in zip((1.5, 2.0, 3.0, 7.0), group.rdp(np.array([1.5, 2.0, 3.0, 7.0])).tolist(), strict=True):
        assert value >= max(renyi(p, q, order), renyi(q, p, order)) * (1.0 - 1e-9)
    for delta in (0.3, 0.05, 1e-3):
        epsilon = group.approx_dp(delta)
        assert max(hockey_stick(p, q, epsilon), hockey_stick(q, p, epsilon)) <= delta * (1.0 + 1e-9)


@given(st.floats(0.05, 1.5), st.integers(2, 9), st.floats(-9.0, -1.0))
def test_groups_of_gaussians_are_covered(mu: float, size: int, log10_delta: float) -> None:
    """k changes of a mu-Gaussian are a (k mu)-Gaussian."""
    group, exact, delta = Group(Gaussian(mu), size), Gaussian(size * mu), 10.0**log10_delta
    orders = np.array([1.1, 2.0, 5.0, 20.0])
    assert (group.rdp(orders) >= exact.rdp(orders) * (1.0 - 1e-12)).all()
    assert group.zcdp() >= exact.zcdp() * (1.0 - 1e-12)
    assert group.approx_dp(delta) >= exact.approx_dp(delta) * (1.0 - 1e-12)


def test_renyi_group_theorem_by_its_formula() -> None:
    """Three changes fit in 2^2: order 4 a, times 9; the chords of a stated curve leave nothing else to take."""
    stated = Renyi((2.0, 8.0, 16.0), (0.1, 0.4, 0.8))
    np.testing.assert_allclose(Group(stated, 3).rdp(np.array([2.0, 4.0])), [9 * 0.4, 9 * 0.8], rtol=1e-12)
    assert Group(stated, 3).rdp(np.array([4.1]))[0] == math.inf
    assert Group(stated, 3).rdp(np.array([1.5]))[0] == pytest.approx(3.6)


@pytest.mark.parametrize(("epsilon", "size"), [(0.5, 2), (1e-9, 4), (2.0, 3)])
def test_approx_group_theorem_by_its_formula(epsilon: float, size: int) -> None:
    stated, growth = 1e-6, math.fsum(math.exp(i * epsilon) for i in range(size))
    group = Group(approx(epsilon, stated), size)
    assert group.approx_dp(stated * growth * 1.3) <= size * epsilon * (1.0 + 1e-9)
    assert group.approx_dp(stated * growth * 0.99) == math.inf
    assert group.approx_dp(0.0) == math.inf


def test_a_group_of_one_is_the_mechanism() -> None:
    assert for_group(Pure(1.0), 1) == Pure(1.0)
    assert for_group(Pure(1.0), 2) == Group(Pure(1.0), 2)


def test_the_test_of_a_group_never_costs_less_than_the_exact_product() -> None:
    """A product of floats is often a unit in the last place too small: 3 * 0.7 is 2.0999999999999996."""
    generator = fresh_random()
    fell_short = 0
    while fell_short < 20:
        epsilon, size = round(generator.uniform(0.001, 0.5), 4), generator.randrange(2, 12)
        mechanism = ProposeTestReleaseSpec(epsilon=epsilon, delta=1e-9).resolve(Neighbours(Adjacency.ADD_REMOVE, group=size))
        exact = size * Fraction(str(epsilon))
        assert Fraction(repr(mechanism.approx_dp(mechanism.delta_floor()))) >= exact, (epsilon, size)
        fell_short += Fraction(repr(size * epsilon)) < exact

"""Gaussian noise on sums that move by random amounts (gaussian-mixture): moments, tails and stated epsilons against quadrature in thirty
digits, Poisson samples against enumeration, and special cases that are plain Gaussians.
"""

from __future__ import annotations

import itertools
import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr
from scipy.stats import binom

from dpcli.mechanisms.neighbours import Adjacency, Neighbours
from dpcli.mechanisms.noise.additive import NoPrivacy
from dpcli.mechanisms.noise.gaussian import Gaussian
from dpcli.mechanisms.noise.gaussian_mixture import GaussianMixture, GaussianMixtureReplaced, GaussianMixtureSpec, weights_of_sum
from dpcli.mechanisms.noise.gaussian_spec import GaussianSpec
from dpcli.mechanisms.noise.normal_mixture import MixtureAddLoss, MixtureRemoveLoss, MixtureReplaceLoss
from dpcli.mechanisms.sampling.poisson import PoissonReplaced, fixed_size
from dpcli.mechanisms.stated.pure_and_approx import Free
from dpcli.numerics.mixture import Mixture
from tests.cases import of_each
from tests.mechanisms.curves import AT, worst
from tests.oracles import Array, hockey_stick

ADD, REPLACE = Neighbours(Adjacency.ADD_REMOVE), Neighbours(Adjacency.REPLACE_ONE)
ORDERS: Array = np.array([1.25, 2.0, 4.0, 16.0])
SPEC = GaussianMixtureSpec(sensitivities=(2.0, 0.0, 1.0), probabilities=(0.1, 0.5, 0.4), sigma=2.0)
MIXTURES = [
    Mixture(math.log(0.5), (math.log(0.4), math.log(0.1)), (0.5, 1.0)),
    Mixture(-math.inf, (math.log(0.3), math.log(0.7)), (0.4, 2.5)),
    Mixture(math.log1p(-1e-7), (math.log(1e-7),), (1.5,)),
    Mixture(math.log(1e-3), (math.log(0.999),), (0.05,)),
]


def densities(mixture: Mixture, sign: int, x: mp.mpf) -> mp.mpf:
    """Return the density of the mixture at x in thirty digits, mirrored for sign -1."""
    parts = [(mixture.log_rest, 0.0), *zip(mixture.log_weights, mixture.shifts, strict=True)]
    return mp.fsum(mp.exp(w) * mp.npdf(x, sign * s, 1) for w, s in parts if w > -math.inf)


@pytest.mark.sampled(1, 7)
@pytest.mark.parametrize("mixture", MIXTURES, ids=repr)
@pytest.mark.parametrize("z", [0.3, 1.0, 4.5])
def test_moments_by_quadrature(mixture: Mixture, z: float) -> None:
    zero = Mixture(0.0, (-math.inf,), (1.0,))
    pairs = [
        (MixtureRemoveLoss(mixture), (mixture, 1), (zero, 1)),
        (MixtureAddLoss(mixture), (zero, 1), (mixture, 1)),
        (MixtureReplaceLoss(mixture), (mixture, 1), (mixture, -1)),
    ]
    with mp.workdps(40):
        reach = (2 * z + 2) * mixture.reach + 14
        nodes = [mp.mpf(i) / 16 for i in range(-math.ceil(16 * reach), math.ceil(16 * reach) + 1)]  # exact to e^-100
        for loss, p, q in pairs:

            def excess(x: mp.mpf, p: tuple[Mixture, int] = p, q: tuple[Mixture, int] = q) -> mp.mpf:
                one, two = densities(*p, x), densities(*q, x)
                return one * ((one / two) ** mp.mpf(z) - 1) - mp.mpf(z) * (one - two)

            exact = mp.log1p(mp.fsum(map(excess, nodes)) / 16)
            found = float(loss.cgf(np.array([z]))[0])
            assert exact * (1 - mp.mpf("1e-12")) <= found <= exact * (1 + mp.mpf("1e-10"))


@of_each("mixture", MIXTURES)
@of_each("eps", [-2.0, -0.1, 0.0, 0.2, 3.0])
def test_tails_by_inversion(mixture: Mixture, eps: float) -> None:
    """P and Q beyond the outcome at which the loss is eps: delta(eps) at thirty digits, from the crossing found there."""
    tails = MixtureRemoveLoss(mixture).tails(np.array([eps]))
    with mp.workdps(40):
        parts = [(mixture.log_rest, 0.0), *zip(mixture.log_weights, mixture.shifts, strict=True)]
        parts = [(w, s) for w, s in parts if w > -math.inf]

        def loss(x: mp.mpf) -> mp.mpf:
            return mp.log(mp.fsum(mp.exp(w + s * x - mp.mpf(s) ** 2 / 2) for w, s in parts)) - eps

        if eps <= mixture.log_rest:
            assert float(tails.p_above[0]) == pytest.approx(0.0, abs=1e-15) and float(tails.q_above[0]) == 0.0
            return
        low, high = mp.mpf(-3000), mp.mpf(3000)
        for _ in range(130):
            x = (low + high) / 2
            low, high = (x, high) if loss(x) < 0 else (low, x)
        total = mp.fsum(mp.exp(w) for w, _ in parts)
        exact_p = mp.fsum(mp.exp(w) / total * mp.ncdf(s - x) for w, s in parts)
        for found, exact in ((tails.p_above, exact_p), (tails.q_above, mp.ncdf(-x))):
            assert abs(float(found[0]) - mp.log(exact)) <= 1e-9 * max(1, abs(mp.log(exact)))


@of_each("mixture", MIXTURES)
@of_each("make", [GaussianMixture, GaussianMixtureReplaced])
@of_each("delta", [0.2, 1e-3, 1e-9])
def test_stated_epsilon_is_where_the_curve_falls_to_delta(
    make: type[GaussianMixture] | type[GaussianMixtureReplaced], mixture: Mixture, delta: float
) -> None:
    mechanism = make(mixture)
    epsilon = mechanism.approx_dp(delta)
    if epsilon == 0.0:
        assert worst(mechanism, np.zeros(1))[0] <= delta
    else:
        near: Array = np.array([epsilon * (1.0 - 1e-6) - 1e-12, epsilon])
        below, at = worst(mechanism, near).tolist()
        assert at <= delta * (1.0 + 1e-9) and below >= delta * (1.0 - 1e-9)
    assert mechanism.approx_dp(0.0) == math.inf


@given(
    st.lists(st.tuples(st.floats(0.0, 2.0), st.floats(0.05, 1.0)), min_size=1, max_size=3),
    st.floats(0.1, 1.0),
    st.integers(1, 3),
    st.sampled_from(["add-remove", "zero-out", "replace-one"]),
)
@settings(max_examples=40)
def test_sampled_random_contributions_by_enumeration(
    draws: list[tuple[float, float]], rate: float, records: int, adjacency: str
) -> None:
    """Every subset of the unit's records and every outcome of their draws, on cells of the line."""
    total = math.fsum(weight for _, weight in draws)
    outcomes = [(amount, weight / total) for amount, weight in draws]
    spec = GaussianMixtureSpec(sensitivities=tuple(a for a, _ in outcomes), probabilities=tuple(w for _, w in outcomes), sigma=1.0)
    x: Array = np.linspace(-16.0, 16.0, 1501)

    def law(sign: float) -> Array:
        choices = [(0.0, 1.0 - rate), *((sign * amount, rate * weight) for amount, weight in outcomes)]
        found = np.zeros(len(x) + 1)
        for chosen in itertools.product(choices, repeat=records):
            found = found + math.prod(w for _, w in chosen) * np.diff(ndtr(x - sum(a for a, _ in chosen)), prepend=0.0, append=1.0)
        return found

    with_it, without = law(1.0), law(-1.0 if adjacency == "replace-one" else 0.0)
    mechanism = spec.poisson(rate, Neighbours(Adjacency(adjacency), records))
    found = worst(mechanism)
    exact = np.max([[hockey_stick(*pair, e) for e in AT.tolist()] for pair in ((with_it, without), (without, with_it))], axis=0)
    assert (found >= exact - 1e-12).all() and (found <= exact + 2e-3).all()


def test_one_sure_outcome_is_a_gaussian() -> None:
    sure = GaussianMixtureSpec(sensitivities=(3.0,), probabilities=(1.0,), sigma=2.0)
    assert sure.resolve(ADD) == Gaussian(1.5) and sure.resolve(REPLACE) == Gaussian(3.0)
    for neighbours in (ADD, REPLACE, Neighbours(Adjacency.REPLACE_ONE, 4), Neighbours(Adjacency.ZERO_OUT, 3)):
        plain = GaussianSpec(noise_multiplier=2.0 / 3.0).poisson(0.01, neighbours)
        np.testing.assert_allclose(sure.poisson(0.01, neighbours).rdp(ORDERS), plain.rdp(ORDERS), rtol=1e-9)


def test_between_its_smallest_and_its_largest_contribution() -> None:
    for neighbours, stretch in ((ADD, 1.0), (REPLACE, 2.0)):
        found = SPEC.resolve(neighbours)
        assert (found.rdp(ORDERS) <= Gaussian(stretch).rdp(ORDERS)).all()
        assert found.zcdp() == Gaussian(stretch).zcdp() and (found.rdp(ORDERS) <= found.zcdp() * ORDERS).all()
        assert 0.0 < found.approx_dp(1e-6) < Gaussian(stretch).approx_dp(1e-6)


def test_what_probabilities_lack_of_one_counts_for_the_largest() -> None:
    spec = GaussianMixtureSpec(sensitivities=(1.0, 2.0), probabilities=(0.5, 0.5 - 4e-10), sigma=1.0)
    exact = GaussianMixtureSpec(sensitivities=(1.0, 2.0), probabilities=(0.5, 0.5), sigma=1.0)
    assert not list(spec.problems())
    np.testing.assert_allclose(spec.resolve(ADD).rdp(ORDERS), exact.resolve(ADD).rdp(ORDERS), rtol=1e-12)


def test_edges() -> None:
    assert GaussianMixtureSpec(sensitivities=(0.0,), probabilities=(1.0,), sigma=1.0).resolve(ADD) == Free()
    assert isinstance(GaussianMixtureSpec(sensitivities=(1e200,), probabilities=(1.0,), sigma=1e-5).resolve(ADD), NoPrivacy)
    assert fixed_size(SPEC.resolve(REPLACE), 0.1, 1) == PoissonReplaced(SPEC.resolve(REPLACE), 0.1)
    assert SPEC.contribution_form


@pytest.mark.parametrize(
    ("probabilities", "problem"),
    [
        ((0.5, 0.4), ("probabilities", "numbers that add up to 1", "0.9")),
        ((1.0,), ("probabilities", "one probability for each of 2 sensitivities", "1")),
    ],
)
def test_problems(probabilities: tuple[float, ...], problem: tuple[str, str, str]) -> None:
    spec = GaussianMixtureSpec(sensitivities=(1.0, 2.0), probabilities=probabilities, sigma=1.0)
    assert list(spec.problems()) == [problem]


def test_many_amounts_are_rounded_up_and_large_groups_go_as_one() -> None:
    random = np.random.default_rng(5)
    one = dict(zip(random.uniform(0.1, 1.0, 40).tolist(), [0.02] * 40, strict=True))
    total = weights_of_sum(one, 4)
    assert len(total) <= 256
    assert sum(w * s for s, w in total.items()) >= 4 * sum(w * s for s, w in one.items())
    assert sum(w * s for s, w in total.items()) <= 4 * sum(w * s for s, w in one.items()) * 1.02
    assert sum(total.values()) == pytest.approx(1.0 - 0.2**4, rel=1e-12)
    large = weights_of_sum(one, 100)
    assert len(large) <= 65 and math.fsum(large.values()) == pytest.approx(1.0, abs=1e-9)
    for number in range(1, 101):  # at least so many of the draws are not 0
        tail = math.fsum(weight for shift, weight in large.items() if shift >= max(one) * number * (1.0 - 1e-12))
        assert tail >= binom.sf(number - 1, 100, math.fsum(one.values())) * (1.0 - 1e-9)


@pytest.mark.parametrize("records", [2, 9, 21, 22, 64])
def test_sums_that_only_rounding_tells_apart_are_one(records: int) -> None:
    """Contributions of .1 and .7 add up to multiples of .1; the reference is a convolution of whole numbers of tenths."""
    one = np.zeros(8)
    one[[0, 1, 7]] = 0.5, 0.2, 0.3
    exact = np.ones(1)
    for _ in range(records):
        exact = np.convolve(exact, one)
    spec = GaussianMixtureSpec(sensitivities=(0.1, 0.7), probabilities=(0.4, 0.6), sigma=0.7)
    found = spec.poisson(0.5, Neighbours(Adjacency.ADD_REMOVE, records))
    mixture = getattr(found, "by", found).mixture
    for tenths in range(1, 7 * records + 1):
        at_least = sum(math.exp(w) for w, s in zip(mixture.log_weights, mixture.shifts, strict=True) if s >= (tenths - 1e-9) / 7)
        assert at_least >= exact[tenths:].sum() * (1.0 - 1e-11)
        if 7 * records <= 256:
            assert at_least <= exact[tenths:].sum() * (1.0 + 1e-11)
    assert found.attained() == (records <= 21)


@of_each("probability", [0.5, 1e-150, 1e-250, 5e-324])
@of_each("rate", [1.0, 1e-3, 1e-229, 5e-324])
@of_each("records", [1, 2, 5])
def test_an_outcome_that_floating_point_does_not_hold_is_kept(probability: float, rate: float, records: int) -> None:
    """Raised, never dropped: the largest contribution happens with at least its probability, and nothing is claimed of the raised."""
    spec = GaussianMixtureSpec(sensitivities=(1.0, 3.0), probabilities=(1.0 - probability, probability), sigma=1.0)
    found = spec.poisson(rate, Neighbours(Adjacency.ADD_REMOVE, records))
    assert np.isfinite(found.rdp(ORDERS)).all()
    mixture = getattr(found, "by", found).mixture
    assert mixture.reach == 3.0 * records
    assert mixture.log_weights[-1] >= records * (math.log(rate) + math.log(probability)) - 1e-9 * records * 750.0
    assert found.attained() == (records * (math.log(rate) + math.log(probability)) > math.log(1e-300))

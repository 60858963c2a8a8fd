"""Samples of bounded size, against enumeration of every sample and every cut."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr

from dpcli.errors import InputError
from dpcli.mechanisms.combined.labelled import Labelled
from dpcli.mechanisms.mechanism import Dominated
from dpcli.mechanisms.neighbours import Adjacency, Neighbours
from dpcli.mechanisms.noise.gaussian import Gaussian
from dpcli.mechanisms.noise.gaussian_spec import GaussianSpec
from dpcli.mechanisms.noise.laplace import LaplaceSpec
from dpcli.mechanisms.sampling.sampled_gaussian import SampledGaussian, SampledGaussianReplaced
from dpcli.mechanisms.sampling.schemes import Poisson
from dpcli.mechanisms.sampling.truncated import truncated
from dpcli.mechanisms.spec import Spec
from dpcli.mechanisms.stated.pure_and_approx import PureSpec
from dpcli.numerics.closed.binomial import log_binomial_tail
from dpcli.pipeline.resolve import resolve
from tests.mechanisms.test_sampled_losses import AT, worst
from tests.oracles import Array, hockey_stick
from tests.strategies import entry, pipeline

ORDERS: Array = np.array([1.5, 2.0, 5.0, 20.0])


def released(records: tuple[int | None, ...], rate: float, most: int, sigma: float, x: Array) -> Array:
    """The law of the noisy sum of a cut sample, rounded to cells between the x; a record None is there and contributes nothing."""
    law = np.zeros(len(x) + 1)
    for chosen in itertools.product((False, True), repeat=len(records)):
        sample = [value or 0 for value, taken in zip(records, chosen, strict=True) if taken]
        weight = rate ** len(sample) * (1.0 - rate) ** (len(records) - len(sample))
        cuts = list(itertools.combinations(sample, min(most, len(sample))))
        for cut in cuts:
            law = law + weight / len(cuts) * np.diff(ndtr((x - sum(cut)) / sigma), prepend=0.0, append=1.0)
    return law


@given(
    st.lists(st.sampled_from([-1, 0, 1]), min_size=1, max_size=4),
    st.integers(1, 5),
    st.floats(0.05, 0.95),
    st.sampled_from(["add-remove", "zero-out", "replace-one"]),
    st.integers(1, 2),
    st.sampled_from([0.7, 2.0]),
)
@settings(max_examples=30)
def test_every_sample_and_every_cut(others: list[int], most: int, rate: float, adjacency: str, group: int, sigma: float) -> None:
    """A sum of records in [-1, 1]; `group` ones leave, become nothing, or turn into minus one."""
    x: Array = np.linspace(-8.0 * sigma - 6.0, 8.0 * sigma + 6.0, 2001)  # rounding to cells is post-processing
    changed: dict[str, tuple[int | None, ...]] = {"add-remove": (), "zero-out": (None,) * group, "replace-one": (-1,) * group}
    with_it = released((*others, *(1,) * group), rate, most, sigma, x)
    without = released((*others, *changed[adjacency]), rate, most, sigma, x)
    neighbours = Neighbours(Adjacency(adjacency), group)
    bound = truncated(GaussianSpec(noise_multiplier=sigma), Fraction(rate), neighbours, len(others) + group, most)
    found = worst(bound)
    for one, two in ((with_it, without), (without, with_it)):
        exact = np.array([hockey_stick(one, two, eps) for eps in AT.tolist()])
        assert (found >= exact - 1e-12).all()
    for delta in (0.1, 1e-3):
        epsilon = bound.approx_dp(delta)
        assert max(hockey_stick(with_it, without, epsilon), hockey_stick(without, with_it, epsilon)) <= delta + 1e-12
    seen = without > 0.0
    for order, value in zip((1.5, 2.0), bound.rdp(np.array([1.5, 2.0])).tolist(), strict=True):
        assert value >= math.log(float((with_it[seen] ** order * without[seen] ** (1.0 - order)).sum())) / (order - 1.0) - 1e-12


@pytest.mark.parametrize("adjacency", ["add-remove", "zero-out", "replace-one"])
@pytest.mark.parametrize("spec", [GaussianSpec(noise_multiplier=2.0), LaplaceSpec(noise_multiplier=2.0)], ids=repr)
def test_tighter_bounds_cost_more_and_loose_ones_nothing(spec: Spec, adjacency: str) -> None:
    neighbours = Neighbours(Adjacency(adjacency))
    bounds = [truncated(spec, Fraction(1, 100), neighbours, 10_000, most) for most in (10_000, 200, 150, 120, 90, 1)]
    curves, renyi = [worst(bound) for bound in bounds], [bound.rdp(ORDERS) for bound in bounds]
    plain = spec.poisson(0.01, neighbours)
    np.testing.assert_allclose(curves[0], worst(plain), atol=1e-13)
    np.testing.assert_allclose(renyi[0], plain.rdp(ORDERS), rtol=1e-10)
    for low, high in itertools.pairwise(curves):
        assert (low <= high + 1e-12).all()
    for low, high in itertools.pairwise(renyi):
        assert (low <= high * (1.0 + 1e-11)).all()
    epsilons = [bound.approx_dp(1e-4) for bound in bounds]
    assert all(low <= high * (1.0 + 1e-9) for low, high in itertools.pairwise(epsilons))
    assert epsilons[0] == pytest.approx(plain.approx_dp(1e-4), rel=1e-6)


def test_samples_that_are_never_cut_are_poisson_samples() -> None:
    assert truncated(
        GaussianSpec(noise_multiplier=2.0), Fraction(1, 10), Neighbours(Adjacency.ADD_REMOVE), 50, 51
    ) == SampledGaussian(0.5, 0.1)
    found = truncated(GaussianSpec(noise_multiplier=2.0), Fraction(1, 10), Neighbours(Adjacency.REPLACE_ONE, 3), 50, 53)
    assert found == SampledGaussianReplaced(0.5, 0.1, 3)


def test_samples_that_are_always_cut_are_bounded_by_replacement() -> None:
    assert truncated(GaussianSpec(noise_multiplier=2.0), Fraction(1, 10), Neighbours(Adjacency.ADD_REMOVE), 50, 5) == Dominated(
        SampledGaussian(1.0, 0.1)
    )


def test_the_scheme_in_a_file() -> None:
    single = entry("gaussian", steps=7, noise_multiplier=2.0)
    sampled = replace(single, sampling=Poisson("poisson", None, 100, 150))
    (charge,) = resolve(pipeline(sampled, dataset_size=10_000))
    assert charge.count == 7
    assert charge.mechanism == truncated(single.spec, Fraction(1, 100), Neighbours(Adjacency.ADD_REMOVE), 10_000, 150)
    assert list(Poisson("poisson", 0.1, None, 150).problems(None)) == [
        ("max_batch_size", "privacy.dataset_size with max_batch_size", "none")
    ]


def test_units_of_several_records_need_a_statement_per_record() -> None:
    unit = Neighbours(Adjacency.ADD_REMOVE, 4)
    with pytest.raises(InputError, match="max_batch_size with units"):
        truncated(PureSpec(epsilon=0.5, stated_for="unit"), Fraction(1, 10), unit, 100, 20)
    assert truncated(PureSpec(epsilon=0.5, stated_for="record"), Fraction(1, 10), unit, 100, 20).approx_dp(0.0) > 0.0


# The labelled mixture that it is built of.


def test_moments_of_a_labelled_mixture() -> None:
    mixture = Labelled(SampledGaussian(0.5, 0.1), Gaussian(1.0), math.log(1e-3))
    z = ORDERS - 1.0
    for side, loss in enumerate(mixture.losses()):
        one = SampledGaussian(0.5, 0.1).losses()[side].cgf(z)
        np.testing.assert_allclose(loss.cgf(z), np.log(0.999 * np.exp(one) + 1e-3 * np.exp(0.5 * z * (z + 1.0))), rtol=1e-11)
    assert (mixture.rdp(ORDERS) * z >= mixture.losses()[0].cgf(z) * (1.0 - 1e-12)).all()


@pytest.mark.parametrize("share", [1e-12, 1e-4, 0.3])
@pytest.mark.parametrize("delta", [1e-10, 1e-5, 0.01, 0.2])
def test_stated_form_of_a_labelled_mixture(share: float, delta: float) -> None:
    """Never below the exact epsilon, and close to it."""
    mixture = Labelled(Gaussian(0.5), Gaussian(2.0), math.log(share))
    epsilon = mixture.approx_dp(delta)
    at: Array = np.array([epsilon])
    assert worst(mixture, at)[0] <= delta * (1.0 + 1e-6)
    assert Gaussian(0.5).approx_dp(delta) * (1.0 - 1e-6) <= epsilon <= Gaussian(2.0).approx_dp(delta)


def test_tilted_labelled_mixture() -> None:
    """The characteristic function of the tilted mixture against a sum over the two normal laws."""
    mixture = Labelled(Gaussian(0.5), Gaussian(1.5), math.log(0.01)).losses()[0]
    t, step, count = 1.5, 0.7, 6
    tilted = mixture.tilted(t)
    weights = np.array([0.99 * math.exp(0.125 * t * (t + 1.0)), 0.01 * math.exp(1.125 * t * (t + 1.0))])
    weights = weights / weights.sum()
    means, variances = np.array([0.25, 2.25]) * (t + 0.5), np.array([0.25, 2.25])
    y = step * np.arange(count)
    exact = (weights * np.exp(1j * y[:, None] * means - 0.5 * variances * y[:, None] ** 2)).sum(axis=1)
    assert tilted.mean == pytest.approx(float(weights @ means), rel=1e-12)
    assert tilted.variance == pytest.approx(float(weights @ (variances + (means - tilted.mean) ** 2)), rel=1e-12)
    np.testing.assert_allclose(np.exp(tilted.centred(step, count, -32.0) + 1j * y * tilted.mean), exact, atol=1e-13)
    assert (np.exp(tilted.decay(y[1:])) >= np.abs(exact[1:]) - 1e-13).all()


# The binomial tail.


@pytest.mark.parametrize(
    ("trials", "rate", "least"),
    [
        (10, Fraction(1, 4), 5),
        (10, Fraction(1, 4), 10),
        (1, Fraction(1, 3), 1),
        (20, Fraction(9, 10), 19),
        (1000, Fraction(1, 10), 150),
        (60_000, Fraction(256, 60_000), 257),
        (60_000, Fraction(256, 60_000), 500),
    ],
)
def test_binomial_tail(trials: int, rate: Fraction, least: int) -> None:
    with mp.workdps(40):
        exact = mp.log(mp.betainc(least, trials - least + 1, 0, mp.mpf(rate.numerator) / rate.denominator, regularized=True))
        found = log_binomial_tail(trials, rate, least)
        stirling = mp.mpf(1) / (12 * least) + (mp.mpf(1) / (12 * (trials - least)) if least < trials else 0)
        assert exact <= found <= exact + stirling + mp.mpf("1e-9")


def test_binomial_tail_edges() -> None:
    assert log_binomial_tail(10, Fraction(1, 2), 11) == -math.inf
    assert (
        log_binomial_tail(10, Fraction(1, 2), 5)
        == log_binomial_tail(10, Fraction(1), 10)
        == log_binomial_tail(5, Fraction(1, 2), 0)
        == 0.0
    )
    assert log_binomial_tail(10, Fraction(0), 1) == -math.inf
    large = log_binomial_tail(10**18, Fraction(1, 10**6), 10**12 + 7 * 10**6)
    assert 0.0 <= large - float(mp.log(mp.ncdf(-7))) <= 0.02  # a geometric series for the terms left out: 1 / 7^2

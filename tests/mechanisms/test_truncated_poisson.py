"""Poisson samples of bounded size: larger ones are cut at random to the bound.

The claimed cost is compared with the law of the noisy sum over every sample and every cut of a few records, and with its parts: binomial
tails and labelled mixtures.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr

from dpcli.accountants.exact import ExactProfile
from dpcli.accountants.pld import PldProfile
from dpcli.base.errors import InputError
from dpcli.file.pipeline.resolve import resolve
from dpcli.mechanisms.combined.labelled import Labelled
from dpcli.mechanisms.mechanism import Dominated, Mechanism
from dpcli.mechanisms.neighbours import Adjacency, Neighbours, any_sampled
from dpcli.mechanisms.noise.gaussian import Gaussian
from dpcli.mechanisms.noise.gaussian_mixture import GaussianMixture, mixture_of
from dpcli.mechanisms.noise.gaussian_spec import GaussianSpec, SampledGaussian, SampledGaussianReplaced
from dpcli.mechanisms.noise.laplace import LaplaceSpec
from dpcli.mechanisms.sampling.poisson import PoissonReplaced, PoissonSampled
from dpcli.mechanisms.sampling.schemes import Poisson
from dpcli.mechanisms.sampling.truncated import _log_cut, on_cut_sample
from dpcli.mechanisms.spec import Spec
from dpcli.mechanisms.stated.pure_and_approx import PureSpec
from dpcli.numerics.closed.discrete_tails import log_binomial_tail, log_binomial_term
from tests.cases import of_each, tiered
from tests.mechanisms.curves import AT, worst
from tests.oracles import Array, hockey_stick
from tests.strategies import entry, pipeline

ORDERS: Array = np.array([1.5, 2.0, 5.0, 20.0])


NOISES: dict[str, tuple[type[GaussianSpec] | type[LaplaceSpec], Callable[[Array], Array]]] = {
    "gaussian": (GaussianSpec, ndtr),
    "laplace": (LaplaceSpec, lambda x: np.where(x < 0.0, 0.5 * np.exp(-np.abs(x)), 1.0 - 0.5 * np.exp(-np.abs(x)))),
}


def released(
    records: tuple[int | None, ...], rate: float, most: int, sigma: float, x: Array, below: Callable[[Array], Array] = ndtr
) -> Array:
    """Return the law of the noisy sum of a cut sample, rounded to cells between the x. A record None is there and contributes nothing."""
    law = np.zeros(len(x) + 1)
    for chosen in itertools.product((False, True), repeat=len(records)):
        sample = [value or 0 for value, taken in zip(records, chosen, strict=True) if taken]
        weight = rate ** len(sample) * (1.0 - rate) ** (len(records) - len(sample))
        cuts = list(itertools.combinations(sample, min(most, len(sample))))
        for cut in cuts:
            law = law + weight / len(cuts) * np.diff(below((x - sum(cut)) / sigma), prepend=0.0, append=1.0)
    return law


def neighbouring(
    others: list[int], adjacency: str, group: int, rate: float, most: int, sigma: float, noise: str = "gaussian"
) -> tuple[Array, Array]:
    """Return neighbouring laws of a sum of records in [-1, 1]: `group` ones leave, become nothing, or turn into minus one."""
    x: Array = np.linspace(-8.0 * sigma - 6.0, 8.0 * sigma + 6.0, 1201)  # rounding to cells is post-processing
    changed: dict[str, tuple[int | None, ...]] = {"add-remove": (), "zero-out": (None,) * group, "replace-one": (-1,) * group}
    below = NOISES[noise][1]
    with_it = released((*others, *(1,) * group), rate, most, sigma, x, below)
    return with_it, released((*others, *changed[adjacency]), rate, most, sigma, x, below)


@pytest.mark.nightly
@pytest.mark.long
@given(
    st.lists(st.sampled_from([-1, 0, 1]), min_size=1, max_size=4),
    st.integers(0, 2),
    st.integers(1, 5),
    st.floats(0.05, 0.95),
    st.sampled_from(["add-remove", "zero-out", "replace-one"]),
    st.integers(1, 2),
    st.sampled_from([0.7, 2.0]),
    st.sampled_from(sorted(NOISES)),
)
@settings(max_examples=40)
def test_every_sample_and_every_cut(
    others: list[int], fewer: int, most: int, rate: float, adjacency: str, group: int, sigma: float, noise: str
) -> None:
    """The data may have fewer records than are declared."""
    with_it, without = neighbouring(others, adjacency, group, rate, most, sigma, noise)
    neighbours = Neighbours(Adjacency(adjacency), group)
    spec = NOISES[noise][0](noise_multiplier=sigma)
    whole = on_cut_sample(spec, Fraction(rate), neighbours, len(others) + group + fewer, most)
    for bound in (whole, *whole.dominating()):
        covers(bound, with_it, without)


def covers(bound: Mechanism, with_it: Array, without: Array) -> None:
    """Assert that the bound covers the pair in both directions, by its curve, its epsilons and its Renyi divergences."""
    found = worst(bound)
    for one, two in ((with_it, without), (without, with_it)):
        exact = np.array([hockey_stick(one, two, eps) for eps in AT.tolist()])
        assert (found >= exact - 1e-12).all()
    for delta in (0.1, 1e-3):
        epsilon = bound.approx_dp(delta)
        assert max(hockey_stick(with_it, without, epsilon), hockey_stick(without, with_it, epsilon)) <= delta + 1e-12
    for one, two in ((with_it, without), (without, with_it)):
        for order, value in zip((1.5, 2.0), bound.rdp(np.array([1.5, 2.0])).tolist(), strict=True):
            seen = two > 1e-200
            assert value >= math.log(float((one[seen] ** order * two[seen] ** (1.0 - order)).sum())) / (order - 1.0) - 1e-12


@pytest.mark.long
@given(
    st.lists(st.sampled_from([-1, 0, 1]), min_size=2, max_size=6),
    st.floats(0.01, 0.99),
    st.integers(0, 2),
    st.sampled_from(["add-remove", "zero-out", "replace-one"]),
    st.sampled_from([0.7, 2.0]),
    st.sampled_from(sorted(NOISES)),
)
@settings(max_examples=4)
def test_every_cut_where_cuts_are_rare(
    others: list[int], share: float, fewer: int, adjacency: str, sigma: float, noise: str
) -> None:
    """Rates at which both couplings apply for any number of records, up to the largest of them."""
    most = (len(others) + 1) // 2
    size = len(others) + fewer + (adjacency != "add-remove")
    rate = Fraction(most, size) * Fraction(share)
    with_it, without = neighbouring(others, adjacency, 1, float(rate), most, sigma, noise)
    whole = on_cut_sample(NOISES[noise][0](noise_multiplier=sigma), rate, Neighbours(Adjacency(adjacency)), size, most)
    assert len(whole.dominating()) == 2
    for bound in whole.dominating():
        covers(bound, with_it, without)


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("adjacency", "others", "most", "rate", "group", "times"),
    [
        ("add-remove", 1, 1, 0.5, 1, (1.4, 2.4)),  # charged as twice the contribution whenever something is cut: 2.1 and 5.6
        ("add-remove", 3, 2, 0.3, 1, (1.35, 4.5)),
        ("add-remove", 5, 4, 0.2, 1, (1.02, 1.35)),
        ("add-remove", 3, 2, 0.3, 2, (1.9, 5.2)),
        ("zero-out", 1, 1, 0.5, 1, (1.65, 2.9)),
        ("zero-out", 5, 4, 0.2, 1, (1.01, 1.15)),
        ("replace-one", 1, 1, 0.5, 1, (1.35, 1.45)),
        ("replace-one", 5, 4, 0.2, 1, (1.01, 1.07)),
    ],
)
def test_not_far_above_the_worst_data(
    adjacency: str, others: int, most: int, rate: float, group: int, times: tuple[float, float]
) -> None:
    """delta at epsilon .05 and 1, of records that are 1, 0 or -1."""
    at: Array = np.array([0.05, 1.0])
    exact = np.zeros(2)
    for values in itertools.combinations_with_replacement([-1, 0, 1], others):
        one, two = neighbouring(list(values), adjacency, group, rate, most, 1.0)
        exact = np.maximum(exact, [max(hockey_stick(one, two, eps), hockey_stick(two, one, eps)) for eps in at.tolist()])
    spec, neighbours = GaussianSpec(noise_multiplier=1.0), Neighbours(Adjacency(adjacency), group)
    ways = on_cut_sample(spec, Fraction(repr(rate)), neighbours, others + group, most).dominating()
    found = np.minimum.reduce([worst(way, at) for way in ways])
    assert (found >= exact).all()
    assert (found <= exact * np.array(times)).all()


@pytest.mark.parametrize(
    ("adjacency", "plain", "told", "most"),
    tiered(
        [("add-remove", 2.3795545, 3.445, 2.449), ("zero-out", 2.3795545, 3.476, 2.420), ("replace-one", 4.2174858, 4.582, 4.274)],
        1,
        2,
    ),
)
def test_a_bound_of_almost_three_deviations_costs_a_run_little(adjacency: str, plain: float, told: float, most: float) -> None:
    """256 of 60,000 records for 14,040 steps, cut to 300; exact takes the smaller of both ways, each of which has its own."""
    sampled = on_cut_sample(
        GaussianSpec(noise_multiplier=1.1), Fraction(256, 60_000), Neighbours(Adjacency(adjacency)), 60_000, 300
    )
    found = ExactProfile(((sampled, 14_040),)).epsilon(1e-5)
    assert plain <= found.upper <= most
    assert ExactProfile(((sampled, 14_040),)).delta(found.upper).upper == pytest.approx(1e-5, rel=1e-6)
    first, second = sampled.dominating()
    assert found.upper == ExactProfile(((second, 14_040),)).epsilon(1e-5).upper
    assert PldProfile(((first, 14_040),)).epsilon(1e-5).upper == pytest.approx(told, rel=3e-3)


@of_each("noise", sorted(NOISES))
@of_each("adjacency", ["add-remove", "zero-out", "replace-one"])
@of_each("records", [1, 3])
def test_never_above_twice_the_contribution_whenever_something_is_cut(noise: str, adjacency: str, records: int) -> None:
    """The first argument of the proof alone, whatever the size of data and samples."""
    neighbours, spec = Neighbours(Adjacency(adjacency), records), NOISES[noise][0](noise_multiplier=1.5)
    for size, most, rate in ((5, 2, 0.3), (40, 1, 0.01), (40, 12, 0.2), (3000, 330, 0.1)):
        sampled = spec.poisson(rate, neighbours)
        inner = spec.resolve(replace(neighbours, group=records * (1 if neighbours.replaces else 2)))
        drawn = any_sampled(rate, records)
        far = PoissonSampled(inner, drawn) if adjacency == "add-remove" else PoissonReplaced(inner, drawn)
        whole = Labelled(sampled, far, log_binomial_tail(size, Fraction(repr(rate)), max(most - records + 1, 0)) - 1e-300)
        found = on_cut_sample(spec, Fraction(repr(rate)), neighbours, size, most).dominating()[0]
        at: Array = np.array([0.0, 0.01, 0.3, 1.0, 3.0])
        assert (worst(found, at) <= worst(whole, at) * (1.0 + 1e-9)).all()


@pytest.mark.sampled
@pytest.mark.parametrize("adjacency", ["add-remove", "zero-out", "replace-one"])
@pytest.mark.parametrize("spec", [GaussianSpec(noise_multiplier=2.0), LaplaceSpec(noise_multiplier=2.0)], ids=repr)
def test_tighter_bounds_cost_more_and_loose_ones_nothing(spec: Spec, adjacency: str) -> None:
    neighbours = Neighbours(Adjacency(adjacency))
    bounds = [on_cut_sample(spec, Fraction(1, 100), neighbours, 10_000, most) for most in (10_000, 200, 150, 120, 90)]
    curves, renyi = [worst(bound) for bound in bounds], [bound.rdp(ORDERS) for bound in bounds]
    plain = spec.poisson(0.01, neighbours)
    np.testing.assert_allclose(curves[0], worst(plain), atol=1e-13)
    np.testing.assert_allclose(renyi[0], plain.rdp(ORDERS), rtol=1e-10)
    for low, high in itertools.pairwise(curves):
        assert (low <= high + 1e-12).all()
    for low, high in itertools.pairwise(renyi):
        assert (low <= high * (1.0 + 1e-11)).all()
    epsilons = [bound.dominating()[0].approx_dp(1e-4) for bound in bounds]
    assert all(low <= high * (1.0 + 1e-9) for low, high in itertools.pairwise(epsilons))
    assert epsilons[0] == pytest.approx(plain.approx_dp(1e-4), rel=1e-6)


def test_samples_that_are_never_cut_are_poisson_samples() -> None:
    assert on_cut_sample(
        GaussianSpec(noise_multiplier=2.0), Fraction(1, 10), Neighbours(Adjacency.ADD_REMOVE), 50, 51
    ) == SampledGaussian(0.5, 0.1)
    found = on_cut_sample(GaussianSpec(noise_multiplier=2.0), Fraction(1, 10), Neighbours(Adjacency.REPLACE_ONE, 3), 50, 53)
    assert found == SampledGaussianReplaced(0.5, 0.1, 3)


def test_samples_that_are_always_cut_are_bounded_by_replacement() -> None:
    """Twice the contribution where the record is kept, once where it is not."""
    found = on_cut_sample(GaussianSpec(noise_multiplier=2.0), Fraction(1, 10), Neighbours(Adjacency.ADD_REMOVE), 50_000, 4)
    assert found == Dominated(GaussianMixture(mixture_of({0.5: 0.1 / 5, 1.0: 0.1 * 4 / 5})))


def test_the_scheme_in_a_file() -> None:
    single = entry("gaussian", steps=7, noise_multiplier=2.0)
    sampled = replace(single, sampling=Poisson("poisson", None, 100, 150))
    (charge,) = resolve(pipeline(sampled, dataset_size=10_000))
    assert charge.count == 7
    assert charge.mechanism == on_cut_sample(single.spec, Fraction(1, 100), Neighbours(Adjacency.ADD_REMOVE), 10_000, 150)
    assert list(Poisson("poisson", 0.1, None, 150).problems(None)) == [
        ("max_batch_size", "privacy.dataset_size with max_batch_size", "none")
    ]


def test_units_of_several_records_need_a_statement_per_record() -> None:
    unit = Neighbours(Adjacency.ADD_REMOVE, 4)
    with pytest.raises(InputError, match="max_batch_size with units"):
        on_cut_sample(PureSpec(epsilon=0.5, stated_for="unit"), Fraction(1, 10), unit, 100, 20)
    assert on_cut_sample(PureSpec(epsilon=0.5, stated_for="record"), Fraction(1, 10), unit, 100, 20).approx_dp(0.0) > 0.0


# The labelled mixture that it is built of.


def test_moments_of_a_labelled_mixture() -> None:
    mixture = Labelled(SampledGaussian(0.5, 0.1), Gaussian(1.0), math.log(1e-3))
    z = ORDERS - 1.0
    for side, loss in enumerate(mixture.losses()):
        one = SampledGaussian(0.5, 0.1).losses()[side].cgf(z)
        np.testing.assert_allclose(loss.cgf(z), np.log(0.999 * np.exp(one) + 1e-3 * np.exp(0.5 * z * (z + 1.0))), rtol=1e-11)
    assert (mixture.rdp(ORDERS) * z >= mixture.losses()[0].cgf(z) * (1.0 - 1e-12)).all()


@of_each("share", [1e-12, 1e-4, 0.3])
@of_each("delta", [1e-10, 1e-5, 0.01, 0.2])
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


@of_each(
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


@pytest.mark.parametrize(
    ("trials", "rate", "count"),
    [
        (1, Fraction(1, 3), 0),
        (10, Fraction(1, 4), 10),
        (900, Fraction(1, 9), 110),
        (60_000, Fraction(256, 60_000), 299),
        (10**6, Fraction(1, 10**6), 1),
    ],
)
def test_one_binomial_probability(trials: int, rate: Fraction, count: int) -> None:
    with mp.workdps(40):
        q = mp.mpf(rate.numerator) / rate.denominator
        exact = mp.log(mp.binomial(trials, count)) + count * mp.log(q) + (trials - count) * mp.log1p(-q)
        found = log_binomial_term(trials, rate, count)
        assert exact - mp.mpf(1) / (6 * count + 1) - mp.mpf("1e-8") <= found <= exact


def test_binomial_tail_edges() -> None:
    assert log_binomial_tail(10, Fraction(1, 2), 11) == -math.inf
    assert log_binomial_tail(10, Fraction(1, 2), 5) == pytest.approx(math.log(638 / 1024), abs=1e-8)
    assert (
        log_binomial_tail(10_000, Fraction(1, 2), 5000)
        == log_binomial_tail(10, Fraction(1), 10)
        == log_binomial_tail(5, Fraction(1, 2), 0)
        == 0.0
    )
    assert log_binomial_tail(10, Fraction(0), 1) == -math.inf
    large = log_binomial_tail(10**18, Fraction(1, 10**6), 10**12 + 7 * 10**6)
    assert 0.0 <= large - float(mp.log(mp.ncdf(-7))) <= 0.02  # a geometric series for the terms left out: 1 / 7^2


@pytest.mark.parametrize("rate", [Fraction(1, 20), Fraction(3, 10), Fraction(9, 10)])
def test_what_is_charged_for_cuts_covers_fewer_records(rate: Fraction) -> None:
    """P(cut), for one record each cut weighed by (B+1)/(|R|+1), of any number of others up to the largest."""
    for most, largest, records in itertools.product((1, 2, 5), (1, 4, 12), (1, 2)):
        found = math.exp(_log_cut(largest, rate, most, records))
        for others in range(largest + 1):
            law = [math.comb(others, m) * float(rate) ** m * (1.0 - float(rate)) ** (others - m) for m in range(others + 1)]
            share = [1.0 if records > 1 else (most + 1) / (m + 1) for m in range(others + 1)]
            exact = sum(law[m] * share[m] for m in range(max(most - records + 1, 0), others + 1))
            assert exact * (1.0 - 1e-12) <= found
            assert others < largest or (records == 1 and most < largest * rate) or found <= exact * (1.0 + 1e-7)

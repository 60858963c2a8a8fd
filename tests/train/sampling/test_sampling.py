"""Batches follow the sampling scheme that the accountant prices: their sizes, their members, and independence."""

from __future__ import annotations

import itertools
from fractions import Fraction
from math import ceil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, chi2, chisquare

from dpcli.base.errors import InputError
from dpcli.base.registry import SAMPLING
from dpcli.mechanisms.noise.correlated import BandedSpec, TreeSpec
from dpcli.mechanisms.sampling.schemes import BallsInBins, Batched, FixedSize, OncePerEpoch, Poisson, Scheme, Unsampled
from dpcli.random.streams import SeededStream, system_entropy
from dpcli.train.sampling.batch_samplers import SAMPLERS, correlated_sampler, pass_length, sampler
from tests.cases import require_each
from tests.train.sampling.draws import binomial_fit

P = 1e-6  # the streams are seeded, so a test either always passes or never
STEPS = 10_000


def taken(scheme: Scheme, dataset_size: int | None, steps: int, seed: int, records: int | None = None) -> np.ndarray:
    """Who was in which step, as a 0/1 matrix (steps, records)."""
    count = dataset_size if records is None else records
    matrix = np.zeros((steps, count or 0), np.int64)
    for row, batch in zip(matrix, sampler(scheme, dataset_size, SeededStream(seed), records), strict=False):
        assert np.all(np.diff(batch) > 0), "a record twice in one batch, or out of order"
        row[batch] = 1
    return matrix


def poisson(rate: float, most: int | None = None) -> Poisson:
    return Poisson("poisson", rate=rate, max_batch_size=most)


def within(successes: np.ndarray, trials: int, rate: float) -> float:
    """p-value of the hypothesis that these are independent draws of Binomial(trials, rate), two-sided, by their chi-square."""
    statistic = float((np.square(successes - trials * rate) / (trials * rate * (1 - rate))).sum())
    return 2.0 * min(chi2.cdf(statistic, successes.size), chi2.sf(statistic, successes.size))


def test_every_scheme_has_a_sampler() -> None:
    assert set(SAMPLERS) == set(SAMPLING)


@pytest.mark.long
def test_poisson_sizes_are_binomial() -> None:
    def check(case: tuple[int, float]) -> None:
        records, rate = case
        batches = sampler(poisson(rate), records, SeededStream(11))
        sizes = np.array([len(batch) for batch in itertools.islice(batches, STEPS)])
        assert binomial_fit(sizes, records, rate) > P

    require_each([(1_000, 0.02), (200, 0.5), (50, 0.001), (10_000, 1e-4)], check)


def test_poisson_takes_every_record_equally_often() -> None:
    assert within(taken(poisson(0.05), 200, STEPS, 12).sum(axis=0), STEPS, 0.05) > P


@pytest.mark.long
@pytest.mark.parametrize(("records", "steps"), [(1, 0), (7, 0), (0, 1), (0, 2), (1, 1)])
def test_poisson_draws_are_independent(records: int, steps: int) -> None:
    """Two coins some records and some steps apart are both heads with probability q^2."""
    matrix = taken(poisson(0.2), 100, STEPS, 13)
    both = (matrix[: STEPS - steps, : 100 - records] * matrix[steps:, records:]).sum()
    pairs = (STEPS - steps) * (100 - records)
    # Neighbouring pairs share a coin, so the variance is that of m-dependent products: p (1 - p) + 2 (q^3 - q^4).
    deviation = (both - pairs * 0.04) / np.sqrt(pairs * (0.04 * 0.96 + 2 * (0.2**3 - 0.2**4)))
    assert abs(deviation) < 4.9


def test_poisson_with_a_tiny_rate_gives_empty_batches_and_goes_on() -> None:
    batches = [len(batch) for batch in itertools.islice(sampler(poisson(1e-6), 1_000, SeededStream(14)), STEPS)]
    assert len(batches) == STEPS
    assert sum(size > 0 for size in batches) <= binom.ppf(1 - P, STEPS, 1e-3)
    assert sum(batches) > 0


def test_poisson_at_rate_one_and_zero() -> None:
    assert taken(poisson(1.0), 9, 5, 15).all()
    assert not taken(poisson(0.0), 9, 5, 15).any()


def test_poisson_without_any_record_is_an_empty_batch() -> None:
    assert len(next(sampler(poisson(0.5), 100, SeededStream(1), records=0))) == 0


def test_the_rate_is_the_declared_one_whatever_the_number_of_records() -> None:
    """batch_size 20 of 400 declared: 5 %, also where there are only 100."""
    matrix = taken(Poisson("poisson", batch_size=20), 400, STEPS, 16, records=100)
    assert binomial_fit(matrix.sum(axis=1), 100, 0.05) > P


@pytest.mark.long
def test_a_cut_sample_never_exceeds_its_bound_and_is_cut_at_random() -> None:
    matrix = taken(poisson(0.1, 6), 50, STEPS, 17)
    sizes = matrix.sum(axis=1)
    assert sizes.max() == 6
    expected = np.minimum(np.arange(51), 6) @ binom.pmf(np.arange(51), 50, 0.1)
    uncut = np.bincount(sizes, minlength=7)[:6] / binom.pmf(np.arange(6), 50, 0.1)
    assert np.all(np.abs(uncut / STEPS - 1.0) < 0.4), "sizes below the bound are as likely as without it"
    assert chisquare(matrix.sum(axis=0)).pvalue > P
    assert sizes.mean() == pytest.approx(expected, rel=0.01)  # five standard errors


def test_a_bound_needs_the_number_that_it_was_accounted_for_with() -> None:
    with pytest.raises(InputError, match=r"at most privacy.dataset_size records with max_batch_size"):
        sampler(poisson(0.1, 6), 50, SeededStream(1), records=51)


def test_fixed_size_is_exact_and_even() -> None:
    matrix = taken(FixedSize("fixed-size", batch_size=7), 40, STEPS, 18)
    assert set(matrix.sum(axis=1)) == {7}
    assert chisquare(matrix.sum(axis=0)).pvalue > P
    together = (matrix[:, 0] * matrix[:, 1]).sum()
    assert abs(together - STEPS * 7 * 6 / (40 * 39)) < 4.9 * np.sqrt(STEPS * 7 * 6 / (40 * 39))


def test_a_fixed_size_is_rounded_down_and_never_empty() -> None:
    assert len(next(sampler(FixedSize("fixed-size", rate=0.29), 10, SeededStream(1)))) == 2
    for scheme, declared, records in (
        (FixedSize("fixed-size", rate=0.05), 10, 10),
        (FixedSize("fixed-size", batch_size=5), 10, 9),
    ):
        with pytest.raises(InputError, match="expected a fixed size from 1 to the accounted share"):
            sampler(scheme, declared, SeededStream(1), records)


@pytest.mark.parametrize("each", [1, 2, 5])
def test_balls_in_bins_puts_every_record_into_its_bins_once_a_pass(each: int) -> None:
    scheme = BallsInBins("balls-in-bins", rate=each / 10.5, participations=each)
    matrix = taken(scheme, 30, 10 * 400, 19).reshape(400, 10, 30)
    assert np.all(matrix.sum(axis=1) == each)
    assert within(matrix.sum(axis=0).reshape(-1), 400, each / 10) > P
    assert len({passes.tobytes() for passes in matrix}) == 400


def test_balls_in_bins_draws_records_independently() -> None:
    sizes = taken(BallsInBins("balls-in-bins", rate=0.1), 60, STEPS, 20).sum(axis=1)
    assert binomial_fit(sizes[::10], 60, 0.1) > P


@pytest.mark.parametrize("name", ["shuffle", "cyclic"])
@given(size=st.integers(1, 40), batch=st.integers(1, 40), absent=st.integers(0, 10), seed=st.integers(0, 99))
def test_once_per_pass(name: str, size: int, batch: int, absent: int, seed: int) -> None:
    """Each record once in each pass, batches within the stated size, and passes as long as the accountant takes them to be."""
    scheme = OncePerEpoch(name, batch_size=min(batch, size))
    length, records = pass_length(scheme, size), max(size - absent, 0)
    assert length >= 1 // Fraction(min(batch, size), size)
    matrix = taken(scheme, size, 3 * length, seed, records).reshape(3, length, records)
    assert np.all(matrix.sum(axis=1) == 1)
    assert matrix.sum(axis=2).max() <= min(batch, size)


@pytest.mark.parametrize("name", ["shuffle", "cyclic"])
def test_an_order_of_more_places_than_memory_holds_is_refused(name: str) -> None:
    with pytest.raises(InputError, match="at most 2,147,483,648"):
        sampler(OncePerEpoch(name, batch_size=8), 10**12, SeededStream(1), 40)


@pytest.mark.parametrize("name", ["shuffle", "cyclic"])
def test_an_absent_record_leaves_its_place_empty(name: str) -> None:
    scheme = OncePerEpoch(name, batch_size=8)
    everyone, without = taken(scheme, 40, 50, 21), taken(scheme, 40, 50, 21, records=39)
    assert np.array_equal(everyone[:, :39], without)
    with pytest.raises(
        InputError, match=f"expected privacy.dataset_size, and at most this number of records, with scheme = {name}"
    ):
        sampler(scheme, 40, SeededStream(1), records=41)
    with pytest.raises(InputError, match=r"expected privacy.dataset_size"):
        sampler(OncePerEpoch(name, rate=0.1), None, SeededStream(1), records=41)


def test_shuffle_draws_a_new_order_and_cyclic_keeps_its_own() -> None:
    shuffled = taken(OncePerEpoch("shuffle", batch_size=10), 40, 40, 22).reshape(10, 4, 40)
    assert len({passes.tobytes() for passes in shuffled}) == 10
    cyclic = taken(OncePerEpoch("cyclic", batch_size=10), 40, 40, 22).reshape(10, 4, 40)
    assert len({passes.tobytes() for passes in cyclic}) == 1
    assert not np.array_equal(np.flatnonzero(cyclic[0, 0]), np.arange(10)), "the order of the file moves where a record is absent"


def test_without_a_rate_each_pass_is_one_step() -> None:
    assert taken(OncePerEpoch("shuffle"), 12, 3, 23).all()
    assert taken(Unsampled("none"), 12, 3, 23).all()


def test_nothing_is_guessed() -> None:
    with pytest.raises(InputError, match=r"expected a number of records, or privacy.dataset_size, found neither"):
        sampler(poisson(0.1), None, SeededStream(1))
    with pytest.raises(InputError, match=r"expected a sampling rate, or batch_size with privacy.dataset_size, found neither"):
        sampler(Poisson("poisson", batch_size=5), None, SeededStream(1), records=10)


@pytest.mark.parametrize("scheme", [poisson(0.5), FixedSize("fixed-size", rate=0.5), OncePerEpoch("shuffle", rate=0.5)])
def test_batches_of_two_private_runs_differ(scheme: Batched) -> None:
    """400 records: that two runs agree has a probability below 2^-380."""
    first, second = (next(sampler(scheme, 400, system_entropy().sampling)) for _ in range(2))
    assert first.tolist() != second.tolist()


@given(
    iterations=st.integers(1, 40),
    most=st.integers(1, 40),
    apart=st.integers(1, 40),
    records=st.integers(1, 30),
    seed=st.integers(0, 99),
)
def test_participations_are_as_few_and_as_far_apart_as_stated(
    iterations: int, most: int, apart: int, records: int, seed: int
) -> None:
    spec = TreeSpec(noise_multiplier=1.0, iterations=iterations, max_participations=most, min_separation=apart)
    batches = list(itertools.islice(correlated_sampler(spec, records, SeededStream(seed)), 2 * iterations))
    for run in (batches[:iterations], batches[iterations:]):
        for record in range(records):
            steps = [step for step, batch in enumerate(run) if record in batch]
            assert 1 <= len(steps) <= most
            assert all(later - earlier >= apart for earlier, later in itertools.pairwise(steps))


def test_groups_take_turns_and_draw_poisson_samples() -> None:
    """48 of 50 records in 5 groups of 10 places. In a turn, a record of the group is drawn with probability 5 * 0.12."""
    spec = BandedSpec(noise_multiplier=1.0, iterations=1_003, max_participations=400, min_separation=5, bands=2)
    batches = correlated_sampler(spec, 50, SeededStream(5), 48, poisson(0.12))
    drawn = np.zeros((2, 1_003, 48), np.int64)
    for run in drawn:
        for step, batch in zip(run, itertools.islice(batches, spec.iterations), strict=True):
            assert np.all(np.diff(batch) > 0), "a record twice in one batch, or out of order"
            step[batch] = 1
    groups = []
    for run in drawn:
        turns = np.stack([run[first::5].sum(axis=0) for first in range(5)])
        assert ((turns > 0).sum(axis=0) == 1).all(), "each record in one group"
        groups.append(turns.argmax(axis=0))
        assert np.bincount(groups[-1]).min() >= 8 and np.bincount(groups[-1]).max() == 10
        assert P < within(turns.max(axis=0), 200, 0.6) < 1.0
        together = [np.corrcoef(run[group::5][:, groups[-1] == group].T)[np.triu_indices(8, 1)] for group in range(5)]
        assert np.abs(together).max() < 0.4, "records of a group are drawn independently"
    assert (groups[0] != groups[1]).any(), "the next run deals the records anew"


def test_participations_use_all_records_evenly() -> None:
    spec = TreeSpec(noise_multiplier=1.0, iterations=20, max_participations=3, min_separation=4)
    batches = list(itertools.islice(correlated_sampler(spec, 70, SeededStream(1), records=68), 20))
    assert {len(batch) for batch in batches} <= {8, 9, 10}
    assert sorted(np.concatenate(batches[: ceil(20 / 3)]).tolist()) == list(range(68))
    with pytest.raises(InputError, match="with correlated noise"):
        correlated_sampler(spec, None, SeededStream(1), records=68)

"""Means and variances from noisy totals (answers/ratios.py): coverage, ends, and the best split of a budget."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from dpcli.base.errors import InputError
from dpcli.release.answers.choice_error import threshold_slack
from dpcli.release.answers.intervals import accepted_range
from dpcli.release.answers.noise_tails import sum_exceeds_probability, tail_of, tail_of_sum
from dpcli.release.answers.ratios import (
    UNKNOWN_MEAN,
    NoisyMean,
    NoisyVariance,
    expected_mean_error,
    share_of_epsilon,
    share_of_rho,
)
from dpcli.release.noise.laws import DiscreteGaussianLaw, DiscreteLaplaceLaw, NoiseLaw, half_width
from dpcli.release.noise.samplers import draws
from dpcli.release.noise.selection import SparseVectorLaws
from tests.cases import of_each
from tests.release.privacy.chances import LAWS, covered

RANGE = 100


def data(count: int, seed: int) -> np.ndarray:
    return np.clip(np.round(np.random.default_rng(seed).normal(20.0, 30.0, count)), -RANGE, RANGE).astype(np.int64)


def means(values: np.ndarray, make: Callable[[float], NoiseLaw], repetitions: int) -> list[NoisyMean]:
    total, count = make(300.0), make(5.0)
    drawn = zip(draws(repetitions, total), draws(repetitions, count), strict=True)
    return [NoisyMean(int(values.sum()) + a, len(values) + b, total, count, -RANGE, RANGE) for a, b in drawn]


@pytest.mark.needs("opendp")
@pytest.mark.parametrize("make", LAWS)
@pytest.mark.parametrize("count", [40, 5000])
@pytest.mark.parametrize("repetitions", [1000, pytest.param(10_000, marks=pytest.mark.nightly)])
def test_a_mean_is_covered_as_often_as_it_says(make: Callable[[float], NoiseLaw], count: int, repetitions: int) -> None:
    """By the test that is inverted; for some, that the interval holds the mean where it is accepted."""
    values = data(count, 1)
    truth, answers = float(values.mean()), means(values, make, repetitions)
    hits = [answer.count <= 0 or answer.p_value(truth) > 0.05 for answer in answers]
    covered(hits, 0.95)
    for answer, hit in zip(answers[::20], hits[::20], strict=True):
        each = answer.interval(0.95)
        assert each.low <= answer.estimate() <= each.high
        assert not hit or each.low <= truth <= each.high


@of_each("make", LAWS)
@of_each("total, count", [(-22, 5), (7, 2), (40, 12)])
@of_each("spreads", [(20.0, 4.0), (3.0, 1.0), (0.3, 0.3)])
def test_each_mean_that_is_accepted_is_in_the_interval(
    make: Callable[[float], NoiseLaw], total: int, count: int, spreads: tuple[float, float]
) -> None:
    """Among them those where the difference is whole: the first case has lone ones at 4.5 and 5."""
    answer = NoisyMean(total, count, make(spreads[0]), make(spreads[1]), -6.0, 6.0)
    each = answer.interval(0.9)
    assert all(each.low <= mean <= each.high for mean in np.linspace(-6.0, 6.0, 241) if answer.p_value(mean) > 0.1)


@pytest.mark.needs("opendp")
@pytest.mark.parametrize("make", LAWS)
@pytest.mark.parametrize("repetitions", [8, pytest.param(60, marks=pytest.mark.long), pytest.param(500, marks=pytest.mark.nightly)])
def test_a_variance_is_covered_at_least_as_often_as_it_says(make: Callable[[float], NoiseLaw], repetitions: int) -> None:
    values = data(5000, 3)
    truth, law = float(values.var()), make(30_000.0)
    pairs = zip(means(values, make, repetitions), draws(repetitions, law), strict=True)
    intervals = [NoisyVariance(mean, int((values**2).sum()) + noise, law).interval(0.95) for mean, noise in pairs]
    covered([each.low <= truth <= each.high for each in intervals], 0.95, wider=0.03)


def test_where_the_count_may_be_0_the_whole_range_is_the_answer() -> None:
    law, wide = DiscreteLaplaceLaw(5.0), DiscreteLaplaceLaw(300.0)
    for count in (-3, 0, 1):
        answer = NoisyMean(40, count, wide, law, -100.0, 50.0)
        assert answer.interval(0.95).low == -100.0 and answer.interval(0.95).high == 50.0
        assert NoisyVariance(answer, 1000, wide).interval(0.95).high == 75.0**2
    assert NoisyMean(40, 0, wide, law, -100.0, 50.0).estimate() == -25.0
    assert NoisyMean(10**9, 1, wide, law, -100.0, 50.0).estimate() == 50.0


def test_an_impossible_mean_says_nothing() -> None:
    """Far outside of the range, where no mean is accepted."""
    law = DiscreteLaplaceLaw(5.0)
    each = NoisyMean(10**6, 1000, law, law, -100.0, 100.0).interval(0.95)
    assert (each.low, each.high) == (-100.0, 100.0)


@of_each("make", LAWS)
@of_each("weight", [0.0, 0.37, -2.5])
def test_a_tail_is_above_the_double_sum(make: Callable[[float], NoiseLaw], weight: float) -> None:
    one, other = make(6.3), make(2.0)
    n, m = np.arange(-300.0, 301.0), np.arange(-120.0, 121.0)
    p, q = (law.at_least(at) - law.at_least(at + 1.0) for law, at in ((one, n), (other, m)))
    moved = np.abs(n[:, None] + weight * m[None, :])
    for distance in (0.0, 0.5, 7.0, 20.3):
        exact = float((p[:, None] * q[None, :])[moved >= distance - 1e-12].sum())
        assert exact - 1e-12 <= sum_exceeds_probability(tail_of(one), other, weight, distance) <= exact + 1e-9
        table = 2.0 * float(tail_of_sum(one, other, weight)(np.array([distance]))[0])
        assert table >= exact - 1e-12


def test_wide_laws_are_cut_into_blocks_from_above_and_close() -> None:
    one, other = DiscreteGaussianLaw(3e6), DiscreteGaussianLaw(40_000.0)
    deviation = math.hypot(3e6, 70.0 * 4e4)
    for factor in (1.0, 2.0, 3.0):
        exact = math.erfc(factor / math.sqrt(2.0))
        assert exact <= sum_exceeds_probability(tail_of(one), other, 70.0, factor * deviation) <= exact * 1.05


def test_the_error_before_any_data_is_that_of_the_interval() -> None:
    one, other = DiscreteGaussianLaw(300.0), DiscreteGaussianLaw(5.0)
    each = NoisyMean(20 * 5000, 5000, one, other, -100.0, 100.0).interval(0.95)
    expected = expected_mean_error(one, other, 0.95, 5000, 20.0)
    assert 0.5 * (each.high - each.low) == pytest.approx(expected, rel=1e-2)
    assert expected_mean_error(one, DiscreteGaussianLaw(1e-2), 0.95, 1) == pytest.approx(half_width(one, 0.95), abs=1.01)


def test_a_confidence_too_near_to_1_is_refused_before_any_data_and_says_nothing_after() -> None:
    law, near = DiscreteLaplaceLaw(5.0), 1.0 - 1e-13
    with pytest.raises(InputError, match="at most 1 - 1e-11"):
        expected_mean_error(law, law, near, 100)
    with pytest.raises(InputError, match="at most 1 - 1e-11"):
        threshold_slack(SparseVectorLaws(epsilon=1.0, sensitivity=1), 3, near)
    assert NoisyMean(50, 10**6, law, law, -1.0, 1.0).interval(near).high == 1.0


def test_ends_are_outside_of_what_is_accepted() -> None:
    assert accepted_range(lambda x: True, 0.0, -1.0, 2.0) == (-1.0, 2.0)
    assert accepted_range(lambda x: False, 0.0, -1.0, 2.0) == (-1.0, 2.0)
    low, high = accepted_range(lambda x: -0.5 <= x <= math.pi, 0.0, -10.0, 10.0)
    assert -0.5001 <= low < -0.5 and math.pi < high <= math.pi * 1.0002
    assert accepted_range(lambda x: abs(x) <= 1.0 or 7.0 <= x <= 8.0, 0.0, -9.0, 9.0)[1] == 9.0


@of_each("total", [0.5, 100.0, 1e7])
@of_each("count", [1.0, 3.0])
@of_each("mean", [UNKNOWN_MEAN, 1.0, 12.5])
def test_the_split_is_the_best_of_a_search(total: float, count: float, mean: float) -> None:
    shares = np.linspace(0.0, 1.0, 1_000_001)[1:-1]
    mean *= total
    best = shares[np.argmin(total**2 / shares + (mean * count) ** 2 / (1.0 - shares))]
    assert share_of_rho(total, count, mean) == pytest.approx(best, abs=3e-6)
    best = shares[np.argmin((total / shares) ** 2 + (mean * count / (1.0 - shares)) ** 2)]
    assert share_of_epsilon(total, count, mean) == pytest.approx(best, abs=3e-6)

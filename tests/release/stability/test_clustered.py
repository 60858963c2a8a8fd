"""The mean around the fullest bin: what one unit moves, by search; and the keys of a stability histogram."""

from __future__ import annotations

import itertools
import math

import pytest
from scipy import stats

from dpcli.analysis.calibrate import parameter_key
from dpcli.file.pipeline.model import Entry
from dpcli.mechanisms.choice.stability import StabilityHistogramSpec
from dpcli.mechanisms.neighbours import Adjacency, Neighbours
from dpcli.numerics.closed.discrete_tails import log_gaussian_beyond, log_laplace_beyond
from dpcli.release.stability.propose_test import StabilityTest
from dpcli.release.stability.stable_statistics import (
    Around,
    CountedNumbers,
    bins,
    farthest,
    released_mean,
    squared_sensitivity,
    sum_sensitivity,
)
from dpcli.release.vectors import least_threshold
from tests.cases import of_each

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE
WIDE = (-12, -2, 0, 1, 12)  # beyond three bins on either side, and within


@of_each("width", [1, 2, 3])
@of_each("bin", [-1, 0, 2])
@of_each(
    "adjacency, rows, always_one", [(ADD, 1, False), (ADD, 2, False), (REPLACE, 1, True), (REPLACE, 1, False), (REPLACE, 2, False)]
)
def test_one_unit_moves_sum_and_count_as_stated(width: int, bin: int, adjacency: Adjacency, rows: int, always_one: bool) -> None:
    numbers, around = CountedNumbers({}, adjacency, rows, always_one), Around(bin, width)
    versions = [unit for size in range(rows + 1) for unit in itertools.combinations_with_replacement(WIDE, size)]
    if always_one:
        versions = [(value,) for value in WIDE]
    pairs = itertools.combinations(versions, 2) if adjacency is REPLACE else (((), unit) for unit in versions)
    moved = []
    for one, other in pairs:
        sums = [sum(around.centred({value: 1}) for value in unit) for unit in (one, other)]
        moved.append((abs(sums[0] - sums[1]), abs(len(one) - len(other)) * farthest(width)))
    assert max(total for total, _ in moved) == sum_sensitivity(numbers, width)
    assert max(math.hypot(*both) for both in moved) == pytest.approx(math.sqrt(squared_sensitivity(numbers, width)), rel=1e-12)


def test_the_mean_is_that_of_the_cluster() -> None:
    counts = {1000: 40, 1001: 35, 1003: 20, 1009: 5}
    numbers, test = CountedNumbers(counts, ADD), StabilityTest(1.0, 1e-6)
    assert released_mean(numbers, 10, test, 3.0, lambda _: 0, lambda _: 0) == pytest.approx(1001.4)
    assert released_mean(numbers, 10, test, 3.0, lambda _: 0, lambda _: 0, count=100) == pytest.approx(1001.4)
    assert released_mean(numbers, 10, test, 3.0, lambda _: -99, lambda _: 0) is None
    far = CountedNumbers({**counts, 10**9: 1}, ADD)  # one outlier is clamped to the bin beside
    assert released_mean(far, 10, test, 3.0, lambda _: 0, lambda _: 0) == pytest.approx((100 * 1001.4 + 1019) / 101)
    assert bins({-1: 2, 0: 1, 9: 4, 10: 1}, 10) == {-1: 2, 0: 5, 1: 1}


@of_each("adjacency", list(Adjacency))
@of_each("noise", [{"scale": 3.0}, {"sigma": 4.0}])
def test_the_threshold_is_the_least_that_keeps_delta(adjacency: Adjacency, noise: dict[str, float]) -> None:
    for groups, rows, units in ((1, 1, 1), (40, 3, 1), (2, 1, 3), (10**6, 1, 1)):
        spec = StabilityHistogramSpec(threshold=1, max_groups=groups, max_rows=rows, **noise)
        neighbours = Neighbours(adjacency, group=units)
        least = least_threshold(spec, neighbours, 1e-5)
        found = [
            StabilityHistogramSpec(threshold=t, max_groups=groups, max_rows=rows, **noise).resolve(neighbours).delta_floor()
            for t in (least, least - 1)
        ]
        assert found[0] <= 1e-5 < found[1]


@of_each("groups", [1, 50, 10**9])
def test_what_is_shown_for_certain_costs_all_of_delta(groups: int) -> None:
    """Whoever looks for a threshold by its delta must not take one that shows everything for one that shows nothing."""
    spec = StabilityHistogramSpec(threshold=1, scale=2.0, max_groups=groups, max_rows=100)
    mechanism = spec.resolve(Neighbours(ADD))
    assert mechanism.delta_floor() >= 1.0 - 1e-9
    assert spec.delta_spent == mechanism.delta_floor()
    assert mechanism.approx_dp(1.0 - 1e-16) == math.inf


def test_no_noise_is_solved_for_where_more_of_it_costs_more() -> None:
    specs = [StabilityHistogramSpec(threshold=20, scale=scale) for scale in (2.0, 9.0)]
    assert specs[0].delta_spent < specs[1].delta_spent
    assert parameter_key(Entry(name="keys", type="stability-histogram", spec=specs[0]), "noise") is None


@of_each("least", [-40, -3, -1, 0, 1, 5, 60])
@of_each("spread", [0.3, 1.0, 7.5, 300.0])
def test_tails_are_the_sums_of_their_terms(least: int, spread: float) -> None:
    reach = int(60 * spread + 60)
    for weight, tail in (
        (lambda x: math.exp(-abs(x) / spread), log_laplace_beyond),
        (lambda x: math.exp(-0.5 * (x / spread) ** 2), log_gaussian_beyond),
    ):
        exact = math.fsum(weight(x) for x in range(least + 1, reach)) / math.fsum(weight(x) for x in range(-reach, reach + 1))
        assert exact <= math.exp(tail(spread, least)) * (1.0 + 1e-13)
        assert math.exp(tail(spread, least)) <= exact * (1.0 + 1e-11) or exact < 1e-20


@of_each("sigmas", [0.0, 1.0, 8.0, 60.0])
def test_a_broad_tail_is_the_normal_one(sigmas: float) -> None:
    sigma = 1e7
    assert log_gaussian_beyond(sigma, int(sigmas * sigma)) == pytest.approx(stats.norm.logsf(sigmas), abs=1e-3)
    assert log_gaussian_beyond(sigma, int(sigmas * sigma)) >= stats.norm.logsf(sigmas)

"""Distances to data with another answer (stability/): reference values, and a search over all data."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Iterator
from fractions import Fraction

import pytest
from scipy import stats

from dpcli.analysis.solved_keys import missing_parameter, parameter_key
from dpcli.base.errors import InternalError
from dpcli.file.pipeline.model import Entry
from dpcli.mechanisms.choice.stability import StabilityHistogramSpec
from dpcli.mechanisms.neighbours import Adjacency, Neighbours
from dpcli.numerics.closed.discrete_tails import log_gaussian_beyond, log_laplace_beyond
from dpcli.release.stability.propose_test import UNREACHABLE, StabilityTest, mode
from dpcli.release.stability.stable_statistics import (
    CountedNumbers,
    ThreeBins,
    bins,
    centred_sum,
    farthest,
    quantile,
    released_mean,
    squared_sensitivity,
    stable_quantile,
    stable_range,
)
from dpcli.release.vectors import least_threshold, sensitivity
from tests.cases import of_each
from tests.command import ROOT
from tests.release.stability.enumeration import Vector, add, noise, vectors

VECTORS = json.loads((ROOT / "tests" / "vectors" / "release_ptr.json").read_text())
ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE
PLACES = (0, 1, 3, 7)
MEDIAN = Fraction(1, 2)


@of_each("case", VECTORS["cases"], told=lambda case: case["id"])
def test_the_mode_of_the_reference_values(case: dict[str, object]) -> None:
    counts: list[int] = case["counts"]  # type: ignore[assignment]
    test = StabilityTest(case["epsilon"], case["delta"])  # type: ignore[arg-type]
    found = mode(dict(enumerate(counts)), Adjacency(case["adjacency"]))
    assert (found.answer, found.distance, test.threshold) == (case["mode_index"], case["distance"], case["threshold"])
    for distance, exact in ((0, case["delta_spent"]), (found.distance, case["release_probability"])):
        assert math.isclose(test.release_probability(distance), exact, rel_tol=1e-11)  # type: ignore[arg-type]


def searched(start: Vector, around: Callable[[Vector], Iterator[Vector]], differs: Callable[[Vector, Vector], bool]) -> int | None:
    """How many changes away there is a neighbour from which the answer differs."""
    seen, edge = {start}, {start}
    for distance in itertools.count():
        if any(differs(one, other) for one in edge for other in around(one)):
            return distance
        edge = {other for one in edge for other in around(one)} - seen
        if not edge or distance > 8:
            return None
        seen |= edge
    raise AssertionError


def around(one: Vector, swaps: bool) -> Iterator[Vector]:
    places = range(len(one))
    steps = [(i, j) for i in places for j in places if i != j] if swaps else [(i, None) for i in places]
    for i, j in steps:
        unit = tuple(int(k == i) for k in places)
        if j is None:
            yield add(one, unit)
        less = tuple(int(k == i) if j is None else int(k == i) - int(k == j) for k in places)
        taken = tuple(a - b for a, b in zip(one, less, strict=True))
        if min(taken) >= 0:
            yield taken


@pytest.mark.parametrize("adjacency", [ADD, REPLACE])
def test_the_distance_of_the_mode_is_what_a_search_finds(adjacency: Adjacency) -> None:
    domain = "abc"

    def first(counts: Vector) -> int:
        return counts.index(max(counts))

    for counts in vectors(3, 7, 8):
        if sum(count > 0 for count in counts) < 2:  # a value beyond the three could be nearer
            continue
        found = mode(dict(zip(domain, counts, strict=True)), adjacency)
        search = searched(counts, lambda one: around(one, adjacency is REPLACE), lambda a, b: first(a) != first(b))
        assert found.answer == domain[first(counts)] and found.distance == search, counts


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("adjacency", "always_one"), [(ADD, False), (REPLACE, True)])
@pytest.mark.parametrize("most", [1, 3])
def test_the_distance_of_the_median_is_what_a_search_finds(adjacency: Adjacency, always_one: bool, most: int) -> None:
    def numbers(data: Vector) -> CountedNumbers:
        counts = {place: count for place, count in zip(PLACES, data, strict=True) if count}
        return CountedNumbers(counts, adjacency, 1, always_one, low=0.0, high=7.0)

    def differs(one: Vector, other: Vector) -> bool:
        return abs(quantile(numbers(one), MEDIAN) - quantile(numbers(other), MEDIAN)) > most

    for data in vectors(len(PLACES), 5, 5):
        if sum(data) == 0:
            continue
        search = searched(data, lambda one: around(one, always_one), differs)
        assert stable_quantile(numbers(data), MEDIAN, most).distance == search, data


@pytest.mark.parametrize("low", [-math.inf, 0.0])
def test_the_median_of_swapped_rows_is_that_of_dwork_and_lei(low: float) -> None:
    """The smallest k with max over j of x[m+j] - x[m+j-k-1] > most."""
    for data in vectors(len(PLACES), 6, 6):
        rows = [place for place, count in zip(PLACES, data, strict=True) for _ in range(count)]
        if not rows:
            continue
        high, middle = 7.0 if low == 0.0 else math.inf, math.ceil(len(rows) / 2)

        def at(place: int) -> float:
            return low if place < 1 else high if place > len(rows) else rows[place - 1]  # noqa: B023

        def moves(k: int) -> float:
            return max(at(middle + j) - at(middle + j - k - 1) for j in range(k + 2))  # noqa: B023

        first = next(k for k in itertools.count() if moves(k) > 2)
        counts = {place: count for place, count in zip(PLACES, data, strict=True) if count}
        assert stable_quantile(CountedNumbers(counts, REPLACE, 1, True, low, high), MEDIAN, 2).distance == first, data


def test_a_domain_of_one_value_has_no_other_answer() -> None:
    assert stable_quantile(CountedNumbers({3: 4}, ADD, low=0.0, high=5.0), MEDIAN, 5).distance == UNREACHABLE
    assert mode({}, ADD).answer is None
    assert stable_quantile(CountedNumbers({}, ADD), MEDIAN, 1).answer is None


def test_ties_of_an_unknown_domain_go_by_value_and_not_by_the_order_of_rows() -> None:
    keys = [("b", 1), ("a", 2), ("a", 1)]
    assert {mode(dict.fromkeys(order, 4), ADD).answer for order in itertools.permutations(keys)} == {("a", 1)}
    assert mode({2: 5, "1": 5, 1: 5}, ADD) == mode({"1": 5, 1: 5, 2: 5}, ADD)


def test_the_range_and_its_quartiles() -> None:
    numbers = CountedNumbers({0: 10, 5: 11, 9: 20}, ADD)
    assert stable_range(numbers, 4).answer == 9 - 5
    assert quantile(numbers, Fraction(1, 4)) == 5 and quantile(numbers, Fraction(1)) == 9


@of_each("distance", [0, 3, 30])
def test_the_noise_of_a_test_decides(distance: int) -> None:
    test = StabilityTest(0.5, 1e-3)
    passed = math.fsum(p for x, p in noise(test.scale, 90).items() if test.passes(distance, lambda _: x))  # noqa: B023
    assert math.isclose(passed, test.release_probability(distance), rel_tol=1e-9)
    assert test.release_probability(0) <= test.delta < test.release_probability(1)
    assert 1.0 / test.scale <= test.epsilon


def test_a_number_beyond_its_bounds_is_not_quoted() -> None:
    with pytest.raises(InternalError) as caught:
        CountedNumbers({77: 1}, ADD, low=0.0, high=5.0)
    assert "77" not in str(caught.value)


WIDE = (-12, -2, 0, 1, 12)  # beyond three bins on either side, and within


@of_each("width", [1, 2, 3])
@of_each("bin", [-1, 0, 2])
@of_each(
    "adjacency, rows, always_one", [(ADD, 1, False), (ADD, 2, False), (REPLACE, 1, True), (REPLACE, 1, False), (REPLACE, 2, False)]
)
def test_one_unit_moves_sum_and_count_as_stated(width: int, bin: int, adjacency: Adjacency, rows: int, always_one: bool) -> None:
    around = ThreeBins(bin, width)
    versions = [unit for size in range(rows + 1) for unit in itertools.combinations_with_replacement(WIDE, size)]
    if always_one:
        versions = [(value,) for value in WIDE]
    pairs = itertools.combinations(versions, 2) if adjacency is REPLACE else (((), unit) for unit in versions)
    moved = []
    for one, other in pairs:
        sums = [sum(around.centred({value: 1}) for value in unit) for unit in (one, other)]
        moved.append((abs(sums[0] - sums[1]), abs(len(one) - len(other)) * farthest(width)))
    assert max(total for total, _ in moved) == sensitivity(adjacency, centred_sum(rows, width)).l1
    assert max(math.hypot(*both) for both in moved) == pytest.approx(
        math.sqrt(squared_sensitivity(adjacency, rows, width)), rel=1e-12
    )


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
    keys = Entry(name="keys", type="stability-histogram", spec=specs[0])
    assert parameter_key(keys, "noise") is None
    refusal = "more noise may cost more in keys, since more values may cross its threshold; use --solve steps"
    assert missing_parameter((keys,), "noise") == missing_parameter((keys,), "scale", "keys") == refusal
    assert missing_parameter((keys,), "rate") == "no mechanism has a rate; use --solve steps"


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

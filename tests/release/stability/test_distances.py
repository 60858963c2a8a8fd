"""Distances to data of another answer: reference values, and a search over all data."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Iterator
from fractions import Fraction

import pytest

from dpcli.base.errors import InputError, InternalError
from dpcli.mechanisms.neighbours import Adjacency
from dpcli.release.stability.propose_test import UNREACHABLE, StabilityTest, mode, released_mode
from dpcli.release.stability.stable_statistics import MEDIAN, CountedNumbers, noise_scale, quantile, stable_quantile, stable_range
from tests.cases import of_each
from tests.command import ROOT
from tests.release.stability.enumeration import Vector, add, noise, vectors

VECTORS = json.loads((ROOT / "tests" / "vectors" / "release_ptr.json").read_text())
ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE
PLACES = (0, 1, 3, 7)


@of_each("case", VECTORS["cases"], told=lambda case: case["id"])
def test_the_mode_of_the_reference_values(case: dict[str, object]) -> None:
    counts: list[int] = case["counts"]  # type: ignore[assignment]
    test = StabilityTest(case["epsilon"], case["delta"])  # type: ignore[arg-type]
    found = mode(dict(enumerate(counts)), Adjacency(case["adjacency"]), domain=range(len(counts)))
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
        if sum(counts) < 2:  # one record alone never loses its place to another by swaps of others
            continue
        found = mode(dict(zip(domain, counts, strict=True)), adjacency, domain=domain)
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
    assert mode({"a": 3}, ADD, domain=["a"]).distance == UNREACHABLE
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


@of_each("counts", [{"secret": 1}, {"a": 2, "secret": 0}])
def test_a_value_beyond_its_domain_is_not_quoted(counts: dict[str, int]) -> None:
    with pytest.raises(InternalError) as caught:
        released_mode(counts, StabilityTest(1.0, 0.1), lambda _: 0, ADD, domain=["a", "b"])
    assert "secret" not in str(caught.value)
    with pytest.raises(InternalError) as caught:
        CountedNumbers({77: 1}, ADD, low=0.0, high=5.0)
    assert "77" not in str(caught.value)


@of_each("epsilon", [5e-324, 1e-3, 0.3, 1e4, 1e300])
def test_the_noise_of_any_proposal_is_enough_or_refused(epsilon: float) -> None:
    for most in (1, 3, 2**53 + 1, 10**306, 10**309, 10**320):
        try:
            scale = noise_scale(most, epsilon)
        except InputError:
            assert Fraction(most) / Fraction(epsilon) > 2**1000
        else:
            assert Fraction(scale) * Fraction(epsilon) >= most and scale <= most / Fraction(epsilon) * (1 + Fraction(1, 2**50))

"""Propose-test-release by enumeration: on all small neighbours it is within the epsilon and delta that are claimed."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest

from dpcli.mechanisms.choice.stability import ProposeTestReleaseSpec
from dpcli.mechanisms.neighbours import Adjacency, Neighbours
from dpcli.release.noise.laws import scale_of
from dpcli.release.stability import stable_statistics as quantiles
from dpcli.release.stability.propose_test import Draw, StabilityTest, released_mode
from dpcli.release.stability.stable_statistics import CountedNumbers, released_number
from tests.release.stability.enumeration import Law, Vector, law_after_test, noised, pairs, vectors, worst

TEST = StabilityTest(1.0, 0.05)
NUMBERS = 0.7  # epsilon of the noise on a number
ADJACENCIES = (Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE)
ROUNDING = 1e-9  # of sums; and of the tails that are put at the end of a number's noise

PLACES = (0, 1, 3, 60)

Worst = Callable[[], float]


def of_mode(adjacency: Adjacency, rows: int, values: int = 3, total: int = 4) -> float:
    """The worst divergence of the most common value. A unit may add to every value."""
    units = [unit for unit in vectors(values, rows, values * rows) if any(unit)] if rows > 1 else _ones(values)

    def released(data: Vector, draw: Draw) -> Any:
        counts = {name: count for name, count in zip("abc", data, strict=False) if count}
        return released_mode(counts, TEST, draw, adjacency, rows)

    return worst(pairs(adjacency, values, total, units), lambda data: law_after_test(released, TEST.scale, data), TEST.epsilon)


def _ones(values: int) -> list[Vector]:
    return [tuple(int(i == k) for i in range(values)) for k in range(values)]


def of_number(
    adjacency: Adjacency, rows: int, always_one: bool, bounded: bool, most: int, released: Callable[..., int | None]
) -> float:
    """The worst divergence of a number that is released with noise. Values are unevenly far from each other."""
    units = [unit for unit in vectors(len(PLACES), rows, rows) if any(unit)]
    low, high = (0.0, 60.0) if bounded else (-math.inf, math.inf)

    def numbers(data: Vector) -> CountedNumbers:
        return CountedNumbers(_held(PLACES, data), adjacency, rows, always_one, low, high)

    return _worst_number(numbers, pairs(adjacency, len(PLACES), 5, units, always_one), most, NUMBERS, released)


def of_quartiles() -> float:
    """Two rows between the quartiles move the lower one from 0 to 20, and the upper one from 41 to 21."""

    def numbers(data: Vector) -> CountedNumbers:
        return CountedNumbers(_held((0, 20, 21, 41), data), Adjacency.ADD_REMOVE, rows=2, low=0.0, high=41.0)

    return _worst_number(numbers, {((5, 5, 4, 5), (5, 6, 5, 5))}, 20, 3.0, the_range)


def _worst_number(
    numbers: Callable[[Vector], CountedNumbers],
    neighbours: set[tuple[Vector, Vector]],
    most: int,
    epsilon: float,
    released: Callable[..., int | None],
) -> float:
    def answer(data: Vector, draw: Draw) -> Any:
        return released(numbers(data), most, draw, epsilon)

    def law(data: Vector) -> Law:
        return noised(law_after_test(answer, TEST.scale, data), scale_of(most, epsilon))

    return worst(neighbours, law, TEST.epsilon + epsilon)


def _held(places: Vector, data: Vector) -> dict[int, int]:
    return {place: count for place, count in zip(places, data, strict=True) if count}


def at_share(share: Fraction) -> Callable[..., int | None]:
    def released(numbers: CountedNumbers, most: int, draw: Draw, epsilon: float) -> int | None:
        return released_number(quantiles.stable_quantile(numbers, share, most), most, TEST, epsilon, draw)

    return released


def the_range(numbers: CountedNumbers, most: int, draw: Draw, epsilon: float) -> int | None:
    return released_number(quantiles.stable_range(numbers, most), most, TEST, epsilon, draw)


HALF, QUARTER, MOST_OF_ALL = Fraction(1, 2), Fraction(1, 4), Fraction(4, 5)
ONE, TWO = ADJACENCIES
WORST: dict[str, Worst] = {
    **{
        f"mode, {adjacency.value}, {rows} rows": lambda a=adjacency, r=rows: of_mode(a, r, 3 if r == 1 else 2, 6)  # type: ignore[misc]
        for adjacency in ADJACENCIES
        for rows in (1, 2)
    },
    **{
        f"{name}, {adjacency.value}, {rows} rows, {'one always' if always else 'or none'}, {'bounded' if bounded else 'unbounded'}, "
        f"moves by {most}": (
            lambda a=adjacency, r=rows, o=always, b=bounded, m=most, f=released: of_number(a, r, o, b, m, f)  # type: ignore[misc]
        )
        for name, released in (("median", at_share(HALF)), ("lowest quarter", at_share(QUARTER)), ("range", the_range))
        for adjacency, rows, always, bounded, most in (
            (ONE, 1, False, False, 1),
            (ONE, 1, False, True, 2),
            (ONE, 2, False, True, 1),
            (TWO, 1, True, True, 1),
            (TWO, 1, True, False, 2),
            (TWO, 1, False, True, 2),
        )
    },
    "range, quartiles towards each other": of_quartiles,
    "four fifths, two rows": lambda: of_number(ONE, 2, False, False, 1, at_share(MOST_OF_ALL)),
}


@pytest.mark.long
@pytest.mark.sampled(0, 8)
@pytest.mark.parametrize("name", WORST)
def test_every_release_is_within_what_is_claimed(name: str) -> None:
    assert WORST[name]() <= TEST.delta * (1.0 + ROUNDING)


def test_the_worst_neighbours_spend_what_the_threshold_lets_through() -> None:
    for adjacency in ADJACENCIES:
        assert math.isclose(of_mode(adjacency, 1), TEST.release_probability(0), rel_tol=1e-6)


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_two_units_at_once_are_within_what_is_claimed_of_a_group(adjacency: Adjacency) -> None:
    near = pairs(adjacency, 2, 9, _ones(2), always_one=adjacency is Adjacency.REPLACE_ONE)
    both = near | {(other, one) for one, other in near}
    after: dict[Vector, list[Vector]] = {}
    for one, other in both:
        after.setdefault(one, []).append(other)
    two_apart = {(one, third) for one, other in both for third in after[other] if one < third}

    def released(data: Vector, draw: Draw) -> Any:
        return released_mode(dict(zip("ab", data, strict=True)), TEST, draw, adjacency)

    found = worst(two_apart, lambda data: law_after_test(released, TEST.scale, data), 2.0 * TEST.epsilon)
    spec = ProposeTestReleaseSpec(epsilon=TEST.epsilon, delta=TEST.release_probability(0))
    claimed = spec.resolve(Neighbours(adjacency, group=2)).delta_floor()
    assert claimed * 0.999 <= found <= claimed * (1.0 + ROUNDING)

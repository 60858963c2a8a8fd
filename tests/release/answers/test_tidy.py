"""What is done to answers afterwards: that intervals hold the truth as often, and that parts add up."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dpcli.release.answers.intervals import ConfidenceInterval
from dpcli.release.answers.tidy import Adjusted, NoisyTotal, consistent, non_negative, rounded
from tests.cases import of_each

REALS = st.floats(-1e6, 1e6)


@given(REALS, REALS, REALS, st.floats(0.0, 1e6))
def test_cutting_at_0_loses_no_truth(answer: float, one: float, other: float, truth: float) -> None:
    before = ConfidenceInterval(min(one, other), max(one, other), 0.95)
    shown, after = non_negative(answer, before)
    assert shown >= 0.0 and 0.0 <= after.low <= after.high
    assert not before.low <= truth <= before.high or after.low <= truth <= after.high


@given(REALS, REALS, REALS, st.integers(-(10**6), 10**6))
def test_rounding_loses_no_whole_truth(answer: float, one: float, other: float, truth: int) -> None:
    before = ConfidenceInterval(min(one, other), max(one, other), 0.95)
    shown, after = rounded(answer, before)
    assert shown == math.floor(shown) and abs(shown - answer) <= 0.5 and after.low <= after.high
    assert not before.low <= truth <= before.high or after.low <= truth <= after.high


def test_a_half_goes_up() -> None:
    assert rounded(2.5, ConfidenceInterval(1.5, 3.5, 0.9)) == (3.0, ConfidenceInterval(2.0, 3.0, 0.9))
    assert rounded(2.4, ConfidenceInterval(2.3, 2.5, 0.9)) == (2.0, ConfidenceInterval(2.0, 2.0, 0.9))


VARIANCES = st.integers(1, 50).map(Fraction)
LEAVES = st.builds(NoisyTotal, st.integers(-100, 10_000), VARIANCES)


def above(parts: st.SearchStrategy[NoisyTotal]) -> st.SearchStrategy[NoisyTotal]:
    return st.builds(NoisyTotal, st.integers(-100, 10_000), VARIANCES, st.lists(parts, min_size=1, max_size=4).map(tuple))


TREES = st.recursive(LEAVES, above, max_leaves=12)


def adds_up(adjusted: Adjusted) -> bool:
    return not adjusted.parts or (
        adjusted.value == sum(part.value for part in adjusted.parts) and all(map(adds_up, adjusted.parts))
    )


def flat(total: NoisyTotal) -> list[NoisyTotal]:
    return [total, *(each for part in total.parts for each in flat(part))]


def values(adjusted: Adjusted) -> list[int]:
    return [adjusted.value, *(each for part in adjusted.parts for each in values(part))]


def least_squares(total: NoisyTotal) -> np.ndarray:
    """By the normal equations over the leaves: every node is a sum of leaves."""
    nodes = flat(total)
    leaves = [node for node in nodes if not node.parts]
    below = np.array([[any(leaf is each for each in flat(node)) for leaf in leaves] for node in nodes], dtype=float)
    weight = np.array([1.0 / float(node.variance) for node in nodes])
    noisy = np.array([float(node.noisy) for node in nodes])
    found = np.linalg.solve(below.T @ (weight[:, None] * below), below.T @ (weight * noisy))
    return np.asarray(below @ found)


def depth(total: NoisyTotal) -> int:
    return 1 + max(map(depth, total.parts), default=0)


@given(TREES)
def test_parts_add_up_and_are_the_nearest(total: NoisyTotal) -> None:
    """To the least squares of all nodes: one rounding for each level above."""
    adjusted = consistent(total)
    assert adds_up(adjusted)
    exact = least_squares(total)
    assert np.abs(np.array(values(adjusted)) - exact).max() <= depth(total) + 1e-5


def test_one_total_of_two() -> None:
    """100 against 40 + 51: the 9 that are missing go by variances 1 : 1 : 1, three to each."""
    parts = (NoisyTotal(40, Fraction(1)), NoisyTotal(51, Fraction(1)))
    assert consistent(NoisyTotal(100, Fraction(1), parts)) == Adjusted(97, (Adjusted(43), Adjusted(54)))
    assert consistent(NoisyTotal(5, Fraction(3))) == Adjusted(5)


def test_what_adds_up_is_left_as_it_is() -> None:
    parts = (NoisyTotal(40, Fraction(2)), NoisyTotal(60, Fraction(1), (NoisyTotal(25, Fraction(7)), NoisyTotal(35, Fraction(1)))))
    assert values(consistent(NoisyTotal(100, Fraction(5), parts))) == [100, 40, 60, 25, 35]


@of_each("count", [2, 3, 7])
def test_rounding_moves_no_part_by_1(count: int) -> None:
    parts = tuple(NoisyTotal(10, Fraction(1)) for _ in range(count))
    adjusted = consistent(NoisyTotal(10 * count + 1, Fraction(1), parts))
    assert {each.value for each in adjusted.parts} <= {10, 11}

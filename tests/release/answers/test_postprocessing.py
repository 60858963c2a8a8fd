"""Postprocessing (answers/postprocessing.py): intervals hold the truth as often as before, and parts add up."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dpcli.release.answers.intervals import ConfidenceInterval
from dpcli.release.answers.postprocessing import cut_at_zero, make_consistent, round_to_whole
from tests.cases import of_each

REALS = st.floats(-1e6, 1e6)


@given(REALS, REALS, REALS, st.floats(0.0, 1e6))
def test_cutting_at_0_loses_no_truth(answer: float, one: float, other: float, truth: float) -> None:
    before = ConfidenceInterval(min(one, other), max(one, other), 0.95)
    shown, after = cut_at_zero(answer, before)
    assert shown >= 0.0 and 0.0 <= after.low <= after.high
    assert not before.low <= truth <= before.high or after.low <= truth <= after.high


@given(REALS, REALS, REALS, st.integers(-(10**6), 10**6))
def test_rounding_loses_no_whole_truth(answer: float, one: float, other: float, truth: int) -> None:
    before = ConfidenceInterval(min(one, other), max(one, other), 0.95)
    shown, after = round_to_whole(answer, before)
    assert shown == math.floor(shown) and abs(shown - answer) <= 0.5 and after.low <= after.high
    assert not before.low <= truth <= before.high or after.low <= truth <= after.high


def test_a_half_goes_up() -> None:
    assert round_to_whole(2.5, ConfidenceInterval(1.5, 3.5, 0.9)) == (3.0, ConfidenceInterval(2.0, 3.0, 0.9))
    assert round_to_whole(2.4, ConfidenceInterval(2.3, 2.5, 0.9)) == (2.0, ConfidenceInterval(2.0, 2.0, 0.9))


VARIANCES = st.integers(1, 50).map(Fraction)
NOISY = st.integers(-100, 10_000)


def least_squares(total: int, parts: list[int], total_variance: Fraction, part_variance: Fraction) -> np.ndarray:
    """By the normal equations over the parts, whose sum is the total."""
    below = np.vstack([np.ones(len(parts)), np.eye(len(parts))])
    weight = np.array([1.0 / float(total_variance), *[1.0 / float(part_variance)] * len(parts)])
    return np.linalg.solve(below.T @ (weight[:, None] * below), below.T @ (weight * np.array([total, *parts], dtype=float)))


@given(NOISY, st.lists(NOISY, min_size=1, max_size=12), VARIANCES, VARIANCES)
def test_parts_are_the_nearest_and_so_is_their_sum(total: int, parts: list[int], one: Fraction, other: Fraction) -> None:
    """To the least squares, each within 1 and their sum within a half."""
    exact = least_squares(total, parts, one, other)
    moved = make_consistent(total, parts, one, other)
    assert np.abs(np.array(moved) - exact).max() <= 1 + 1e-5
    assert abs(sum(moved) - exact.sum()) <= 0.5 + 1e-5


@of_each(
    "total, parts, variances, moved",
    [
        (100, [40, 51], (1, 1), [43, 54]),  # the 9 that are missing go by variances 1 : 1 : 1, three to each
        (100, [40, 60], (5, 2), [40, 60]),
        (5, [], (3, 1), []),
    ],
)
def test_small_totals(total: int, parts: list[int], variances: tuple[int, int], moved: list[int]) -> None:
    assert make_consistent(total, parts, *map(Fraction, variances)) == moved


@of_each("count", [2, 3, 7])
def test_rounding_moves_no_part_by_1(count: int) -> None:
    assert set(make_consistent(10 * count + 1, [10] * count, Fraction(1), Fraction(1))) <= {10, 11}

"""Random integers, subsets and orders (dpcli/random/subsets.py) are uniform, also where a random word is at the edge of a range."""

from __future__ import annotations

import itertools
from collections import Counter
from itertools import combinations, permutations
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from dpcli.random import subsets as sampling_draws
from dpcli.random.streams import SeededStream
from dpcli.random.subsets import distinct_subsets, permutation, uniform_integers, uniform_subset
from tests.cases import require_each
from tests.train.sampling.draws import Scripted

P = 1e-6  # the streams are seeded, so a test either always passes or never


def even(counts: Counter[tuple[int, ...]], outcomes: list[tuple[int, ...]]) -> float:
    """p-value of the hypothesis that all outcomes are equally likely; 0 where something else was seen."""
    return float(chisquare([counts[outcome] for outcome in outcomes]).pvalue) if set(counts) <= set(outcomes) else 0.0


def test_a_word_beyond_the_last_multiple_is_drawn_again() -> None:
    last = 2**64 - 2**64 % 10
    assert uniform_integers(Scripted(last - 1, last, 2**64 - 1, 7, 13), 10, 3).tolist() == [9, 7, 3]


def test_no_word_is_wasted_on_a_power_of_two() -> None:
    def check(limit: int) -> None:
        assert uniform_integers(Scripted(2**64 - 1, 5), limit, 2).tolist() == [limit - 1, 5 % limit]

    require_each([1, 2, 2**32, 2**63], check)


def test_a_limit_just_above_half_the_words_is_not_skewed() -> None:
    """Here a modulo without rejection would give the lower numbers twice as often."""
    drawn = uniform_integers(SeededStream(1), 2**62 + 2**61, 20_000)
    assert chisquare(np.bincount(drawn >> 59, minlength=12)).pvalue > P


@given(st.integers(0, 400), st.data())
def test_subsets_are_increasing_and_of_the_size_asked_for(size: int, data: st.DataObject) -> None:
    count = data.draw(st.integers(0, size) | st.integers(0, min(size, 1)))
    chosen = uniform_subset(SeededStream(data.draw(st.integers(0, 99))), size, count)
    assert len(chosen) == count and chosen.dtype == np.int64
    assert np.all(np.diff(chosen) > 0) and np.all((chosen >= 0) & (chosen < size))


@pytest.mark.long
def test_all_subsets_are_equally_likely() -> None:
    def check(case: tuple[int, int]) -> None:
        count, sparse = case
        with pytest.MonkeyPatch.context() as monkeypatch:
            monkeypatch.setattr(sampling_draws, "SPARSE", sparse)
            stream = SeededStream(2)
            counts = Counter(tuple(uniform_subset(stream, 6, count).tolist()) for _ in range(200 * comb(6, count)))
            assert even(counts, list(combinations(range(6), count))) > P

    require_each(itertools.product([1, 2, 3, 4, 5], [256, 0]), check)


@pytest.mark.parametrize("sparse", [256, 0])
def test_what_was_drawn_before_a_repetition_stays(sparse: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """5, 5, 9 of ten: the first two different values, from three words."""
    monkeypatch.setattr(sampling_draws, "SPARSE", sparse)
    assert uniform_subset(Scripted(5, 5, 9), 10, 2).tolist() == [5, 9]


def test_all_orders_are_equally_likely() -> None:
    stream = SeededStream(3)
    counts = Counter(tuple(permutation(stream, 4).tolist()) for _ in range(6_000))
    assert even(counts, list(permutations(range(4)))) > P


def test_an_order_with_a_tie_is_drawn_again() -> None:
    assert permutation(Scripted(4, 4, 1, 9, 3, 6), 3).tolist() == [1, 2, 0]


def test_rows_are_uniform_subsets() -> None:
    def check(case: tuple[int, int]) -> None:
        limit, count = case
        rows = np.sort(distinct_subsets(SeededStream(4), limit, count, 6_000), axis=1)
        counts = Counter(tuple(row) for row in rows.tolist())
        assert even(counts, list(combinations(range(limit), count))) > P or comb(limit, count) == 1 == len(counts)

    require_each([(5, 2), (5, 4), (4, 4), (6, 1)], check)

"""Random integers, subsets, orders and binomial sizes (dpcli/random/subsets.py) are exact, also for random words at the edge of a range."""

from __future__ import annotations

import itertools
from collections import Counter
from fractions import Fraction
from itertools import combinations, permutations
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from dpcli.random import subsets as sampling_draws
from dpcli.random.streams import SeededStream
from dpcli.random.subsets import (
    PRECISION,
    Binomial,
    binomial_table,
    distinct_subsets,
    permutation,
    uniform_integers,
    uniform_subset,
)
from tests.cases import require_each
from tests.train.sampling.draws import Scripted, binomial_fit

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


CASES = [(1, Fraction(1, 2)), (7, Fraction(1, 3)), (50, Fraction(3, 7)), (200, Fraction("0.01")), (60, Fraction("0.97"))]


def distribution(trials: int, rate: Fraction) -> list[Fraction]:
    """F(0), F(1), ... without rounding, by the definition."""
    total, found = Fraction(0), []
    for k in range(trials + 1):
        total += comb(trials, k) * rate**k * (1 - rate) ** (trials - k)
        found.append(total)
    return found


def test_the_table_holds_the_exact_distribution() -> None:
    def check(case: tuple[tuple[int, Fraction], int]) -> None:
        (trials, rate), bits = case
        exact, found = distribution(trials, rate), binomial_table(trials, rate, bits)
        before = exact[found.first - 1] if found.first else Fraction(0)
        assert before * 2**bits <= found.before <= 2 ** (bits // 2)
        for low, high, value in zip(found.lower, found.upper, exact[found.first :], strict=False):
            assert low <= value * 2**bits <= high
            assert high - low <= 2**40, "so loose that draws would often need more bits"

    require_each(itertools.product(CASES, [64, 128, 512]), check)


def test_numbers_on_either_side_of_a_step_are_told_apart() -> None:
    """The first 128 bits of U are those of F(k), so only more of them can decide; 2^-250 away from F(k) they do."""

    def check(case: tuple[int, Fraction]) -> None:
        trials, rate = case
        exact = distribution(trials, rate)
        size = Binomial(trials, rate)
        for k in range(trials):
            if exact[k] - (exact[k - 1] if k else 0) > Fraction(1, 2**200) and exact[k + 1] - exact[k] > Fraction(1, 2**200):
                edge = int(exact[k] * 2**256)
                assert size.draw(Scripted(*words(edge - 32, 256))) == k
                assert size.draw(Scripted(*words(edge + 32, 256))) == k + 1

    require_each(CASES, check)


def words(u: int, bits: int) -> list[int]:
    """Words that a draw reads as the first bits of u / 2^bits: 128 of them, then 128, then 256, each block with its last word first."""
    found, read = [], 0
    for block in (PRECISION, PRECISION, 2 * PRECISION):
        part = u >> (bits - read - block) & (1 << block) - 1 if read + block <= bits else 0
        found += [part >> 64 * i & 2**64 - 1 for i in range(block // 64)]
        read += block
    return found


def test_draws_are_binomial() -> None:
    def check(case: tuple[int, str]) -> None:
        trials, rate = case
        size, stream = Binomial(trials, Fraction(rate)), SeededStream(5)
        draws = np.array([size.draw(stream) for _ in range(10_000)])
        assert binomial_fit(draws, trials, float(rate)) > 1e-6

    require_each([(100, "0.05"), (10**6, "0.001"), (10**9, "1e-9"), (10**5, "0.7"), (3, "0.5")], check)


def test_certain_sizes_take_no_randomness() -> None:
    def check(case: tuple[int, Fraction, int]) -> None:
        trials, rate, expected = case
        assert Binomial(trials, Fraction(rate)).draw(Scripted()) == expected

    require_each([(9, 0, 0), (9, 1, 9), (0, Fraction(1, 2), 0)], check)


def test_a_rate_of_a_millionth_of_a_millionth_is_not_zero() -> None:
    """F(0) is about 1 - 10^-9, and F(1) closer to 1 than 10^-18."""
    size = Binomial(1000, Fraction(1, 10**12))
    for u, expected in ((1 - Fraction(11, 10**10), 0), (1 - Fraction(9, 10**10), 1), (1 - Fraction(1, 10**19), 2)):
        assert size.draw(Scripted(*words(int(u * 2**256), 256))) == expected

"""The sizes of Poisson samples are binomial, exactly."""

from __future__ import annotations

import itertools
from fractions import Fraction
from math import comb

import numpy as np

from dpcli.random.streams import SeededStream
from dpcli.random.subsets import PRECISION, Binomial, binomial_table
from tests.cases import require_each
from tests.train.sampling.draws import Scripted, binomial_fit

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

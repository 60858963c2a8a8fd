"""Exact draws from a stream of random words: binomial sizes of Poisson samples, uniform integers, subsets and orders.

Training, federated rounds and PMixED draw their samples here. The draws are exact, because privacy amplification is proved for the stated
sampling distribution. No constant below affects the distribution of a draw, but only its time.

A Poisson sample takes each of n records with probability q. Its size has the distribution Binomial(n, q), and given its size, it is a
uniform subset. To draw the size and then the subset is therefore equivalent to n coin tosses, but costs time in proportion to the sample.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from typing import TYPE_CHECKING

from dpcli.numerics.arrays import np
from dpcli.random.streams import Stream

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Indices = NDArray[np.int64]

SPARSE = 256  # a subset of less than one in 256 integers is drawn and sorted; a larger one is marked in an array of all integers
PRECISION = 128  # number of bits of the first table of a binomial distribution; about one draw in 2^80 needs more
GUARD = 16  # a table ends at weights below 2^GUARD units, where that of the mode is 2^bits; the bound on the tail covers the rest


def uniform_integers(stream: Stream, limit: int, count: int) -> Indices:
    """Return `count` independent integers, each uniform on 0 .. limit - 1, for limit in [1, 2^63].

    A word below the largest multiple of `limit` up to 2^64 is taken modulo `limit`. Any other word is drawn again, because with it some
    integers would be more likely than others.
    """
    largest_word = np.uint64(2**64 - 2**64 % limit - 1)
    drawn = np.empty(0, np.uint64)
    while len(drawn) < count:
        words = stream.words(count - len(drawn))
        drawn = np.concatenate((drawn, words[words <= largest_word]))
    return (drawn % np.uint64(limit)).astype(np.int64)


def uniform_subset(stream: Stream, size: int, count: int) -> Indices:
    """Return a uniform subset of `count` of the integers 0 .. size - 1, in increasing order.

    By symmetry, the first `count` different values of a sequence of independent uniform values are such a subset. Each round draws as many
    values as are missing, so the sequence ends with the value that completes the subset.
    """
    is_sparse = count * SPARSE < size
    return _sorted_subset(stream, size, count) if is_sparse else _marked_subset(stream, size, count)


def _sorted_subset(stream: Stream, size: int, count: int) -> Indices:
    """Return the subset in time that grows with `count` only."""
    chosen = np.empty(0, np.int64)
    while len(chosen) < count:
        chosen = np.sort(np.concatenate((chosen, uniform_integers(stream, size, count - len(chosen)))))
        chosen = chosen[np.concatenate(([True], chosen[1:] != chosen[:-1]))]  # each value once
    return chosen


def _marked_subset(stream: Stream, size: int, count: int) -> Indices:
    """Return the subset in time that grows with `size`. If it has more than half of the integers, draw its complement."""
    marked_count = min(count, size - count)
    is_marked = np.zeros(size, bool)
    while missing := marked_count - int(np.count_nonzero(is_marked)):
        is_marked[uniform_integers(stream, size, missing)] = True
    return np.flatnonzero(is_marked if marked_count == count else ~is_marked)


def permutation(stream: Stream, size: int) -> Indices:
    """Return a uniform order of the integers 0 .. size - 1.

    The integers are sorted by independent words. If two words are equal, all words are drawn again, because the sort would then decide.
    """
    while True:
        words = stream.words(size)
        ranks = np.argsort(words, kind="stable")
        ranked = words[ranks]
        if not np.any(ranked[1:] == ranked[:-1]):
            return np.asarray(ranks, np.int64)


def distinct_subsets(stream: Stream, limit: int, count: int, rows: int) -> Indices:
    """Return `rows` independent uniform subsets of `count` of the integers 0 .. limit - 1, one per row (Floyd's algorithm).

    In round j = limit - count .. limit - 1, a row draws r from 0 .. j. It takes r, or j if it already has r. After each round, the row is
    a uniform subset of 0 .. j.
    """
    chosen = np.empty((rows, count), np.int64)
    for column in range(count):
        newest = limit - count + column  # j
        drawn = uniform_integers(stream, newest + 1, rows)
        is_taken = (chosen[:, :column] == drawn[:, None]).any(axis=1)
        chosen[:, column] = np.where(is_taken, newest, drawn)
    return chosen


@dataclass(frozen=True, slots=True)
class BinomialTable:
    """Certified bounds on the distribution function F, in units of 2^-bits.

    Attributes:
        bits: Number of bits of the fixed-point numbers.
        first: Smallest count in the table.
        before: Upper bound on F(first - 1).
        lower, upper: Bounds on F(first), F(first + 1), ...
    """

    bits: int
    first: int
    before: int
    lower: list[int]
    upper: list[int]

    def decide(self, u: int) -> int | None:
        """Return the smallest k with U < F(k), where u is U in units of 2^-bits, rounded down.

        Return None if u does not determine k, or if k is beyond the end of the table.
        """
        index = bisect_left(self.lower, u + 1)
        if index == len(self.lower):
            return None
        upper_before = self.upper[index - 1] if index else self.before
        return None if u < upper_before else self.first + index


class Binomial:
    """A sampler of the exact distribution Binomial(trials, rate).

    Args:
        trials: Number of trials, at least 0.
        rate: Probability of success of a trial, in [0, 1].

    A draw is the smallest k with U < F(k), for a uniform number U with an infinite number of bits. The first bits of U are compared with
    certified bounds on F, which are computed in integers with outward rounding. If they do not decide, the number of bits is doubled.
    """

    __slots__ = ("_rate", "_tables", "_trials")

    def __init__(self, trials: int, rate: Fraction) -> None:
        self._trials = trials
        self._rate = rate
        self._tables: dict[int, BinomialTable] = {}

    def draw(self, stream: Stream) -> int:
        if self._rate == 1:
            return self._trials
        if not 0 < self._rate < 1 or self._trials == 0:
            return 0
        bits, u = PRECISION, _bits(stream, PRECISION)
        while (count := self._table(bits).decide(u)) is None:
            u = u << bits | _bits(stream, bits)  # the bits so far stay the first ones of U
            bits *= 2
        return count

    def _table(self, bits: int) -> BinomialTable:
        """Return the table of this precision, which is computed once."""
        if bits not in self._tables:
            self._tables[bits] = binomial_table(self._trials, self._rate, bits)
        return self._tables[bits]


def _bits(stream: Stream, count: int) -> int:
    """Return an integer of `count` random bits. count: a multiple of 64."""
    return int.from_bytes(stream.words(count // 64).tobytes(), "little")


def binomial_table(trials: int, rate: Fraction, bits: int) -> BinomialTable:
    """Return bounds on the distribution function of Binomial(trials, rate), 0 < rate < 1.

    The weight of the mode is 2^bits. The other weights follow from w_{k+1} / w_k = (n - k) q / ((k + 1) (1 - q)), rounded down for lower
    bounds and up for upper bounds. This ratio decreases with k, so a geometric series bounds the weights beyond the last one.
    """
    odds = rate / (1 - rate)
    mode = min(int((trials + 1) * rate), trials)
    above = _weights_on_side(trials - mode, mode, odds, bits)
    below = _weights_on_side(mode, trials - mode, 1 / odds, bits)  # the same in terms of failures, with the inverse odds
    # In increasing order of the count. Both sides begin with the mode, which is taken from `above`.
    lower, upper = below.lower[:0:-1] + above.lower, below.upper[:0:-1] + above.upper
    least_total, largest_total = sum(lower), sum(upper) + below.tail + above.tail
    return BinomialTable(
        bits=bits,
        first=mode - len(below.lower) + 1,
        before=_divide_up(below.tail << bits, least_total),
        lower=[(partial_sum << bits) // largest_total for partial_sum in accumulate(lower)],
        upper=[_divide_up((below.tail + partial_sum) << bits, least_total) for partial_sum in accumulate(upper)],
    )


@dataclass(frozen=True, slots=True)
class ModeSideWeights:
    """Bounds on the weights on one side of the mode.

    Attributes:
        lower, upper: Bounds on the weights, from the mode outwards.
        tail: Upper bound on the sum of the weights beyond.
    """

    lower: list[int]
    upper: list[int]
    tail: int


def _weights_on_side(remaining: int, passed: int, odds: Fraction, bits: int) -> ModeSideWeights:
    """Return the weights on one side of the mode, where w_{j+1} / w_j = (remaining - j) odds / (passed + j + 1).

    Args:
        remaining: Number of counts on this side of the mode.
        passed: Number of counts on the other side.
    """
    lower, upper = [1 << bits], [1 << bits]
    for j in range(remaining):
        numerator, denominator = (remaining - j) * odds.numerator, (passed + j + 1) * odds.denominator
        if lower[-1] >> GUARD == 0:  # far below the weight of the mode, so the ratio is below 1
            # With the ratio x of the next weight to the last one, the sum beyond is at most upper x / (1 - x).
            return ModeSideWeights(lower, upper, _divide_up(upper[-1] * numerator, denominator - numerator))
        lower.append(lower[-1] * numerator // denominator)
        upper.append(_divide_up(upper[-1] * numerator, denominator))
    return ModeSideWeights(lower, upper, 0)


def _divide_up(numerator: int, denominator: int) -> int:
    """Return the quotient, rounded up."""
    return -(-numerator // denominator)

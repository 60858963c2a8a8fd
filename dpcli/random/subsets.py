"""Uniform integers, subsets and orders from a stream of random words: exact, since sampling is what amplification rests on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpcli.numerics.arrays import np
from dpcli.random.streams import Stream

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Indices = NDArray[np.int64]

SPARSE = 256  # subsets of fewer than one in this many are sorted, others marked among all


def below(stream: Stream, limit: int, count: int) -> Indices:
    """`count` independent integers, each uniform on 0 .. limit - 1, for limit in [1, 2^63].

    A word w is taken modulo `limit` where w is below the largest multiple of `limit` up to 2^64, and drawn again elsewhere.
    """
    last = np.uint64(2**64 - 2**64 % limit - 1)
    drawn = np.empty(0, np.uint64)
    while len(drawn) < count:
        words = stream.words(count - len(drawn))
        drawn = np.concatenate((drawn, words[words <= last]))
    return (drawn % np.uint64(limit)).astype(np.int64)


def subset(stream: Stream, size: int, count: int) -> Indices:
    """A uniform subset of `count` of the integers 0 .. size - 1, increasing.

    The first `count` different values of an endless sequence of independent uniform ones are such a subset, by symmetry. Drawing as
    many more as are missing never passes that point, so nothing that is drawn has to be left out again.
    """
    return _few(stream, size, count) if count * SPARSE < size else _many(stream, size, count)


def _few(stream: Stream, size: int, count: int) -> Indices:
    """In time that grows with `count` alone."""
    chosen = np.empty(0, np.int64)
    while len(chosen) < count:
        chosen = np.sort(np.concatenate((chosen, below(stream, size, count - len(chosen)))))
        chosen = chosen[np.concatenate(([True], chosen[1:] != chosen[:-1]))]
    return chosen


def _many(stream: Stream, size: int, count: int) -> Indices:
    """In time that grows with `size`; beyond half of it, those that are left out are drawn."""
    few = min(count, size - count)
    chosen = np.zeros(size, bool)
    while missing := few - int(np.count_nonzero(chosen)):
        chosen[below(stream, size, missing)] = True
    return np.flatnonzero(chosen if few == count else ~chosen)


def order(stream: Stream, size: int) -> Indices:
    """A uniform order of the integers 0 .. size - 1: sorted by independent words, all drawn again where two are equal."""
    while True:
        words = stream.words(size)
        found = np.argsort(words, kind="stable")
        ranked = words[found]
        if not np.any(ranked[1:] == ranked[:-1]):
            return np.asarray(found, np.int64)


def different(stream: Stream, limit: int, count: int, rows: int) -> Indices:
    """`rows` independent uniform subsets of `count` of the integers 0 .. limit - 1, one per row (Floyd's algorithm).

    In round j = limit - count .. limit - 1 a row draws r from 0 .. j and takes r, or j where it has r already; after each round the
    row is a uniform subset of 0 .. j.
    """
    chosen = np.empty((rows, count), np.int64)
    for column in range(count):
        newest = limit - count + column
        drawn = below(stream, newest + 1, rows)
        taken = (chosen[:, :column] == drawn[:, None]).any(axis=1)
        chosen[:, column] = np.where(taken, newest, drawn)
    return chosen

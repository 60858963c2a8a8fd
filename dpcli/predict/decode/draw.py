"""A token with probability proportional to e^score: by whole numbers, exactly in proportion to the weights as they were computed.

An inverse distribution function in floating point, or Gumbel noise, would never draw a token below about 2^-53, and one of 2^-50 too often
or too rarely by a share that depends on the others: that a private context makes a token possible would show. Here a weight is a float,
which is a whole number times a power of 2; sums of these and the uniform number are whole numbers of any size.
"""

from __future__ import annotations

import numpy as np

from dpcli.base.errors import InternalError
from dpcli.numerics.arrays import Array
from dpcli.random.streams import Stream

LOWEST = -700.0  # below the largest score: e^-700 is a normal number, and every token has at least that weight
HALF = 26  # bits: 65,536 numbers of twice as many have a sum below 2^63 in halves


def token(scores: Array, stream: Stream) -> int:
    """The number of a token. scores: (vocabulary,) finite; the same move of all of them changes nothing."""
    if not np.all(np.isfinite(scores)):
        raise InternalError("a score that is no number: this is a bug in dpcli, and no token")
    mantissa, exponent = np.frexp(np.exp(np.maximum(scores - scores.max(), LOWEST)))
    whole = np.ldexp(mantissa, 2 * HALF + 1).astype(np.int64)
    lowest = int(exponent.min())
    groups = [(int(power) - lowest, np.flatnonzero(exponent == power)) for power in np.unique(exponent)[::-1]]
    sums = [_sum(whole[places]) << power for power, places in groups]
    left = below(sum(sums), stream)
    for (power, places), total in zip(groups, sums, strict=True):
        if left < total:
            return int(places[_place(whole[places], left >> power)])
        left -= total
    raise InternalError("a draw beyond the last token: this is a bug in dpcli, and no token")


def below(limit: int, stream: Stream) -> int:
    """A uniform whole number from 0 to limit - 1, of any size: as many bits as it has, drawn again where they are too large."""
    bits = limit.bit_length()
    words = -(-bits // 64)
    while True:
        found = int.from_bytes(stream.words(words).tobytes(), "little") >> (64 * words - bits)
        if found < limit:
            return found


def _sum(whole: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> int:
    return (int((whole >> HALF).sum()) << HALF) + int((whole & (2**HALF - 1)).sum())


def _place(whole: np.ndarray[tuple[int, ...], np.dtype[np.int64]], at: int) -> int:
    """The first place up to which the sum is above `at`."""
    high, low = np.cumsum(whole >> HALF), np.cumsum(whole & (2**HALF - 1))
    first, last = 0, len(whole) - 1
    while first < last:
        middle = (first + last) // 2
        if (int(high[middle]) << HALF) + int(low[middle]) > at:
            last = middle
        else:
            first = middle + 1
    return first

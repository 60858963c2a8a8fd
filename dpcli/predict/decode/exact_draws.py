"""Draws by whole numbers alone: of a token with probability proportional to e^score, of events of probability e^-x, of geometric numbers.

An inverse distribution function in floating point, or Gumbel noise, would never draw a token below about 2^-53, and one of 2^-50 too often
or too rarely by a share that depends on the others: that a private context makes a token possible would show. Here a weight is a float,
which is a whole number times a power of 2; sums of these and the uniform number are whole numbers of any size.
Source: Canonne, Kamath, Steinke 2020, arXiv:2004.00010, Algorithms 1 and 2.
"""

from __future__ import annotations

from fractions import Fraction

from dpcli.base.errors import InternalError
from dpcli.numerics.arrays import Array, IndexArray, np
from dpcli.random.streams import Stream

LOWEST = -700.0  # below the largest score: e^-700 is a normal number, and every token has at least that weight
HALF = 26  # bits of half a weight: 65,536 weights are added up without overflow, half by half


def draw_token(scores: Array, stream: Stream) -> int:
    """Return the number of a token, drawn with probability proportional to e^score.

    Args:
        scores: (vocabulary,), finite.
    """
    if not np.all(np.isfinite(scores)):
        raise InternalError("a score that is no number: this is a bug in dpcli, and no token")
    mantissa, exponent = np.frexp(np.exp(np.maximum(scores - scores.max(), LOWEST)))
    weights = np.ldexp(mantissa, 2 * HALF + 1).astype(np.int64)
    lowest = int(exponent.min())
    groups = [(int(power) - lowest, np.flatnonzero(exponent == power)) for power in np.unique(exponent)[::-1]]
    sums = [_sum(weights[places]) << power for power, places in groups]
    left = uniform_below(sum(sums), stream)
    for (power, places), total in zip(groups, sums, strict=True):
        if left < total:
            return int(places[_place(weights[places], left >> power)])
        left -= total
    raise InternalError("a draw beyond the last token: this is a bug in dpcli, and no token")


def uniform_below(limit: int, stream: Stream) -> int:
    """Return a uniform whole number from 0 to limit - 1, of any size: as many bits as it has, drawn again if they are too large."""
    bits = limit.bit_length()
    words = -(-bits // 64)
    while True:
        drawn = int.from_bytes(stream.words(words).tobytes(), "little") >> (64 * words - bits)
        if drawn < limit:
            return drawn


def _sum(weights: IndexArray) -> int:
    return (int((weights >> HALF).sum()) << HALF) + int((weights & (2**HALF - 1)).sum())


def _place(weights: IndexArray, at: int) -> int:
    """Return the first place at which the cumulative sum exceeds `at`."""
    high, low = np.cumsum(weights >> HALF), np.cumsum(weights & (2**HALF - 1))
    first, last = 0, len(weights) - 1
    while first < last:
        middle = (first + last) // 2
        if (int(high[middle]) << HALF) + int(low[middle]) > at:
            last = middle
        else:
            first = middle + 1
    return first


def bernoulli_exp(exponent: Fraction, stream: Stream) -> bool:
    """Return True with probability e^-exponent; exponent >= 0."""
    ones, rest = divmod(exponent, 1)
    return all(_bernoulli_exp_unit(Fraction(1), stream) for _ in range(ones)) and _bernoulli_exp_unit(rest, stream)


def geometric(scale: Fraction, stream: Stream) -> int:
    """Return k >= 0 with probability (1 - r) r^k, r = e^{-1 / scale}; scale > 0."""
    parts = scale.numerator
    while True:
        first = uniform_below(parts, stream)
        if bernoulli_exp(Fraction(first, parts), stream):
            break
    times = 0
    while _bernoulli_exp_unit(Fraction(1), stream):
        times += 1
    return (first + parts * times) // scale.denominator


def _bernoulli_exp_unit(exponent: Fraction, stream: Stream) -> bool:
    """Return True with probability e^-exponent, exponent <= 1: the first failure of events of probability exponent / k has an odd k."""
    k = 1
    while uniform_below(exponent.denominator * k, stream) < exponent.numerator:
        k += 1
    return k % 2 == 1

"""Exact draws in integer arithmetic: tokens with probability proportional to e^score, events of probability e^-x, geometric numbers.

`dpcli generate` draws its private and public tokens (text_writer.py) and the noise of its test (private_tokens.py) by them. Floating-point
methods, such as an inverse distribution function or Gumbel noise, never draw a token whose probability is below about 2^-53. They draw a
token of probability 2^-50 too often or too rarely, by a factor that depends on the other tokens. An observer could then learn that a
private context makes a token possible. Here a weight is a float, which is an integer times a power of 2. The sums of weights and the
uniform numbers are integers of any size. Source: Canonne, Kamath, Steinke 2020, arXiv:2004.00010, Algorithms 1 and 2.
"""

from __future__ import annotations

from fractions import Fraction

from dpcli.base.errors import InternalError
from dpcli.numerics.arrays import Array, IndexArray, np
from dpcli.random.streams import Stream

# Scores are raised to at least this, relative to the largest. e^-700 is a normal float, so that every token has a positive weight.
LOWEST_SCORE = -700.0
# A weight has 53 bits, like the mantissa of a float. Its lower HALF_BITS and its upper bits are added up separately, so that sums do not
# overflow 64 bits.
HALF_BITS = 26


def draw_token(scores: Array, stream: Stream) -> int:
    """Return the id of a token, drawn with probability proportional to e^score. `scores` are (vocabulary,) finite numbers."""
    if not np.all(np.isfinite(scores)):
        raise InternalError("a score is not a finite number: this is a bug in dpcli, and no token was drawn")
    # A weight is a whole number times 2^exponent. Weights with one exponent form a group, whose sum counts in units of the lowest exponent.
    mantissa, exponent = np.frexp(np.exp(np.maximum(scores - scores.max(), LOWEST_SCORE)))
    weights = np.ldexp(mantissa, 2 * HALF_BITS + 1).astype(np.int64)  # whole numbers of 53 bits, because a mantissa is in [1/2, 1)
    lowest = int(exponent.min())
    groups = [(int(power) - lowest, np.flatnonzero(exponent == power)) for power in np.unique(exponent)[::-1]]
    sums = [_exact_sum(weights[positions]) << power for power, positions in groups]
    remainder = uniform_below(sum(sums), stream)  # a uniform place in the sum of all weights, which decides the token
    for (power, positions), total in zip(groups, sums, strict=True):
        if remainder < total:
            place = remainder >> power  # the place in units of the group's own exponent
            return int(positions[_first_exceeding(weights[positions], place)])
        remainder -= total
    raise InternalError("a draw fell beyond the last token: this is a bug in dpcli, and no token was drawn")


def uniform_below(limit: int, stream: Stream) -> int:
    """Return a uniform integer from 0 to limit - 1. Numbers with as many bits as `limit` are drawn until one is below it."""
    bits = limit.bit_length()
    words = -(-bits // 64)
    while True:
        drawn = int.from_bytes(stream.words(words).tobytes(), "little") >> (64 * words - bits)
        if drawn < limit:
            return drawn


def _exact_sum(weights: IndexArray) -> int:
    """Return the sum of the weights, which may have more than 64 bits."""
    return (int((weights >> HALF_BITS).sum()) << HALF_BITS) + int((weights & (2**HALF_BITS - 1)).sum())


def _first_exceeding(weights: IndexArray, value: int) -> int:
    """Return the first position at which the cumulative sum of the weights exceeds `value`."""
    high, low = np.cumsum(weights >> HALF_BITS), np.cumsum(weights & (2**HALF_BITS - 1))
    first, last = 0, len(weights) - 1
    while first < last:
        middle = (first + last) // 2
        if (int(high[middle]) << HALF_BITS) + int(low[middle]) > value:
            last = middle
        else:
            first = middle + 1
    return first


def bernoulli_exp(exponent: Fraction, stream: Stream) -> bool:
    """Return True with probability e^-exponent, for exponent >= 0."""
    unit_count, rest = divmod(exponent, 1)
    for _ in range(unit_count):
        if not _bernoulli_exp_unit(Fraction(1), stream):
            return False
    return _bernoulli_exp_unit(rest, stream)


def geometric(scale: Fraction, stream: Stream) -> int:
    """Return k >= 0 with probability (1 - r) r^k, where r = e^{-1 / scale} and scale > 0."""
    # The number drawn is first + parts * multiples. `first` is accepted with probability e^{-first / parts}, and each multiple of `parts`
    # with probability e^-1.
    parts = scale.numerator
    while True:
        first = uniform_below(parts, stream)
        if bernoulli_exp(Fraction(first, parts), stream):
            break
    multiples = 0
    while _bernoulli_exp_unit(Fraction(1), stream):
        multiples += 1
    # The sum has the ratio e^{-1 / numerator}. Division by the denominator raises the ratio to this power.
    return (first + parts * multiples) // scale.denominator


def _bernoulli_exp_unit(exponent: Fraction, stream: Stream) -> bool:
    """Return True with probability e^-exponent, for 0 <= exponent <= 1.

    Events of probability exponent / k are drawn for k = 1, 2, ... The first that fails has an odd k with probability e^-exponent.
    """
    k = 1
    while uniform_below(exponent.denominator * k, stream) < exponent.numerator:
        k += 1
    return k % 2 == 1

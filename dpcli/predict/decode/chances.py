"""Events of probability e^-x and whole numbers of a geometric law, exactly: by uniform whole numbers alone.

Source: Canonne, Kamath, Steinke 2020, arXiv:2004.00010, Algorithms 1 and 2.
"""

from __future__ import annotations

from fractions import Fraction

from dpcli.predict.decode.draw import below
from dpcli.random.streams import Stream


def happens(exponent: Fraction, stream: Stream) -> bool:
    """True with probability e^-exponent; exponent >= 0."""
    whole, rest = divmod(exponent, 1)
    return all(_happens(Fraction(1), stream) for _ in range(whole)) and _happens(rest, stream)


def geometric(scale: Fraction, stream: Stream) -> int:
    """k >= 0 with probability (1 - r) r^k, r = e^{-1 / scale}; scale > 0."""
    parts = scale.numerator
    while True:
        first = below(parts, stream)
        if happens(Fraction(first, parts), stream):
            break
    times = 0
    while _happens(Fraction(1), stream):
        times += 1
    return (first + parts * times) // scale.denominator


def _happens(exponent: Fraction, stream: Stream) -> bool:
    """The same for an exponent of at most 1: whether the first failure among chances exponent / k, k = 1, 2, ..., comes at an odd k."""
    k = 1
    while below(exponent.denominator * k, stream) < exponent.numerator:
        k += 1
    return k % 2 == 1

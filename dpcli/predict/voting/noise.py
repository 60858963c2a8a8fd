"""Noise for the votes, in double precision throughout, from a stream that nobody can know or repeat.

Of the noisy counts only which is the largest leaves, or whether the largest reaches a threshold. Rounding changes that where two of them
lie closer together than it moves one: with 53 bits of each uniform number and noise of a vote or more, with a probability below 10^-12
for each query and label. Attacks on floating-point noise read the last bits of a noisy number (Mironov 2012), and none is released.
"""

from __future__ import annotations

import math

from dpcli.numerics.arrays import Array, np
from dpcli.random.streams import Stream


def uniforms(stream: Stream, count: int) -> Array:
    """`count` independent draws from (0, 1], multiples of 2^-53."""
    return np.asarray(((stream.words(count) >> np.uint64(11)).astype(np.float64) + 1.0) * 2.0**-53)


def normal_noise(stream: Stream, count: int) -> Array:
    """`count` independent draws from N(0, 1). Source: Box & Muller 1958."""
    half = (count + 1) // 2
    radius, angle = np.sqrt(-2.0 * np.log(uniforms(stream, half))), 2.0 * math.pi * uniforms(stream, half)
    return np.concatenate((radius * np.cos(angle), radius * np.sin(angle)))[:count]


def laplace_noise(stream: Stream, count: int) -> Array:
    """`count` independent draws from the Laplace distribution of scale 1: the difference of two exponential ones."""
    return np.asarray(np.log(uniforms(stream, count)) - np.log(uniforms(stream, count)))

"""Streams of random 64-bit words, and Gaussian noise drawn from a stream. Samples, noise and initial weights have separate streams.

A private stream adds entropy of the operating system to OpenSSL's generator before each draw. It has no state of its own, so no checkpoint,
fork, resumed run or copy of a virtual machine can repeat its numbers. Only `insecure_seed` makes streams from a seed. They have
`private = False`.

Noise is drawn in double precision. If it was only added to a value, the last bits would reveal the value: noise of about 3 is a multiple of
2^-51, and the bits of the result below that are those of the value (Mironov 2012; Jin et al. 2022, arXiv:2112.05307). `round_to_grid` cuts
these bits off, and many draws of noise then lead to each result, whatever the value is.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Protocol, TypeVar

from dpcli.base.errors import InternalError
from dpcli.base.lazy import lazy
from dpcli.numerics.arrays import np
from dpcli.sessions.folder import this_process

if TYPE_CHECKING:
    import ssl

    from numpy.typing import NDArray

    Words = NDArray[np.uint64]
    Reals = NDArray[np.float64]
    T = TypeVar("T", float, Any)  # Any: an array, or a tensor of torch, which this module does not import
else:
    ssl = lazy("ssl")

# Speed: the largest draw from the cryptographic generator, in numbers. It takes about 0.06 s. Larger draws are fast but not cryptographic,
# which the privacy statement of a run reports.
CRYPTOGRAPHIC_LIMIT = 10**7
CHUNK = 2**16  # speed: count of the numbers that are computed together; they fit into the cache of a core
ENTROPY = 32  # soundness: bytes of the operating system's entropy that are added before a draw, as many as the key of AES-256 has


class Stream(Protocol):
    """A source of uniform 64-bit words, from which samples and noise are computed. If `private`, nobody can predict or repeat them."""

    @property
    def private(self) -> bool: ...

    def words(self, count: int) -> Words:
        """Return `count` independent uniform words."""

    def bulk(self) -> np.random.Generator:
        """Return a fast generator with a random key of 128 bits. The generator is not cryptographic."""


@dataclass(frozen=True, slots=True)
class SystemStream:
    """OpenSSL's cryptographic generator (AES-256 in counter mode), which is ten times as fast as the operating system's.

    Source: Barker & Kelsey 2015, NIST SP 800-90A, Section 10.2.1.
    """

    private: ClassVar[bool] = True

    def words(self, count: int) -> Words:
        ssl.RAND_add(os.urandom(ENTROPY), float(ENTROPY))
        return np.frombuffer(ssl.RAND_bytes(8 * count), np.uint64)

    def bulk(self) -> np.random.Generator:
        return np.random.Generator(np.random.Philox(key=int.from_bytes(os.urandom(16), "little")))


class SeededStream:
    """A stream whose words are computed from a seed, for tests and debugging only. Whoever knows the seed can subtract the noise.

    The stream works only in the process that made it, and cannot be pickled or copied, because a copy would repeat its words. Otherwise it
    raises InternalError.

    Args:
        seed: Seed, at least 0.
        path: Numbers that tell apart the streams of one seed.
    """

    __slots__ = ("_bits", "_process")

    private: ClassVar[bool] = False

    def __init__(self, seed: int, *path: int) -> None:
        self._bits = np.random.Philox(np.random.SeedSequence(seed, spawn_key=path))
        self._process = this_process()

    def __reduce__(self) -> NoReturn:
        raise InternalError("a stream of random numbers cannot be saved or copied, because its numbers would be used twice")

    def words(self, count: int) -> Words:
        if this_process() != self._process:
            raise InternalError("a seeded stream was used after a fork, where parent and child would draw the same numbers")
        return np.asarray(self._bits.random_raw(count), np.uint64)

    def bulk(self) -> np.random.Generator:
        low, high = (int(word) for word in self.words(2))
        return np.random.Generator(np.random.Philox(key=low | high << 64))


@dataclass(frozen=True, slots=True)
class Streams:
    """A stream for each purpose, so that the numbers of one stream reveal nothing about the numbers of another."""

    sampling: Stream
    noise: Stream
    initialisation: Stream

    @property
    def private(self) -> bool:
        """Return whether nobody can predict batches and noise. Initial weights do not depend on the data, and may be known."""
        return self.sampling.private and self.noise.private


def system_entropy() -> Streams:
    """Return the streams of a private run."""
    return Streams(SystemStream(), SystemStream(), SystemStream())


def insecure_seed(seed: int, resumed_at: int = 0) -> Streams:
    """Return reproducible streams, one for each purpose of `Streams`. A run with these streams is NOT PRIVATE.

    Args:
        seed: Seed, at least 0.
        resumed_at: Step at which a resumed run starts. The run then does not repeat the numbers of the first steps.
    """
    return Streams(*(SeededStream(seed, purpose, resumed_at) for purpose in range(3)))


def normals(count: int, stream: Stream, std: float = 1.0) -> Reals:
    """Return `count` independent draws from N(0, std^2) in float64.

    Up to CRYPTOGRAPHIC_LIMIT numbers come from the words of the stream. More numbers come from a fresh Philox generator with a random key
    of 128 bits.
    """
    if is_cryptographic_size(count):
        return box_muller(stream, count, std)
    drawn = stream.bulk().standard_normal(count)
    drawn *= std
    return drawn


def normal_parts(count: int, stream: Stream, std: float = 1.0) -> Iterator[Reals]:
    """Yield the numbers of `normals` in consecutive parts, for use one after the other while they are in the cache of a core.

    All parts use the same memory, which the caller may change: a part is valid until the next one is drawn.
    """
    memory = np.empty(min(count, CHUNK))
    bulk = None if is_cryptographic_size(count) else stream.bulk()
    for start in range(0, count, CHUNK):
        part = memory[: count - start]
        if bulk is None:
            _fill(stream, part, std)
        else:
            bulk.standard_normal(out=part)
            part *= std
        yield part


def grid_of(std: float) -> float:
    """Return the grid of values with noise: a power of two of at most 2^-32, and over 2^-33, times the standard deviation.

    Within 8 standard deviations, at least 2^17 numbers of double precision lie between two multiples of the grid.
    """
    _, exponent = math.frexp(std)  # std is at least 2^(exponent - 1), and less than 2^exponent
    return math.ldexp(1.0, exponent - 33)


def round_to_grid(value: T, grid: float) -> T:
    """Return a number or an array in double precision, rounded to multiples of a power of two. An array is changed in place.

    Beyond 2^51 times the grid, the result is a multiple of half of it or more.
    """
    shift = rounding_shift(grid)
    value += shift
    value -= shift
    return value


def rounding_shift(grid: float) -> float:
    """Return the number whose addition and subtraction rounds to multiples of a power of two.

    Close to this number, the numbers of double precision are the multiples of the grid.
    """
    return 1.5 * 2.0**52 * grid


def is_cryptographic(count: int, stream: Stream) -> bool:
    """Return whether all of `count` normals come from the cryptographic generator. The privacy statement of a run reports this."""
    return stream.private and is_cryptographic_size(count)


def is_cryptographic_size(count: int) -> bool:
    """Return whether `count` numbers are few enough to be drawn from the words of a stream."""
    return count <= CRYPTOGRAPHIC_LIMIT


def box_muller(stream: Stream, count: int, std: float = 1.0) -> Reals:
    """Return `count` independent draws from N(0, std^2) in float64.

    A draw is r cos(pi v), the first coordinate of a point with radius r = sqrt(-2 log u) and angle pi v. Here u in (0, 1] is a uniform
    multiple of 2^-53, and v in [-1, 1) is a uniform multiple of 2^-31. Draws reach 8.57 standard deviations, and the mass beyond is below
    10^-16. The angle and its cosine are in single precision, with a total error below 5e-7 of the radius.

    The second coordinate, r sin(pi v), is not used. Both together would lie on one of about 2^25 rays, so a pair of noisy sums, although
    rounded, would show what the noise was added to.

    Source: Box & Muller 1958.
    """
    drawn = np.empty(count)
    for start in range(0, count, CHUNK):
        _fill(stream, drawn[start : start + CHUNK], std)
    return drawn


def _fill(stream: Stream, out: Reals, std: float) -> None:
    """Write draws from N(0, std^2) to an array, by the method of `box_muller`.

    The steps work in place, because new memory for each step would cost more time than the arithmetic. A radius uses the upper 53 bits of a
    word, and an angle one half of a word.
    """
    count = len(out)
    words = stream.words(count + (count + 1) // 2)
    uniform = (words[:count] >> np.uint64(11)).view(np.int64) + 1.0  # u, in units of 2^-53
    uniform *= 2.0**-53
    radius = np.log(uniform, out=uniform)
    radius *= -2.0
    np.sqrt(radius, out=radius)
    radius *= std
    angle = words[count:].view(np.int32)[:count].astype(np.float32)  # v, in units of 2^-31
    angle *= np.float32(np.pi * 2.0**-31)
    np.multiply(radius, np.cos(angle, out=angle), out=out)

"""Streams of random words, one each for samples, noise and initial weights, and Gaussian noise drawn from a stream.

The private stream mixes what the operating system gives into OpenSSL's generator each time and keeps nothing itself, so there is no
state that a checkpoint could save, a fork could copy or a resumed run could replay. A seed exists only as `insecure_seed`, and what
it makes says `private = False`.

Noise is drawn in floating point. That sums in float32 protect as real numbers would is an assumption, as in all DP-SGD software: a
release to somebody who studies its last bits needs discrete noise instead (Mironov 2012; Jin et al. 2022, arXiv:2112.05307).
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Protocol

from dpcli.base.errors import InternalError
from dpcli.base.lazy import lazy
from dpcli.numerics.arrays import np
from dpcli.sessions.folder import this_process

if TYPE_CHECKING:
    import ssl

    from numpy.typing import NDArray

    Words = NDArray[np.uint64]
    Reals = NDArray[np.float64]
    Singles = NDArray[np.float32]
else:
    ssl = lazy("ssl")

CRYPTOGRAPHIC_LIMIT = 10**7  # numbers of one draw; about 3 * 10^8 come per second and core
CHUNK = 2**16  # numbers that are made at once: as many as fit into a core's cache


class Stream(Protocol):
    """A source of uniform 64-bit words. private: whether nobody can know or repeat them."""

    @property
    def private(self) -> bool: ...

    def words(self, count: int) -> Words:
        """Return `count` independent uniform words."""

    def bulk(self) -> np.random.Generator:
        """Return a fast generator under a key of 128 bits drawn from this stream; not cryptographic."""


@dataclass(frozen=True, slots=True)
class SystemStream:
    """OpenSSL's cryptographic generator (AES-256 in counter mode), ten times as fast as the operating system's, which seeds it.

    Fresh entropy goes in before every draw: a forked process, or one image of a machine that is started twice, does not repeat it.
    Source: Barker & Kelsey 2015, NIST SP 800-90A, Section 10.2.1.
    """

    private: ClassVar[bool] = True

    def words(self, count: int) -> Words:
        ssl.RAND_add(os.urandom(32), 32.0)
        return np.frombuffer(ssl.RAND_bytes(8 * count), np.uint64)

    def bulk(self) -> np.random.Generator:
        return np.random.Generator(np.random.Philox(key=int.from_bytes(os.urandom(16), "little")))


class SeededStream:
    """Words that follow from a seed, for tests and debugging only: anybody who knows the seed can subtract the noise.

    Bound to the process that made it and never pickled or copied, since a second copy would repeat what the first one gave.
    """

    __slots__ = ("_bits", "_process")

    private: ClassVar[bool] = False

    def __init__(self, seed: int, *path: int) -> None:
        self._bits = np.random.Philox(np.random.SeedSequence(seed, spawn_key=path))
        self._process = this_process()

    def __reduce__(self) -> NoReturn:
        raise InternalError("a stream of random numbers is never saved or copied: its numbers would be used twice")

    def words(self, count: int) -> Words:
        if this_process() != self._process:
            raise InternalError("a seeded stream was used after a fork: parent and child would draw the same numbers")
        return np.asarray(self._bits.random_raw(count), np.uint64)

    def bulk(self) -> np.random.Generator:
        low, high = (int(word) for word in self.words(2))
        return np.random.Generator(np.random.Philox(key=low | high << 64))


@dataclass(frozen=True, slots=True)
class Streams:
    """A stream for each purpose, so that the numbers of one say nothing about those of another."""

    sampling: Stream
    noise: Stream
    initialisation: Stream

    @property
    def private(self) -> bool:
        """Return whether nobody can predict batches and noise. Initial weights do not depend on the data, and may be known."""
        return self.sampling.private and self.noise.private


def system_entropy() -> Streams:
    """Return streams that the operating system seeds, as a private run needs."""
    return Streams(SystemStream(), SystemStream(), SystemStream())


def insecure_seed(seed: int, resumed_at: int = 0) -> Streams:
    """Return reproducible streams, NOT PRIVATE.

    Args:
        seed: at least 0.
        resumed_at: the step at which a resumed run starts, so that it does not repeat the numbers of the first steps.
    """
    return Streams(*(SeededStream(seed, purpose, resumed_at) for purpose in range(3)))


def normals(count: int, stream: Stream) -> Reals:
    """Return `count` independent draws from N(0, 1) in float64.

    Up to CRYPTOGRAPHIC_LIMIT: from the stream's own words. Above: a fresh generator for these numbers alone (Philox under a key of 128
    bits from the stream; torch's own generator on the CPU takes 32 bits of its seed).
    """
    return box_muller(stream, count) if cryptographic_size(count) else stream.bulk().standard_normal(count)


def cryptographic(count: int, stream: Stream) -> bool:
    """Return whether `count` numbers come from the system's cryptographic generator throughout; for the privacy statement."""
    return stream.private and cryptographic_size(count)


def cryptographic_size(count: int) -> bool:
    """Return whether `count` numbers are few enough to be drawn from a stream's own words."""
    return count <= CRYPTOGRAPHIC_LIMIT


def box_muller(stream: Stream, count: int) -> Reals:
    """Return `count` independent draws from N(0, 1).

    The radius is sqrt(-2 log u) with u in (0, 1], a multiple of 2^-53: values reach 8.57 standard deviations, and the mass beyond, which
    is left out, is below 10^-16. The angle is pi v with v in [-1, 1) a multiple of 2^-31; it, its cosine and its sine are in single
    precision: together off by less than 5e-7 of the radius. Source: Box & Muller 1958.
    """
    return _filled(stream, np.empty(count + count % 2), 1.0)[:count]


def singles(count: int, std: float, stream: Stream) -> Singles:
    """Return `count` independent draws from N(0, std^2) in float32; std itself is rounded up to float32."""
    if not cryptographic_size(count):
        return (normals(count, stream) * std).astype(np.float32)
    scale = np.float32(std)
    upper = scale if float(scale) >= std else np.nextafter(scale, np.float32(np.inf))
    return _filled(stream, np.empty(count + count % 2, np.float32), float(upper))[:count]


def _filled(stream: Stream, drawn: NDArray[Any], std: float) -> NDArray[Any]:
    """Fill the array, of even length, with draws in its own precision, and return it."""
    for start in range(0, len(drawn), CHUNK):
        _fill(stream, drawn[start : start + CHUNK], std)
    return drawn


def _fill(stream: Stream, out: NDArray[Any], std: float) -> None:
    """Write draws over `out`, each step in place: new memory for each would cost more than the arithmetic."""
    half = len(out) // 2
    words = stream.words(half + (half + 1) // 2)
    uniform = (words[:half] >> np.uint64(11)).view(np.int64) + 1.0
    uniform *= 2.0**-53
    radius = np.log(uniform, out=uniform).astype(out.dtype)
    radius *= -2.0
    np.sqrt(radius, out=radius)
    radius *= std
    angle = words[half:].view(np.int32)[:half].astype(np.float32)
    angle *= np.float32(np.pi * 2.0**-31)
    np.multiply(radius, np.cos(angle), out=out[:half])
    np.multiply(radius, np.sin(angle, out=angle), out=out[half:])

"""How far what private contexts say is from what the public one says, in whole numbers, and whether that passes a bar with noise.

A distribution is cut into 2^30 parts, which it has at most and never more than: so that one context moves the distance by no more than its
parts, exactly, whatever a model answers. In these units the distance f of `PrivateDecodingSpec` is that over 2^31 references.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from dpcli.base.errors import InputError
from dpcli.numerics.arrays import Array
from dpcli.predict.decode.chances import geometric, happens

if TYPE_CHECKING:
    from dpcli.predict.decode.clipped import Sums
    from dpcli.random.streams import Stream

PARTS = 2**30  # of a distribution
MOST = 2**31  # references, and contexts of a batch: sums fit into 64 bits


@dataclass(frozen=True, slots=True)
class PublicTest:
    """size: the public size of a batch. threshold, scale: in whole units, as `PrivateDecodingSpec` has them in shares."""

    size: int
    temperature: float
    threshold: int
    scale: Fraction

    @classmethod
    def of(cls, spec: Any) -> PublicTest | None:
        """By the keys of a private-decoding entry; None where it makes no comparison. Raises InputError where numbers are too large."""
        if spec.scale is None:
            return None
        if spec.references > MOST:
            raise InputError(f"references: expected at most {MOST:,} with a threshold, found {spec.references:,}")
        whole = 2 * PARTS * spec.references
        return cls(spec.references, spec.temperature, int(Fraction(spec.threshold) * whole), Fraction(spec.scale) * whole)

    def parts(self, row: Array) -> Sums:
        """The parts of one context's distribution, (vocabulary,): of that context alone, so that no other moves its last bits.

        Args:
            row: (vocabulary,) log-probabilities. Where they are no numbers it has no parts, as an empty place.
        """
        with np.errstate(all="ignore"):
            scores = row / self.temperature
            sums = np.cumsum(np.exp(scores - scores.max()))
            shares = sums / sums[-1]
        if not np.isfinite(shares).all():
            return np.zeros(len(row), np.int64)
        # Differences of a sum that grows to PARTS: none is negative, and together they are no more than that.
        return np.asarray(np.diff(np.floor(shares * PARTS).astype(np.int64), prepend=0))

    def distance(self, public: Array, parts: Sums) -> int:
        """Of what private contexts say from what the public one does: one context moves it by PARTS at most, another one in its place by
        twice as many.

        Args:
            public: (vocabulary,) log-probabilities. parts: of all private contexts, added up.
        """
        return int(np.abs(parts - self.size * self.parts(public)).sum())

    def bar(self, stream: Stream) -> int:
        """What the distances before one private token are compared with; for the next one it is drawn anew."""
        return self.threshold + geometric(self.scale, stream)

    def private(self, distance: int, bar: int, stream: Stream) -> bool:
        """Whether the token is private: the distance, with noise, reaches the bar."""
        return happens(Fraction(max(0, bar - distance)) / self.scale, stream)

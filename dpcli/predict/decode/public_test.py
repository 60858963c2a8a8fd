"""The test of which tokens are private: how far private contexts are from the public one, with noise, against a bar.

A distribution is cut into 2^30 parts, which it has at most and never more than: so that one context moves the distance by no more than its
parts, exactly, whatever a model answers. In these units the distance f of `PrivateDecodingSpec` is that over 2^31 references.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from dpcli.base.errors import Denied, InputError, InternalError
from dpcli.numerics.arrays import Array, np
from dpcli.predict.decode.exact_draws import geometric, happens
from dpcli.predict.queries.query_counts import QueryBudget
from dpcli.random.streams import Stream

if TYPE_CHECKING:
    from dpcli.predict.decode.logit_clipping import Sums
    from dpcli.random.streams import Stream


PARTS = 2**30  # of a distribution
MOST = 2**31  # references, and contexts of a batch: sums fit into 64 bits


@dataclass(frozen=True, slots=True)
class PublicTest:
    """The test of one entry. size: the public size of a batch. threshold, scale: in parts, as `PrivateDecodingSpec` has them in shares."""

    size: int
    temperature: float
    threshold: int
    scale: Fraction

    @classmethod
    def of(cls, spec: Any) -> PublicTest | None:
        """Return the test of a private-decoding entry; None where it makes no comparison. Raises InputError where numbers are too large."""
        if spec.scale is None:
            return None
        if spec.references > MOST:
            raise InputError(f"references: expected at most {MOST:,} with a threshold, found {spec.references:,}")
        unit = 2 * PARTS * spec.references
        return cls(spec.references, spec.temperature, int(Fraction(spec.threshold) * unit), Fraction(spec.scale) * unit)

    def parts(self, row: Array) -> Sums:
        """Return the parts of one context's distribution, (vocabulary,): of that context alone, so that no other moves its last bits.

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
        """Return how far private contexts are from the public one: one context moves it by PARTS at most, another one in its place by twice
        as many.

        Args:
            public: (vocabulary,) log-probabilities. parts: of all private contexts, added up.
        """
        return int(np.abs(parts - self.size * self.parts(public)).sum())

    def bar(self, stream: Stream) -> int:
        """Draw what the distances before one private token are compared with; for the next one it is drawn anew."""
        return self.threshold + geometric(self.scale, stream)

    def private(self, distance: int, bar: int, stream: Stream) -> bool:
        """Decide whether the token is private: the distance, with noise, reaches the bar."""
        return happens(Fraction(max(0, bar - distance)) / self.scale, stream)


@dataclass(slots=True)
class PrivateTurns:
    """The private tokens of one batch: each is charged before the bar that it is judged by is drawn.

    budget: how many there are, counted durably. A bar is for one private token, in whichever text of the batch it comes: a process that
    ends loses its bar, and what was charged for it.
    """

    test: PublicTest
    budget: QueryBudget
    bar: int | None = None
    spent: bool = False

    def opened(self, stream: Stream) -> bool:
        """Return whether there is a bar, a new one if need be. Raises LedgerError where the count cannot be relied on."""
        if self.bar is None and not self.spent:
            try:
                self.budget.take()
            except Denied:
                self.spent = True
                return False
            self.bar = self.test.bar(stream)
        return self.bar is not None

    def private(self, distance: int, stream: Stream) -> bool:
        """Decide whether the next token is private, by an open bar; if it is, the bar is used up."""
        if self.bar is None:
            raise InternalError("a comparison that nobody paid for: this is a bug in dpcli, and no token")
        private = self.test.private(distance, self.bar, stream)
        if private:
            self.bar = None
        return private

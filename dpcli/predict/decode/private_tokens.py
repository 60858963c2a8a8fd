"""Private tokens: the clipped contributions of private contexts to the logits, and the test of which tokens need them.

With u = clip / (2^20 B), a context contributes whole multiples of u, from -2^20 to 2^20 for each token; sums of them are exact, and B is
the public size of a batch, whatever number of contexts is in it. An empty place adds 0.

Scores are (base + u sum) / temperature in double precision, base at most 0 and at least -1000 temperature, and the sum bounded by 8 B
contexts' worth, which moves no more than the sum does. Rounding then takes a weight e^score off by a factor within e^h, h = 2^-50 (1000 +
8 clip / temperature), and the loss of a token by 4 h at most: the clip that is used is smaller than the file's by 2 h B temperature, which
pays for it.

The test compares how far private contexts are from the public one, with noise, with a bar. A distribution is cut into 2^30 parts, which it
has at most and never more than: so that one context moves the distance by no more than its parts, exactly, whatever a model answers. In
these units the distance f of `PrivateDecodingSpec` is that over 2^31 references.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from dpcli.base.errors import Denied, InputError, InternalError
from dpcli.numerics.arrays import Array, np
from dpcli.predict.decode.exact_draws import bernoulli_exp, geometric
from dpcli.predict.query_counts import QueryBudget

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpcli.random.streams import Stream

    Sums = NDArray[np.int64]

GRID = 2**20  # parts of a clip
FAR = 1000.0  # temperatures below the largest base: a token of weight e^-1000 is never drawn
LARGEST_MULTIPLE = 8  # times the size of a batch: more contexts than that move a score no further


@dataclass(frozen=True, slots=True)
class LogitClipping:
    """The clipping of one entry.

    Attributes:
        clip: The one that is used.
        size: The public size B of a batch.
    """

    clip: float
    size: int
    temperature: float

    @classmethod
    def of(cls, spec: Any) -> LogitClipping:
        """Return the clipping of a private-decoding entry. Raises InputError if its clip is too small to be computed with."""
        lost = 2.0**-50 * (FAR + LARGEST_MULTIPLE * spec.clip / spec.temperature)
        used = spec.clip - 2.0 * lost * spec.references * spec.temperature
        if not used >= 0.99 * spec.clip:
            raise InputError(
                "clip: moves a logit by less than rounding does: clip / (references temperature) = "
                f"{spec.clip / spec.references / spec.temperature:.3g}"
            )
        return cls(used, spec.references, spec.temperature)

    def differences(self, private: Array, public: Array) -> Sums:
        """Return the sum of what contexts contribute, by how far each one's logits are from the public ones.

        Source: Vinod, Pillutla, Thakurta 2025, arXiv:2507.02974 (InvisibleInk).

        Args:
            private: (contexts, vocabulary) log-probabilities.
            public: (vocabulary,).
        """
        with np.errstate(invalid="ignore"):  # two that are -inf do not differ
            return self._sum(private - public)

    def logits(self, private: Array) -> Sums:
        """Return the sum by the logits themselves, shifted so that the largest is `clip`. Source: Amin et al. 2024, arXiv:2407.12108."""
        with np.errstate(invalid="ignore"):
            return self._sum(private - private.max(axis=1, keepdims=True) + self.clip)

    def _sum(self, values: Array) -> Sums:
        """Return sums of clipped values. What is no number counts as 0: as a whole number it would be as far from it as one can be."""
        clipped = np.clip(np.where(np.isnan(values), 0.0, values), -self.clip, self.clip)
        return np.asarray(np.rint(clipped * (GRID / self.clip)).astype(np.int64).sum(axis=0))

    def scores(self, base: Array, sums: Sums) -> Array:
        """Return what a token is drawn by, (vocabulary,): with probability proportional to e^score.

        Args:
            base: (vocabulary,) public logits, or 0.
        """
        limit = LARGEST_MULTIPLE * self.size * GRID
        lowered = np.maximum(base - base.max(), -FAR * self.temperature)
        return np.asarray((lowered + np.clip(sums, -limit, limit) * (self.clip / GRID / self.size)) / self.temperature)


PARTS = 2**30  # of a distribution
MOST_REFERENCES = 2**31  # references, and contexts of a batch: sums fit into 64 bits


@dataclass(frozen=True, slots=True)
class PublicTest:
    """The test of one entry.

    Attributes:
        size: The public size of a batch.
        threshold, scale: In parts, as `PrivateDecodingSpec` has them in shares.
    """

    size: int
    temperature: float
    threshold: int
    scale: Fraction

    @classmethod
    def of(cls, spec: Any) -> PublicTest | None:
        """Return the test of a private-decoding entry; None if it makes no comparison. Raises InputError if numbers are too large."""
        if spec.scale is None:
            return None
        if spec.references > MOST_REFERENCES:
            raise InputError(f"references: expected at most {MOST_REFERENCES:,} with a threshold, found {spec.references:,}")
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
            public: (vocabulary,) log-probabilities.
            parts: Parts of all private contexts, added up.
        """
        return int(np.abs(parts - self.size * self.parts(public)).sum())

    def bar(self, stream: Stream) -> int:
        """Draw what the distances before one private token are compared with; for the next one it is drawn anew."""
        return self.threshold + geometric(self.scale, stream)

    def private(self, distance: int, bar: int, stream: Stream) -> bool:
        """Decide whether the token is private: the distance, with noise, reaches the bar."""
        return bernoulli_exp(Fraction(max(0, bar - distance)) / self.scale, stream)


@dataclass(slots=True)
class PrivateTurns:
    """The private tokens of one batch: each is charged before the bar that it is judged by is drawn.

    Attributes:
        budget: How many there are, counted durably. A bar is for one private token, in whichever text of the batch it comes: a process that
            ends loses its bar, and what was charged for it.
    """

    test: PublicTest
    budget: QueryBudget
    bar: int | None = None
    spent: bool = False

    def open_bar(self, stream: Stream) -> bool:
        """Charge and draw a bar if none is open, and return whether one is. Raises LedgerError if the count cannot be relied on."""
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

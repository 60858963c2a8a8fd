"""Private tokens: the clipped contributions of private contexts to the logits, and the test that decides which tokens need them.

`dpcli generate` writes texts by a language model. A *context* is a template around one private text, and a *batch* holds the contexts from
which one text is written; the public context is a prompt. A *private token* is drawn from logits to which the batch contributes, and is
charged; mechanisms/prediction/private_decoding.py prices it, and text_writer.py draws it. The private-decoding *entry* of the pipeline file
states the clip, the temperature and the test.

Contributions. Let B be the public size of a batch (`references` in the file), which may differ from its number of contexts, and let the
unit u be clip / (2^20 B). For each token, a context contributes an integer from -2^20 to 2^20, in units of u. Sums of contributions are
therefore exact. A missing context contributes 0.

Scores. The score of a token is (base + u sum) / temperature in double precision. base is from -1000 temperature to 0. The sum is clipped to
the contributions of 8 B contexts, which does not increase its sensitivity. Rounding changes a weight e^score by a factor of at most e^h,
where h = 2^-50 (1000 + 8 clip / temperature), and the privacy loss of a token by at most 4 h. To compensate, the clip that is used is
smaller than the clip of the file by 2 h B temperature.

Test. A noisy distance between the private contexts and the public one is compared with a noisy threshold, called the bar. Each distribution
is cut into at most 2^30 parts, so that one context moves the distance by at most its number of parts, whatever a model answers. The
distance f of `PrivateDecodingSpec` is this distance divided by 2^31 times the number of references.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from dpcli.base.errors import Denied, InputError, InternalError
from dpcli.numerics.arrays import Array, np
from dpcli.predict.decode.exact_draws import bernoulli_exp, geometric
from dpcli.predict.query_counts import AnswerCounter

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpcli.random.streams import Stream

    Sums = NDArray[np.int64]

GRID = 2**20  # contributions are rounded to multiples of clip / GRID, which affects accuracy alone
# BASE_RANGE and LARGEST_MULTIPLE bound the scores, and enter the rounding h above, for which the clip is reduced.
BASE_RANGE = 1000.0  # The base is at least -BASE_RANGE temperature. A token of weight e^-1000 is practically never drawn.
LARGEST_MULTIPLE = 8  # The sum of contributions is clipped to this many times the size of a batch.
SMALLEST = 1e-290  # Numbers below this would lose digits, or their quotients overflow.
LEAST_SHARE = 0.99  # A file is refused if less than this share of its clip remains after the reduction; arbitrary.

PARTS = 2**30  # number of parts into which a distribution is cut
MOST_REFERENCES = 2**31  # with this many contexts in a batch, sums of parts still fit into 64 bits


@dataclass(frozen=True, slots=True)
class LogitClipping:
    """The clipping of one entry.

    Attributes:
        clip: Clip that is used. It is smaller than the file's, to compensate for rounding.
        size: Public size B of a batch.
    """

    clip: float
    size: int
    temperature: float

    @classmethod
    def of(cls, spec: Any) -> LogitClipping:
        """Return the clipping of a private-decoding entry.

        Raises InputError if its clip is too small compared to rounding, or a number is so small or large that quotients lose digits.
        """
        smallest, largest = min(spec.temperature, spec.clip / GRID / spec.references), max(spec.temperature, spec.clip)
        if not (smallest >= SMALLEST and largest <= 1.0 / SMALLEST):
            raise InputError(
                f"clip: expected a temperature, clip and clip / (2^20 references) from {SMALLEST:g} to {1.0 / SMALLEST:g}, found a "
                f"temperature of {spec.temperature:g}, a clip of {spec.clip:g} and {spec.references:,} references"
            )
        rounding = 2.0**-50 * (BASE_RANGE + LARGEST_MULTIPLE * spec.clip / spec.temperature)  # h above
        clip = spec.clip - 2.0 * rounding * spec.references * spec.temperature
        if not clip >= LEAST_SHARE * spec.clip:
            raise InputError(
                "clip: too small, as rounding moves a logit further: clip / (references temperature) = "
                f"{spec.clip / spec.references / spec.temperature:.3g}"
            )
        return cls(clip, spec.references, spec.temperature)

    def differences(self, private: Array, public: Array) -> Sums:
        """Return the sum of the contexts' contributions, which are the clipped differences of their logits to the public ones.

        Source: Vinod, Pillutla, Thakurta 2025, arXiv:2507.02974 (InvisibleInk).

        Args:
            private: (contexts, vocabulary) log-probabilities.
            public: (vocabulary,) log-probabilities.
        """
        with np.errstate(invalid="ignore"):  # The difference of two -inf is NaN, which counts as 0.
            return self._sum(private - public)

    def logits(self, private: Array) -> Sums:
        """Return the sum of the contexts' clipped logits, each shifted so that its largest is `clip`.

        Source: Amin et al. 2024, arXiv:2407.12108.
        """
        with np.errstate(invalid="ignore"):
            return self._sum(private - private.max(axis=1, keepdims=True) + self.clip)

    def _sum(self, values: Array) -> Sums:
        """Return the sums of the clipped values, in units of clip / GRID: B times u. NaN counts as 0, because it has no integer value."""
        clipped = np.clip(np.where(np.isnan(values), 0.0, values), -self.clip, self.clip)
        return np.asarray(np.rint(clipped * (GRID / self.clip)).astype(np.int64).sum(axis=0))

    def scores(self, base: Array, sums: Sums) -> Array:
        """Return the scores of tokens, (vocabulary,). A token is drawn with probability proportional to e^score.

        Args:
            base: (vocabulary,) public logits, or zeros.
            sums: (vocabulary,) sums of contributions.
        """
        limit = LARGEST_MULTIPLE * self.size * GRID
        lowered = np.maximum(base - base.max(), -BASE_RANGE * self.temperature)
        return np.asarray((lowered + np.clip(sums, -limit, limit) * (self.clip / GRID / self.size)) / self.temperature)


@dataclass(frozen=True, slots=True)
class PublicTest:
    """The test of one entry.

    Attributes:
        size: Public size B of a batch.
        threshold, scale: Threshold of the distance and scale of its noise, in parts. `PrivateDecodingSpec` has them as shares.
    """

    size: int
    temperature: float
    threshold: int
    scale: Fraction

    @classmethod
    def of(cls, spec: Any) -> PublicTest | None:
        """Return the test of a private-decoding entry; None if it has no test. Raises InputError if it has too many references."""
        if spec.scale is None:
            return None
        if spec.references > MOST_REFERENCES:
            raise InputError(f"references: expected at most {MOST_REFERENCES:,} with a threshold, found {spec.references:,}")
        unit = 2 * PARTS * spec.references
        return cls(spec.references, spec.temperature, int(Fraction(spec.threshold) * unit), Fraction(spec.scale) * unit)

    def parts(self, row: Array) -> Sums:
        """Return the parts of one context's distribution, (vocabulary,). They depend on that context alone, to the last bit.

        Args:
            row: (vocabulary,) log-probabilities. If they are not finite probabilities, the context has no parts, like a missing one.
        """
        with np.errstate(all="ignore"):
            scores = row / self.temperature
            sums = np.cumsum(np.exp(scores - scores.max()))
            shares = sums / sums[-1]
        if not np.isfinite(shares).all():
            return np.zeros(len(row), np.int64)
        # These are differences of a cumulative sum that ends at PARTS, so that none is negative and they add up to at most PARTS.
        return np.asarray(np.diff(np.floor(shares * PARTS).astype(np.int64), prepend=0))

    def distance(self, public: Array, parts: Sums) -> int:
        """Return the distance of the private contexts from the public one, in parts.

        A context that is added or removed moves it by at most PARTS. A context that is replaced moves it by at most 2 PARTS.

        Args:
            public: (vocabulary,) log-probabilities.
            parts: (vocabulary,) sums of the parts of all private contexts.
        """
        return int(np.abs(parts - self.size * self.parts(public)).sum())

    def bar(self, stream: Stream) -> int:
        """Draw the bar with which distances are compared, up to and including the next private token."""
        return self.threshold + geometric(self.scale, stream)

    def is_private(self, distance: int, bar: int, stream: Stream) -> bool:
        """Draw whether the noisy distance reaches the bar, so that the token is private.

        The noise of the distance is geometric, and is at least x with probability e^(-x / scale).
        """
        return bernoulli_exp(Fraction(max(0, bar - distance)) / self.scale, stream)


@dataclass(slots=True)
class PrivateSupply:
    """The private tokens of one batch that are still paid for. Each is counted before its bar is drawn.

    A bar is used until one token, in any text of the batch, is private. If a process ends, its open bar and the charge for it are lost.

    Attributes:
        counter: Durable count of the private tokens.
        bar: The bar for the next comparisons; None if no bar is open.
        spent: Whether no private tokens are left.
    """

    test: PublicTest
    counter: AnswerCounter
    bar: int | None = None
    spent: bool = False

    def open_bar(self, stream: Stream) -> bool:
        """Count a private token and draw its bar, if none is open. Return whether a bar is open: False if no private token is left.

        Raises LedgerError if the count cannot be relied on.
        """
        if self.bar is None and not self.spent:
            try:
                self.counter.take()
            except Denied:
                self.spent = True
                return False
            self.bar = self.test.bar(stream)
        return self.bar is not None

    def is_private(self, distance: int, stream: Stream) -> bool:
        """Draw whether the next token is private, by comparison with the open bar. A private token closes the bar."""
        if self.bar is None:
            raise InternalError("a comparison without a charge: this is a bug in dpcli, and no token was drawn")
        is_private = self.test.is_private(distance, self.bar, stream)
        if is_private:
            self.bar = None
        return is_private

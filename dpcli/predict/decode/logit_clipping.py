"""The clipped contributions of private contexts to the logits, in whole numbers: their sum moves by no more than one of them may.

With u = clip / (2^20 B), a context contributes whole multiples of u, from -2^20 to 2^20 for each token; sums of them are exact, and B is
the public size of a batch, whatever number of contexts is in it. An empty place adds 0.

Scores are (base + u sum) / temperature in double precision, base at most 0 and at least -1000 temperature, and the sum bounded by 8 B
contexts' worth, which moves no more than the sum does. Rounding then takes a weight e^score off by a factor within e^h, h = 2^-50 (1000 +
8 clip / temperature), and the loss of a token by 4 h at most: the clip that is used is smaller than the file's by 2 h B temperature, which
pays for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dpcli.base.errors import InputError
from dpcli.numerics.arrays import Array, np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Sums = NDArray[np.int64]

GRID = 2**20  # parts of a clip
FAR = 1000.0  # temperatures below the largest base: e^-1000 is drawn by nobody
MOST = 8  # times the size of a batch: more contexts than that move a score no further


@dataclass(frozen=True, slots=True)
class LogitClipping:
    """The clipping of one entry. clip: the one that is used. size: the public size B of a batch."""

    clip: float
    size: int
    temperature: float

    @classmethod
    def of(cls, spec: Any) -> LogitClipping:
        """Return the clipping of a private-decoding entry. Raises InputError where its clip is too small to be computed with."""
        lost = 2.0**-50 * (FAR + MOST * spec.clip / spec.temperature)
        used = spec.clip - 2.0 * lost * spec.references * spec.temperature
        if not used >= 0.99 * spec.clip:
            raise InputError(
                "clip: moves a logit by less than rounding does: clip / (references temperature) = "
                f"{spec.clip / spec.references / spec.temperature:.3g}"
            )
        return cls(used, spec.references, spec.temperature)

    def differences(self, private: Array, public: Array) -> Sums:
        """Return the sum of what contexts contribute, by how far each one's logits are from the public ones.

        Args:
            private: (contexts, vocabulary) log-probabilities. public: (vocabulary,).

        Source: Vinod, Pillutla, Thakurta 2025, arXiv:2507.02974 (InvisibleInk).
        """
        with np.errstate(invalid="ignore"):  # two that are -inf do not differ
            return self._sum(private - public)

    def logits(self, private: Array) -> Sums:
        """Return the same by the logits themselves, moved so that the largest is `clip`. Source: Amin et al. 2024, arXiv:2407.12108."""
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
        limit = MOST * self.size * GRID
        lowered = np.maximum(base - base.max(), -FAR * self.temperature)
        return np.asarray((lowered + np.clip(sums, -limit, limit) * (self.clip / GRID / self.size)) / self.temperature)

"""Above threshold, over whole counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from dpcli.base.errors import InputError
from dpcli.release.noise.draw import draws, noisy
from dpcli.release.noise.laws import DiscreteLaplaceLaw
from dpcli.release.noise.scales import rounded_up


@dataclass(frozen=True, slots=True)
class SparseVectorLaws:
    """Noise of the threshold and of each query: Lap(sensitivity / eps1) and Lap(2 answers sensitivity / eps2), on the integers.

    The proof shifts the noise of the threshold by the sensitivity and that of an answer by twice that: whole numbers, so that it holds
    for the discrete law as it does for the continuous one, with whole counts and a whole threshold.

    Priced by: sparse-vector with this epsilon, answers and threshold_share. Both scales are rounded up.

    Source: Lyu, Su, Li 2017, arXiv:1603.01699, Algorithm 1 (standard form).
    """

    epsilon: float
    sensitivity: int
    answers: int = 1
    threshold_share: float = 0.5

    def __post_init__(self) -> None:
        if not (self.epsilon > 0.0 and self.sensitivity >= 1 and self.answers >= 1 and 0.0 < self.threshold_share < 1.0):
            raise InputError(f"expected epsilon > 0, sensitivity and answers >= 1 and a threshold_share in (0, 1), found {self}")

    @property
    def threshold(self) -> DiscreteLaplaceLaw:
        return DiscreteLaplaceLaw(rounded_up(self.sensitivity / self._part))

    @property
    def query(self) -> DiscreteLaplaceLaw:
        return DiscreteLaplaceLaw(rounded_up(2 * self.answers * self.sensitivity / (Fraction(self.epsilon) - self._part)))

    @property
    def _part(self) -> Fraction:
        return Fraction(self.epsilon) * Fraction(self.threshold_share)


def above_threshold(counts: Sequence[int], threshold: int, laws: SparseVectorLaws) -> list[bool]:
    """For each count in order whether it, with noise, reaches the threshold, with noise: until `answers` of them do.

    The list ends with the last of them, or with the counts. The noise on the threshold is drawn once.
    """
    [bar] = noisy([threshold], laws.threshold)
    found: list[bool] = []
    for count, noise in zip(counts, draws(len(counts), laws.query), strict=True):
        found.append(count + noise >= bar)
        if sum(found) == laws.answers:
            break
    return found

"""How the votes of one query are answered, by the type of the [[mechanism]] entry: its noise stands there, and nowhere else.

What is released is the noisy winner, or that there is none, and never a noisy count: how noise was rounded shows in nothing. Noise is in
double precision, from the system's cryptographic generator.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np

from dpcli.train.noise.randomness import Stream, box_muller

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpcli.predict.voting.counts import VoteCounts
    from dpcli.train.noise.randomness import Reals


class VotingRule(Protocol):
    """One type of mechanism."""

    @classmethod
    def of(cls, spec: Any) -> Self:
        """By the keys of an entry."""
        ...

    def asked(self, steps: int) -> int:
        """How many queries so many steps of the entry pay for."""
        ...

    def answered(self, steps: int) -> int | None:
        """How many of them may be answered; None where all of them are."""
        ...

    def agree(self, votes: VoteCounts, stream: Stream) -> bool:
        """Whether the query is answered: the first release."""
        ...

    def winner(self, votes: VoteCounts, stream: Stream) -> int:
        """The label that is released, where it is."""
        ...


@dataclass(frozen=True, slots=True)
class NoisyMax:
    """The label with the most votes after noise on each count; every query is answered. A step is one query."""

    scale: float

    def asked(self, steps: int) -> int:
        return steps

    def answered(self, steps: int) -> int | None:
        return None

    def agree(self, votes: VoteCounts, stream: Stream) -> bool:
        return True

    def noise(self, count: int, stream: Stream) -> Reals:
        return box_muller(stream, count) * self.scale

    def winner(self, votes: VoteCounts, stream: Stream) -> int:
        return int(np.argmax(np.array(votes.counts, float) + self.noise(len(votes.counts), stream)))


@dataclass(frozen=True, slots=True)
class GaussianVoting(NoisyMax):
    """gnmax. Source: Papernot et al. 2018, arXiv:1802.08908."""

    @classmethod
    def of(cls, spec: Any) -> Self:
        return cls(spec.sigma)


@dataclass(frozen=True, slots=True)
class LaplaceVoting(NoisyMax):
    """lnmax. Source: Papernot et al. 2017, arXiv:1610.05755."""

    @classmethod
    def of(cls, spec: Any) -> Self:
        return cls(spec.scale)

    def noise(self, count: int, stream: Stream) -> Reals:
        words = stream.words(count)
        sign = np.where(words & np.uint64(1), 1.0, -1.0)
        return np.asarray(sign * -np.log(_uniform(words)) * self.scale, np.float64)


@dataclass(frozen=True, slots=True)
class ConfidentVoting(NoisyMax):
    """confident-gnmax: only where the largest count, with noise of its own, reaches a threshold. A step is a session of queries.

    Source: Papernot et al. 2018, arXiv:1802.08908, Algorithm 1.
    """

    threshold: float
    threshold_sigma: float
    queries: int
    answers: int | None

    @classmethod
    def of(cls, spec: Any) -> Self:
        return cls(spec.sigma, spec.threshold, spec.threshold_sigma, spec.queries, spec.answers)

    def asked(self, steps: int) -> int:
        return steps * self.queries

    def answered(self, steps: int) -> int | None:
        return None if self.answers is None else steps * self.answers

    def agree(self, votes: VoteCounts, stream: Stream) -> bool:
        return max(votes.counts) + float(box_muller(stream, 1)[0]) * self.threshold_sigma >= self.threshold


def _uniform(words: NDArray[np.uint64]) -> Reals:
    """In (0, 1], multiples of 2^-53, of the upper 53 bits."""
    return np.asarray(((words >> np.uint64(11)).view(np.int64) + 1.0) * 2.0**-53, np.float64)

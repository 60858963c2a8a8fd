"""What each type of mechanism does with the votes of one query, and what that costs given the votes.

An aggregator reads the keys of its [[mechanism]] entry: whatever the noise is, it stands there and nowhere else.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from dpcli.base.errors import CannotCertify, InputError
from dpcli.base.lazy import load
from dpcli.numerics.arrays import Array, np
from dpcli.predict.plugin import AGGREGATORS
from dpcli.predict.voting.conditions import conditions
from dpcli.predict.voting.gaussian_bound import total_rdp_gaussian
from dpcli.predict.voting.laplace_bound import total_rdp_laplace
from dpcli.predict.voting.noise import laplace_noise, normal_noise
from dpcli.predict.voting.sensitivity import AnswerSensitivity, threshold_by_distance
from dpcli.predict.voting.vote_costs import Releases, VoteCosts, releases
from dpcli.predict.voting.winner import log_answered, log_q_gaussian, log_q_laplace

if TYPE_CHECKING:
    from dpcli.file.pipeline.model import Entry
    from dpcli.predict.voting.winner import Counts
    from dpcli.random.streams import Stream


class Aggregator(ABC):
    """The cost of the votes, given them. abstains: whether a query may stay without an answer."""

    __slots__ = ()

    abstains: ClassVar[bool] = False
    key: ClassVar[str] = "steps"  # of an entry, that says how many queries it pays for

    @classmethod
    @abstractmethod
    def of(cls, spec: Any) -> Aggregator:
        """By the keys of an entry."""

    @classmethod
    def most_queries(cls, entry: Entry) -> int:
        """How many queries the entry pays for at most: each of its steps is one."""
        return entry.steps

    @classmethod
    def most_answers(cls, entry: Entry) -> int:
        """How many answers it pays for at most."""
        return entry.steps

    @classmethod
    def limited(cls, entry: Entry, answers: int, queries: int | None = None) -> Entry:
        """The entry with at most so many answers, and so many queries where that is stated too."""
        return replace(entry, steps=answers)

    @abstractmethod
    def answers(self, counts: Counts, counted: Array) -> Releases:
        """What answers to these queries cost: counts (n, m), and how often each is counted (n,)."""

    def thresholds(self, largest: Array) -> tuple[Releases, ...]:
        """What deciding whether to answer costs, for each query: largest (n,) is what is compared with the threshold."""
        return ()

    @abstractmethod
    def winners(self, counts: Counts, stream: Stream) -> list[int]:
        """The label of each of these queries, (n, m): the one with the most votes after noise."""

    def reached(self, largest: Array, stream: Stream) -> list[bool]:
        """Whether each query is answered: `largest` (n,) as in `thresholds`."""
        return [True] * len(largest)

    def sensitivity(self, counts: Counts, largest: Array, teachers: int, order: float) -> Array:
        """How much one vote on each query changes the cost of a session at most, at each distance from the votes, (teachers,).

        counts: of the queries that were answered. largest: of all that were asked. Raises CannotCertify where it is not known.
        """
        raise CannotCertify("expected an entry whose smooth sensitivity is known, gnmax or confident-gnmax, found another")

    def chance(self, largest: Array) -> Array:
        """The probability that each query is answered, (n,)."""
        return np.ones(len(largest))

    def realised(self, counts: Counts, largest: Array, answered: Array) -> VoteCosts:
        """The cost of a session in which the queries with `answered` (n,) were answered; as they happened."""
        return VoteCosts((*self.thresholds(largest), self.answers(counts, answered)), len(counts), float(answered.sum()))

    def expected(self, counts: Counts, largest: Array) -> VoteCosts:
        """The mean cost of a session over its noise: for planning."""
        return self.realised(counts, largest, self.chance(largest))


@dataclass(frozen=True, slots=True)
class GnMax(Aggregator):
    """Gaussian noise on each count."""

    sigma: float

    @classmethod
    def of(cls, spec: Any) -> GnMax:
        return cls(spec.sigma)

    def winners(self, counts: Counts, stream: Stream) -> list[int]:
        noisy = counts + self.sigma * normal_noise(stream, counts.size).reshape(counts.shape)
        return [int(label) for label in noisy.argmax(axis=1)]

    def sensitivity(self, counts: Counts, largest: Array, teachers: int, order: float) -> Array:
        of = AnswerSensitivity(self.sigma, counts.shape[1], order)
        failing = [name for name, holds in zip(("C5", "C6"), conditions(of, teachers), strict=True) if not holds]
        if failing:
            raise CannotCertify(
                f"expected an order at which conditions C5 and C6 hold, found {order:g}, where {' and '.join(failing)} fails: what is "
                "proved of the sensitivity needs them"
            )
        rows, often = np.unique(np.sort(counts, axis=1), axis=0, return_counts=True)
        # One teacher votes on every query: the sensitivities of all of them add up.
        return np.asarray(often @ of.by_distance(rows, teachers) if len(rows) else np.zeros(teachers), dtype=float)

    def answers(self, counts: Counts, counted: Array) -> Releases:
        return releases(log_q_gaussian(counts, self.sigma), counted, partial(_gaussian, self.sigma))


@dataclass(frozen=True, slots=True)
class ConfidentGnMax(GnMax):
    """The same, for queries whose largest count with noise reaches a threshold."""

    abstains: ClassVar[bool] = True
    key: ClassVar[str] = "queries"

    threshold: float
    threshold_sigma: float

    @classmethod
    def of(cls, spec: Any) -> ConfidentGnMax:
        return cls(spec.sigma, spec.threshold, spec.threshold_sigma)

    @classmethod
    def most_queries(cls, entry: Entry) -> int:
        return int(entry.spec.queries)  # type: ignore[attr-defined]

    @classmethod
    def most_answers(cls, entry: Entry) -> int:
        return int(entry.spec.answers or entry.spec.queries)  # type: ignore[attr-defined]

    @classmethod
    def limited(cls, entry: Entry, answers: int, queries: int | None = None) -> Entry:
        queries = cls.most_queries(entry) if queries is None else queries
        return replace(entry, spec=replace(entry.spec, answers=answers, queries=queries))  # type: ignore[type-var]

    def thresholds(self, largest: Array) -> tuple[Releases, ...]:
        log_q = np.minimum(*log_answered(largest, self.threshold, self.threshold_sigma))
        # The largest count moves by 1 where the counts move by sqrt 2, for which the bound is stated.
        return (releases(log_q, np.ones(len(log_q)), partial(_gaussian, math.sqrt(2.0) * self.threshold_sigma)),)

    def sensitivity(self, counts: Counts, largest: Array, teachers: int, order: float) -> Array:
        values, often = np.unique(np.rint(largest), return_counts=True)
        each = threshold_by_distance(values, self.threshold, self.threshold_sigma, order, teachers)
        return np.asarray(GnMax.sensitivity(self, counts, largest, teachers, order) + often @ each, dtype=float)

    def reached(self, largest: Array, stream: Stream) -> list[bool]:
        noisy = largest + self.threshold_sigma * normal_noise(stream, len(largest))
        return [bool(enough) for enough in noisy >= self.threshold]

    def chance(self, largest: Array) -> Array:
        return np.asarray(np.exp(log_answered(largest, self.threshold, self.threshold_sigma)[0]))


@dataclass(frozen=True, slots=True)
class LnMax(Aggregator):
    """Laplace noise on each count."""

    scale: float

    @classmethod
    def of(cls, spec: Any) -> LnMax:
        return cls(spec.scale)

    def winners(self, counts: Counts, stream: Stream) -> list[int]:
        noisy = counts + self.scale * laplace_noise(stream, counts.size).reshape(counts.shape)
        return [int(label) for label in noisy.argmax(axis=1)]

    def answers(self, counts: Counts, counted: Array) -> Releases:
        return releases(log_q_laplace(counts, self.scale), counted, partial(_laplace, 2.0 / self.scale))


def _gaussian(sigma: float, log_q: Array, weights: Array, orders: Array) -> Array:
    return total_rdp_gaussian(log_q, weights, sigma, orders)


def _laplace(epsilon: float, log_q: Array, weights: Array, orders: Array) -> Array:
    return total_rdp_laplace(log_q, weights, epsilon, orders)


def aggregator_class(entry: Entry) -> type[Aggregator]:
    """By the type of an entry, which must be one of votes."""
    found: type[Aggregator] = load(AGGREGATORS[entry.type])
    return found


def require_one_session(entry: Entry, path: str) -> None:
    """Raise InputError for several steps of what is a whole session each."""
    if aggregator_class(entry).abstains and entry.steps != 1:
        place = f'{path}: mechanism["{entry.name}"]: steps'
        raise InputError(f"{place}: expected 1, as a step is a session of `queries` queries, found {entry.steps}")

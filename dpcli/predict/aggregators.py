"""Aggregators: what each type of mechanism does with the votes of a query, its noise, and what that costs given the votes.

An aggregator reads the keys of its [[mechanism]] entry: whatever the noise is, it stands there and nowhere else.

Noise is in double precision. Of the noisy counts only which is the largest leaves, or whether the largest reaches a threshold. Rounding
changes that where two of them lie closer together than it moves one: with 53 bits of each uniform number and noise of a vote or more, with
a probability below 10^-12 for each query and label. Attacks on floating-point noise read the last bits of a noisy number (Mironov 2012),
and none is released.

Every query is charged its threshold, abstentions included, and every answered one its answer. With the probabilities of an answer in place
of what happened, the sum is an expectation: good for planning, and no guarantee (Papernot et al. 2018, arXiv:1802.08908, section 3.3).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from dpcli.base.errors import CannotCertify, InputError
from dpcli.base.lazy import load
from dpcli.numerics.arrays import Array, np
from dpcli.numerics.orders import least_over_orders
from dpcli.predict.plugin import AGGREGATORS
from dpcli.predict.vote_bounds import (
    AnswerSensitivity,
    log_answered,
    log_q_gaussian,
    log_q_laplace,
    monotone_conditions,
    threshold_by_distance,
    total_rdp_gaussian,
    total_rdp_laplace,
)
from dpcli.random.streams import Stream

if TYPE_CHECKING:
    from dpcli.file.pipeline.model import Entry
    from dpcli.numerics.closed.conversion import Conversion
    from dpcli.predict.vote_bounds import Counts


Total = Callable[[Array, Array, Array], Array]  # log q (n,), weights (n,), orders (k,) -> the sum of the divergences (k,)


@dataclass(frozen=True, slots=True)
class Releases:
    """Releases of one kind: log q of each, different ones only, and how often each is counted."""

    log_q: Array
    weights: Array
    total: Total

    def rdp(self, orders: Array) -> Array:
        """Return upper bounds on the sum of the divergences, (k,)."""
        return self.total(self.log_q, self.weights, orders) if len(self.log_q) else np.zeros(len(orders))


def merged_releases(log_q: Array, counted: Array, total: Total) -> Releases:
    """Return releases, those with the same q put together.

    Args:
        counted: (n,) how often each is counted, or with which probability.
    """
    different, place = np.unique(log_q, return_inverse=True)
    weights = np.asarray(np.bincount(np.ravel(place), weights=counted, minlength=len(different)), dtype=float)
    return Releases(different[weights > 0.0], weights[weights > 0.0], total)


@dataclass(frozen=True, slots=True)
class VoteCosts:
    """The cost of a session.

    Attributes:
        answered: How many queries were, or are expected to be, answered.
    """

    parts: tuple[Releases, ...]
    queries: int
    answered: float

    def rdp(self, orders: Array) -> Array:
        """Return upper bounds on D_a at real orders > 1, (k,)."""
        return np.asarray(sum((part.rdp(orders) for part in self.parts), np.zeros(len(orders))))

    def epsilon(self, delta: float, conversion: Conversion) -> tuple[float, float]:
        """Return (epsilon, order), the smallest over the real line. Raises CannotCertify at delta = 0."""
        if delta <= 0.0:
            raise CannotCertify("expected delta > 0 for an epsilon that depends on the votes, found 0")
        log_delta = math.log(delta)
        above_one, epsilon = least_over_orders(lambda z: conversion(1.0 + z, self.rdp(1.0 + z), log_delta))
        return epsilon, 1.0 + above_one


class Aggregator(ABC):
    """A way of answering queries by votes.

    Attributes:
        abstains: Whether a query may stay without an answer.
    """

    __slots__ = ()

    abstains: ClassVar[bool] = False
    key: ClassVar[str] = "steps"  # of an entry, that says how many queries it pays for

    @classmethod
    @abstractmethod
    def of(cls, spec: Any) -> Aggregator:
        """Return the aggregator of an entry, by its keys."""

    @classmethod
    def most_queries(cls, entry: Entry) -> int:
        """Return how many queries the entry pays for at most: each of its steps is one."""
        return entry.steps

    @classmethod
    def most_answers(cls, entry: Entry) -> int:
        """Return how many answers the entry pays for at most."""
        return entry.steps

    @classmethod
    def limited(cls, entry: Entry, answers: int, queries: int | None = None) -> Entry:
        """Return the entry with at most so many answers, and so many queries where these are given."""
        return replace(entry, steps=answers)

    @abstractmethod
    def answers(self, counts: Counts, counted: Array) -> Releases:
        """Return what answers to these queries cost: counts (n, m), and how often each is counted (n,)."""

    def thresholds(self, largest: Array) -> tuple[Releases, ...]:
        """Return what deciding whether to answer costs, for each query: largest (n,) is compared with the threshold."""
        return ()

    @abstractmethod
    def winners(self, counts: Counts, stream: Stream) -> list[int]:
        """Return the label of each of these queries, counts (n, m): the one with the most votes after noise."""

    def reached(self, largest: Array, stream: Stream) -> list[bool]:
        """Decide for each query whether it is answered: `largest` (n,) as in `thresholds`."""
        return [True] * len(largest)

    def sensitivity(self, counts: Counts, largest: Array, teachers: int, order: float) -> Array:
        """Return by how much one vote on each query changes the cost of a session at most, at each distance from the votes, (teachers,).

        Args:
            counts: Counts of the queries that were answered.
            largest: Largest of all that were asked.

        Raises:
            CannotCertify: If it is not known.
        """
        raise CannotCertify(
            f"expected gnmax or confident-gnmax, whose smooth sensitivity is known, found {type(self).__name__.lower()}"
        )

    def chance(self, largest: Array) -> Array:
        """Return the probability that each query is answered, (n,)."""
        return np.ones(len(largest))

    def realised(self, counts: Counts, largest: Array, answered: Array) -> VoteCosts:
        """Return the cost of a session in which the queries with `answered` (n,) were answered."""
        return VoteCosts((*self.thresholds(largest), self.answers(counts, answered)), len(counts), float(answered.sum()))

    def expected(self, counts: Counts, largest: Array) -> VoteCosts:
        """Return the mean cost of a session over its noise: for planning."""
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
        hold = monotone_conditions(of, teachers)
        failing = [name for name, holds in (("C5", hold.c5), ("C6", hold.c6)) if not holds]
        if failing:
            raise CannotCertify(
                f"expected an order at which conditions C5 and C6 hold, found {order:g}, where {' and '.join(failing)} fails: what is "
                "proved of the sensitivity needs them"
            )
        rows, often = np.unique(np.sort(counts, axis=1), axis=0, return_counts=True)
        # One teacher votes on every query: the sensitivities of all of them add up.
        return np.asarray(often @ of.by_distance(rows, teachers) if len(rows) else np.zeros(teachers), dtype=float)

    def answers(self, counts: Counts, counted: Array) -> Releases:
        return merged_releases(log_q_gaussian(counts, self.sigma), counted, _gaussian(self.sigma))


@dataclass(frozen=True, slots=True)
class ConfidentGnMax(GnMax):
    """Gaussian noise on each count, for queries whose largest count with noise reaches a threshold."""

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
        # The largest count moves by 1 if the counts move by sqrt 2, for which the bound is stated.
        return (merged_releases(log_q, np.ones(len(log_q)), _gaussian(math.sqrt(2.0) * self.threshold_sigma)),)

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
        def total(log_q: Array, weights: Array, orders: Array) -> Array:
            return total_rdp_laplace(log_q, weights, 2.0 / self.scale, orders)

        return merged_releases(log_q_laplace(counts, self.scale), counted, total)


def _gaussian(sigma: float) -> Total:
    return lambda log_q, weights, orders: total_rdp_gaussian(log_q, weights, sigma, orders)


def aggregator_class(entry: Entry) -> type[Aggregator]:
    """Return the aggregator of an entry of votes, by its type."""
    aggregator: type[Aggregator] = load(AGGREGATORS[entry.type])
    return aggregator


def require_one_session(entry: Entry, path: str) -> None:
    """Raise InputError for several steps where each is a whole session."""
    if aggregator_class(entry).abstains and entry.steps != 1:
        place = f'{path}: mechanism["{entry.name}"]: steps'
        raise InputError(f"{place}: expected 1, as a step is a session of `queries` queries, found {entry.steps}")


def uniforms(stream: Stream, count: int) -> Array:
    """Return `count` independent draws from (0, 1], multiples of 2^-53."""
    return np.asarray(((stream.words(count) >> np.uint64(11)).astype(np.float64) + 1.0) * 2.0**-53)


def normal_noise(stream: Stream, count: int) -> Array:
    """Return `count` independent draws from N(0, 1), in double precision throughout. Source: Box & Muller 1958."""
    half = (count + 1) // 2
    radius, angle = np.sqrt(-2.0 * np.log(uniforms(stream, half))), 2.0 * math.pi * uniforms(stream, half)
    return np.concatenate((radius * np.cos(angle), radius * np.sin(angle)))[:count]


def laplace_noise(stream: Stream, count: int) -> Array:
    """Return `count` independent draws from the Laplace distribution of scale 1: the difference of two exponential ones."""
    return np.asarray(np.log(uniforms(stream, count)) - np.log(uniforms(stream, count)))

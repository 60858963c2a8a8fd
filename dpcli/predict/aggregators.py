"""Aggregators: they answer a query by a noisy vote of teachers, and compute what the answers cost given the votes.

A *teacher* is a model (`dpcli pate`) or a prompt (`dpcli prompt`) made from one shard of the private data. It votes for one label of each
public *query*. An aggregator adds noise to the number of votes for each label, and releases only the label of the largest noisy count.
`ConfidentGnMax` first compares the largest count, with separate noise, with a threshold, and gives no answer if the count is below it; with
`check = "student"` in [pate], it compares the largest difference between a count and a student's prediction. Every query is charged for
that comparison, and every answered query for its answer. A *session* is the queries that one charge pays for. An *entry* is a [[mechanism]]
table of the pipeline file; its type selects the aggregator. Source: Papernot et al. 2018, arXiv:1802.08908.

The guarantee is the cost for any votes (mechanisms/prediction/votes.py). The cost *given the votes*, an upper bound computed here, is
private: the operator may see it (pate/vote_account.py), and only pate/vote_release.py releases it, with noise. The *expected* cost counts
each answer with its probability (section 3.3). It serves for planning and is not a guarantee.

Noise is in double precision. Rounding changes the released label only if two noisy counts are closer together than the rounding error. With
53 bits in each uniform number and noise of a vote or more, this has a probability below 10^-12 for each query and label. Attacks on
floating-point noise read the last bits of a noisy number (Mironov 2012), and no noisy count is released.
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
from dpcli.predict.vote_bounds import log_answered, log_q_gaussian, log_q_laplace, total_rdp_gaussian, total_rdp_laplace
from dpcli.predict.vote_sensitivity import AnswerSensitivity, monotone_conditions, threshold_by_distance
from dpcli.random.streams import Stream

if TYPE_CHECKING:
    from dpcli.file.pipeline.model import Entry
    from dpcli.numerics.closed.conversion import Conversion
    from dpcli.predict.vote_bounds import Counts


# Function (log q (n,), weights (n,), orders (k,)) -> the sum of the Renyi divergences of n releases, each times its weight, (k,).
TotalRdp = Callable[[Array, Array, Array], Array]


@dataclass(frozen=True, slots=True)
class Releases:
    """Releases of one kind: all answers of a session, or all of its comparisons with the threshold.

    Attributes:
        log_q: Distinct values of log q, (n,). q bounds the probability of all outcomes other than the likeliest one (vote_bounds.py).
        weights: Number of releases with each log q, or their expected number, (n,).
        total_rdp: Function that sums the Renyi divergences of the releases.
    """

    log_q: Array
    weights: Array
    total_rdp: TotalRdp

    def rdp(self, orders: Array) -> Array:
        """Return upper bounds on the sum of the divergences, (k,), at each of the orders, (k,)."""
        if not len(self.log_q):
            return np.zeros(len(orders))
        return self.total_rdp(self.log_q, self.weights, orders)


def merge_releases(log_q: Array, weights: Array, total_rdp: TotalRdp) -> Releases:
    """Return the releases. Releases with equal log q become one entry, whose weight is the sum of theirs.

    Args:
        log_q: (n,) a value for each release.
        weights: (n,) 1 for a release that was made and 0 for one that was not, or the probability of the release.
    """
    distinct, group = np.unique(log_q, return_inverse=True)
    merged = np.asarray(np.bincount(np.ravel(group), weights=weights, minlength=len(distinct)), dtype=float)
    return Releases(distinct[merged > 0.0], merged[merged > 0.0], total_rdp)


@dataclass(frozen=True, slots=True)
class VoteCosts:
    """The cost of a session, given its votes.

    Attributes:
        releases: Comparisons with the threshold, if the aggregator has one, and answers.
        queries: Number of queries that were asked.
        answered: Number of queries that were answered, or the expected number.
    """

    releases: tuple[Releases, ...]
    queries: int
    answered: float

    def rdp(self, orders: Array) -> Array:
        """Return upper bounds on the Renyi divergence at each of the real orders > 1, (k,)."""
        return np.asarray(sum((release.rdp(orders) for release in self.releases), np.zeros(len(orders))))

    def epsilon(self, delta: float, conversion: Conversion) -> tuple[float, float]:
        """Return the smallest epsilon over all real orders, and its order. Raises CannotCertify at delta = 0."""
        if delta <= 0.0:
            raise CannotCertify("expected delta > 0 for an epsilon that depends on the votes, found 0")
        log_delta = math.log(delta)
        above_one, epsilon = least_over_orders(lambda z: conversion(1.0 + z, self.rdp(1.0 + z), log_delta))  # z: order - 1
        return epsilon, 1.0 + above_one


class Aggregator(ABC):
    """A way of answering queries by votes. Its parameters are the keys of a [[mechanism]] entry of its type.

    The class methods read the entry alone, before any vote is read. The other methods need votes.

    Attributes:
        abstains: Whether a query may get no answer, because its largest count is first compared with a threshold.
        queries_key: Key of the entry that states the number of queries it pays for.
    """

    __slots__ = ()

    abstains: ClassVar[bool] = False
    queries_key: ClassVar[str] = "steps"

    @classmethod
    @abstractmethod
    def of(cls, spec: Any) -> Aggregator:
        """Return the aggregator with the parameters of an entry's spec (mechanisms/prediction/votes.py)."""

    @classmethod
    def most_queries(cls, entry: Entry) -> int:
        """Return the largest number of queries that the entry pays for: its steps, unless a subclass has a key for queries."""
        return entry.steps

    @classmethod
    def most_answers(cls, entry: Entry) -> int:
        """Return the largest number of answers that the entry pays for: by default, one for each of its steps."""
        return entry.steps

    @classmethod
    def limit(cls, entry: Entry, answers: int, queries: int | None = None) -> Entry:
        """Return the entry limited to these numbers of answers and queries; by default, to its own number of queries.

        For an aggregator that answers every query, the number of answers is the number of queries, and `queries` is ignored.
        """
        return replace(entry, steps=answers)

    @abstractmethod
    def answer_releases(self, counts: Counts, weights: Array) -> Releases:
        """Return the answers to queries with these counts, (n, m).

        The weights, (n,), are 1 for an answered query and 0 for another, or the probability of an answer.
        """

    def threshold_releases(self, largest: Array) -> tuple[Releases, ...]:
        """Return the comparisons of the largest count of each query, (n,), with the threshold; () if there is no threshold."""
        return ()

    @abstractmethod
    def winners(self, counts: Counts, stream: Stream) -> list[int]:
        """Draw the label with the largest noisy count, for each query with these counts, (n, m)."""

    def reached(self, largest: Array, stream: Stream) -> list[bool]:
        """Draw, for each query, whether its noisy largest count reaches the threshold, so that it is answered."""
        return [True] * len(largest)

    def sensitivity(self, counts: Counts, largest: Array, teachers: int, order: float) -> Array:
        """Return the largest change of a session's cost by one teacher's votes, at distances 0, 1, ... from the votes, (teachers,).

        vote_release.py makes a smooth sensitivity of it. A distance d means that up to d teachers may have voted otherwise. The cost is the
        Renyi divergence at `order`.

        Args:
            counts: Counts of the queries that were answered.
            largest: Largest counts of all queries that were asked.

        Raises CannotCertify if the sensitivity is not known.
        """
        raise CannotCertify(
            f"expected gnmax or confident-gnmax, whose smooth sensitivity is known, found {type(self).__name__.lower()}"
        )

    def answer_probability(self, largest: Array) -> Array:
        """Return the probability that each query is answered, (n,)."""
        return np.ones(len(largest))

    def cost(self, counts: Counts, largest: Array, answered: Array) -> VoteCosts:
        """Return the cost of a session, given its votes.

        Args:
            counts: (n, m) counts of the queries that were asked.
            largest: (n,) numbers that were compared with the threshold.
            answered: (n,) 1 for each query that was answered, and 0 for the others; or the probability of the answer.
        """
        releases = (*self.threshold_releases(largest), self.answer_releases(counts, answered))
        return VoteCosts(releases, len(counts), float(answered.sum()))

    def expected_cost(self, counts: Counts, largest: Array) -> VoteCosts:
        """Return the expected cost of a session over its noise, for planning. Arguments as in `cost`."""
        return self.cost(counts, largest, self.answer_probability(largest))


@dataclass(frozen=True, slots=True)
class GnMax(Aggregator):
    """Gaussian noise of standard deviation `sigma`, in votes, on each count."""

    sigma: float

    @classmethod
    def of(cls, spec: Any) -> GnMax:
        return cls(spec.sigma)

    def winners(self, counts: Counts, stream: Stream) -> list[int]:
        noisy = counts + self.sigma * normal_noise(stream, counts.size).reshape(counts.shape)
        return [int(label) for label in noisy.argmax(axis=1)]

    def sensitivity(self, counts: Counts, largest: Array, teachers: int, order: float) -> Array:
        answer_sensitivity = AnswerSensitivity(self.sigma, classes=counts.shape[1], order=order)
        conditions = monotone_conditions(answer_sensitivity, teachers)._asdict()  # c5 and c6 of the paper (vote_sensitivity.py)
        failing = [name.upper() for name, holds in conditions.items() if not holds]
        if failing:
            raise CannotCertify(
                f"expected an order at which conditions C5 and C6 hold, found {order:g}, where {' and '.join(failing)} fails: the proof of "
                "the sensitivity needs both conditions"
            )
        # The sensitivity does not depend on the order of the labels, so queries with the same sorted counts are evaluated once.
        rows, repeats = np.unique(np.sort(counts, axis=1), axis=0, return_counts=True)
        if not len(rows):
            return np.zeros(teachers)
        # Every teacher votes on every query. The sensitivities of all queries therefore add up.
        return np.asarray(repeats @ answer_sensitivity.by_distance(rows, teachers), dtype=float)

    def answer_releases(self, counts: Counts, weights: Array) -> Releases:
        return merge_releases(log_q_gaussian(counts, self.sigma), weights, _gaussian_total(self.sigma))


@dataclass(frozen=True, slots=True)
class ConfidentGnMax(GnMax):
    """Gaussian noise on each count, for the queries whose largest count, with noise of `threshold_sigma`, reaches `threshold`."""

    abstains: ClassVar[bool] = True
    queries_key: ClassVar[str] = "queries"

    threshold: float
    threshold_sigma: float

    @classmethod
    def of(cls, spec: Any) -> ConfidentGnMax:
        return cls(spec.sigma, spec.threshold, spec.threshold_sigma)

    @classmethod
    def most_queries(cls, entry: Entry) -> int:
        return int(entry.spec.queries)  # type: ignore[attr-defined]

    @classmethod
    def most_answers(cls, entry: Entry) -> int:  # If the entry states no number of answers, every query may be answered.
        return int(entry.spec.answers or entry.spec.queries)  # type: ignore[attr-defined]

    @classmethod
    def limit(cls, entry: Entry, answers: int, queries: int | None = None) -> Entry:
        queries = cls.most_queries(entry) if queries is None else queries
        return replace(entry, spec=replace(entry.spec, answers=answers, queries=queries))  # type: ignore[type-var]

    def threshold_releases(self, largest: Array) -> tuple[Releases, ...]:
        log_q = np.minimum(*log_answered(largest, self.threshold, self.threshold_sigma))  # of the less likely of the two outcomes
        # The bound holds for sensitivity sqrt 2. The largest count has sensitivity 1, which is equivalent to noise larger by sqrt 2.
        return (merge_releases(log_q, np.ones(len(log_q)), _gaussian_total(math.sqrt(2.0) * self.threshold_sigma)),)

    def sensitivity(self, counts: Counts, largest: Array, teachers: int, order: float) -> Array:
        values, repeats = np.unique(np.rint(largest), return_counts=True)  # whole numbers of votes; equal ones are evaluated once
        of_comparisons = repeats @ threshold_by_distance(values, self.threshold, self.threshold_sigma, order, teachers)
        of_answers = GnMax.sensitivity(self, counts, largest, teachers, order)  # super() fails in a dataclass with slots
        return np.asarray(of_answers + of_comparisons, dtype=float)

    def reached(self, largest: Array, stream: Stream) -> list[bool]:
        noisy = largest + self.threshold_sigma * normal_noise(stream, len(largest))
        return [bool(enough) for enough in noisy >= self.threshold]

    def answer_probability(self, largest: Array) -> Array:
        return np.asarray(np.exp(log_answered(largest, self.threshold, self.threshold_sigma).answered))


@dataclass(frozen=True, slots=True)
class LnMax(Aggregator):
    """Laplace noise of scale `scale`, in votes, on each count."""

    scale: float

    @classmethod
    def of(cls, spec: Any) -> LnMax:
        return cls(spec.scale)

    def winners(self, counts: Counts, stream: Stream) -> list[int]:
        noisy = counts + self.scale * laplace_noise(stream, counts.size).reshape(counts.shape)
        return [int(label) for label in noisy.argmax(axis=1)]

    def answer_releases(self, counts: Counts, weights: Array) -> Releases:
        def total(log_q: Array, weights: Array, orders: Array) -> Array:
            epsilon = 2.0 / self.scale  # epsilon of one release: a changed vote moves one count up and another one down
            return total_rdp_laplace(log_q, weights, epsilon, orders)

        return merge_releases(log_q_laplace(counts, self.scale), weights, total)


def _gaussian_total(sigma: float) -> TotalRdp:
    return lambda log_q, weights, orders: total_rdp_gaussian(log_q, weights, sigma, orders)


def aggregator_class(entry: Entry) -> type[Aggregator]:
    """Return the aggregator class for the entry's type. Raises KeyError for a type that is no vote; callers check the type first."""
    aggregator: type[Aggregator] = load(AGGREGATORS[entry.type])
    return aggregator


def require_one_session(entry: Entry, path: str) -> None:
    """Raise InputError if the entry has several steps although a step is a whole session, as for confident-gnmax."""
    if aggregator_class(entry).abstains and entry.steps != 1:
        place = f'{path}: mechanism["{entry.name}"]: steps'
        raise InputError(f"{place}: expected 1, as a step is a session of `queries` queries, found {entry.steps}")


def uniforms(stream: Stream, count: int) -> Array:
    """Return `count` independent uniform draws from (0, 1], in multiples of 2^-53."""
    # The upper 53 bits of a word: as many as a float holds exactly. 1 is added, so that the logarithm of a draw is finite.
    return np.asarray(((stream.words(count) >> np.uint64(11)).astype(np.float64) + 1.0) * 2.0**-53)


def normal_noise(stream: Stream, count: int) -> Array:
    """Return `count` independent draws from N(0, 1), in double precision throughout. Source: Box & Muller 1958."""
    half = (count + 1) // 2
    radius = np.sqrt(-2.0 * np.log(uniforms(stream, half)))
    angle = 2.0 * math.pi * uniforms(stream, half)
    return np.concatenate((radius * np.cos(angle), radius * np.sin(angle)))[:count]


def laplace_noise(stream: Stream, count: int) -> Array:
    """Return `count` independent draws from the Laplace distribution of scale 1, as differences of two exponential draws."""
    return np.asarray(np.log(uniforms(stream, count)) - np.log(uniforms(stream, count)))

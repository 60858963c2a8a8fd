"""Votes of teachers on disjoint shards (PATE): the label with the most noisy votes is released, or the fact that the votes do not agree.

A teacher is a model that is trained on one shard of the private data. The types below charge what releasing the noisy counts, or noisy
largest counts, would cost, whatever the votes are. `unclaimed` drops the claim that some data attain this cost, because less
is released. `with_noise` (noise/additive.py) returns the mechanism at a sensitivity over noise.

All records of a unit of privacy are in one shard. Under any adjacency, one change therefore retrains one teacher, whose vote may move from
one label to another. One count then rises by 1 and another falls by 1, which is an L2 distance of sqrt 2. The largest count moves by at
most 1. A group of k units changes at most k teachers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar

from dpcli.base.fields import COUNT, NON_NEGATIVE, POSITIVE, Key
from dpcli.base.premise import SECRET, Premises, moves, of_mechanism
from dpcli.base.values import dataclass
from dpcli.mechanisms.combined.composed import Composed
from dpcli.mechanisms.mechanism import Mechanism
from dpcli.mechanisms.neighbours import Neighbours
from dpcli.mechanisms.noise.additive import with_noise
from dpcli.mechanisms.noise.gaussian import Gaussian
from dpcli.mechanisms.noise.laplace import Laplace
from dpcli.mechanisms.spec import CostEvidence, Spec

SENSITIVITY = math.sqrt(2.0)  # L2 sensitivity of the counts to one vote; the floating-point value is above the exact one
ROUNDED_UP = 1.0 + 1e-15  # factor above the rounding of the few operations of a sensitivity over noise


class VoteSpec(Spec):
    """Base class of the types for votes. A teacher's shard is chosen once, so no step draws a sample."""

    # What must hold for the cost, each with a test that violates it, and the commands that enforce it, if any.
    premises: ClassVar[Premises] = (
        SECRET,  # every draw is fresh, and nobody sees it
        moves("The records of a unit are in one shard, and shards are disjoint.", "pate and prompt"),
        of_mechanism("One change retrains one teacher.", "test_two_votes_that_move_cost_more_than_one", "pate and prompt"),
    )

    __slots__ = ()

    evidence: ClassVar[CostEvidence] = CostEvidence.PRICED

    @property
    def sampling_refusal(self) -> str:
        return "whose teachers are trained once, on shards that do not change"


@dataclass(frozen=True, slots=True, kw_only=True)
class GnMaxSpec(VoteSpec):
    """The label with the most votes of the teachers after Gaussian noise on each count. The noisy counts are not released.

    Teachers are trained without noise on disjoint shards of the private data, with all records of a unit of privacy in one shard. sigma is
    the standard deviation, in votes, of the noise on each count. A step is one query.

    Neighbours: all three adjacencies, with the same cost. A change retrains one teacher, whose vote may move from any label to any other.
    max_contributions has no effect. k units that change together may lie in k shards.

    Bounds: upper, those of releasing the noisy counts, a Gaussian with sensitivity sqrt 2. They hold for any votes. `dpcli pate account`
    gives bounds that depend on the votes. No finite epsilon at delta = 0.

    Source: Papernot, Song, Mironov, Raghunathan, Talwar, Erlingsson 2018, arXiv:1802.08908, Proposition 8.
    """

    example: ClassVar[Mapping[str, Any]] = {"sigma": 40.0}
    needs_delta: ClassVar[bool] = True

    sigma: Annotated[float, Key("noise standard deviation on each count, in votes", POSITIVE)]

    def resolve(self, neighbours: Neighbours) -> Mechanism:
        return with_noise(Gaussian, neighbours.group * SENSITIVITY / self.sigma * ROUNDED_UP).unclaimed()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfidentGnMaxSpec(VoteSpec):
    """Queries to teachers that are answered only if the votes agree.

    If the largest count with noise of `threshold_sigma` reaches `threshold`, the label with the most votes after noise of `sigma` is
    released. Otherwise only the fact that there is no answer is released. Teachers are trained without noise on disjoint shards of the
    private data, with all records of a unit of privacy in one shard. A step is a whole session of at most `queries` queries, of which at
    most `answers` are answered; then the session ends. In an interactive session, the largest difference between a count and the share of
    the teachers that a public model predicts may be compared instead, at the same cost.

    Neighbours: all three adjacencies, with the same cost, as for gnmax.

    Bounds: upper, those of `queries` noisy largest counts of sensitivity 1 and `answers` noisy counts of sensitivity sqrt 2. These are
    Gaussians whose order may depend on the answers, but whose number may not. No finite epsilon at delta = 0.

    Source: Papernot, Song, Mironov, Raghunathan, Talwar, Erlingsson 2018, arXiv:1802.08908, Algorithms 1 and 2. For the order: Smith &
    Thakurta 2022, arXiv:2210.17520 (fully adaptive composition of Gaussians).
    """

    example: ClassVar[Mapping[str, Any]] = {"queries": 5, "threshold": 200.0, "threshold_sigma": 150.0, "sigma": 40.0}
    needs_delta: ClassVar[bool] = True
    premises: ClassVar[Premises] = (
        *VoteSpec.premises,
        of_mechanism(
            "The session ends after the stated numbers of queries and answers.",
            "test_a_session_that_asks_on_costs_more",
            "pate and prompt",
        ),
    )

    # claim=True: dpcli does not enforce what the key states.
    queries: Annotated[int, Key("largest number of queries to the teachers, answered or not", COUNT, claim=True)]
    threshold: Annotated[float, Key("votes that the largest noisy count needs for an answer", NON_NEGATIVE)]
    threshold_sigma: Annotated[float, Key("noise standard deviation on the largest count, in votes", POSITIVE)]
    sigma: Annotated[float, Key("noise standard deviation on each count of a query that is answered, in votes", POSITIVE)]
    answers: Annotated[
        int | None, Key("largest number of queries that are answered; by default all of them", COUNT, claim=True)
    ] = None

    def problems(self) -> Iterator[tuple[str, str, str]]:
        if self.answers is not None and self.answers > self.queries:
            yield "answers", f"at most as many answers as queries, {self.queries}", str(self.answers)

    def resolve(self, neighbours: Neighbours) -> Mechanism:
        # Squares are avoided, because the square of a noise may overflow or underflow.
        comparisons = math.sqrt(self.queries) / self.threshold_sigma
        answered = math.sqrt(2.0 * (self.answers or self.queries)) / self.sigma
        return with_noise(Gaussian, neighbours.group * math.hypot(comparisons, answered) * ROUNDED_UP).unclaimed()


@dataclass(frozen=True, slots=True, kw_only=True)
class LnMaxSpec(VoteSpec):
    """The label with the most votes of the teachers after Laplace noise on each count. The noisy counts are not released.

    Teachers are trained without noise on disjoint shards of the private data, with all records of a unit of privacy in one shard. scale is
    the scale, in votes, of the noise on each count. A step is one query.

    Neighbours: all three adjacencies, with the same cost, as for gnmax.

    Bounds: upper, those of releasing the noisy counts. These are two Laplace releases of sensitivity 1, one for the count that falls and
    one for the count that rises. This is sharper than a pure epsilon of 2 / scale alone. Finite at delta = 0.

    Source: Papernot, Abadi, Erlingsson, Goodfellow, Talwar 2017, arXiv:1610.05755, section 3.1 (2 / scale for each query).
    """

    example: ClassVar[Mapping[str, Any]] = {"scale": 40.0}

    scale: Annotated[float, Key("scale of the noise on each count, in votes", POSITIVE)]

    def resolve(self, neighbours: Neighbours) -> Mechanism:
        return Composed(((with_noise(Laplace, neighbours.group / self.scale * ROUNDED_UP).unclaimed(), 2),))

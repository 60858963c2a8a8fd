"""Above threshold (the sparse vector technique): many queries, few answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from dpcli.base.fields import COUNT, OPEN_UNIT, POSITIVE, Key
from dpcli.base.premise import SECRET, Premises, moves, of_mechanism
from dpcli.base.values import dataclass
from dpcli.mechanisms.mechanism import Mechanism
from dpcli.mechanisms.stated.pure_and_approx import Pure
from dpcli.mechanisms.stated.stated import EpsilonSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class SparseVectorSpec(EpsilonSpec):
    """The queries of a stream that exceed a threshold, until `answers` of them have; the noisy values themselves are not released.

    The whole run, however many queries there are, is epsilon-DP with noise Lap(sensitivity / eps1) on the threshold and Lap(2 answers
    sensitivity / eps2) on each query, eps1 = threshold_share * epsilon, eps2 = epsilon - eps1. Noise on the threshold is drawn once.

    Neighbours: those of the statement, all three adjacencies; a group of k has k epsilon. Where a unit has several records, stated_for
    says whom epsilon covers.

    Bounds: upper, from pure epsilon alone. Finite at delta = 0.

    Source: Lyu, Su, Li 2017, arXiv:1603.01699, standard form.
    """

    example: ClassVar[Mapping[str, Any]] = {"epsilon": 0.01, "answers": 2}
    premises: ClassVar[Premises] = (
        SECRET,
        moves("No change moves a query by more than the sensitivity that was divided out.", "release"),
        of_mechanism(
            "After so many answers above the threshold nothing more is asked.",
            "test_answers_without_an_end_above_the_threshold_cost_more",
            "release",
        ),
    )

    epsilon: Annotated[float, Key("pure epsilon of one whole run, in nats", POSITIVE)]
    answers: Annotated[int, Key("how many times above the threshold end the run", COUNT)] = 1
    threshold_share: Annotated[float, Key("share of epsilon spent on the threshold's noise", OPEN_UNIT)] = 0.5

    def priced(self, epsilon: float) -> Mechanism:
        return Pure(epsilon)

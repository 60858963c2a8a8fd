"""Propose-test-release: an answer where the data are far from all that have another one, else none."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from dpcli.base.fields import OPEN_UNIT, POSITIVE, Key
from dpcli.base.premise import SECRET, Premises, moves, of_mechanism
from dpcli.mechanisms.combined.composed import Composed
from dpcli.mechanisms.combined.group import grouped
from dpcli.mechanisms.mechanism import Mechanism
from dpcli.mechanisms.neighbours import Neighbours
from dpcli.mechanisms.spec import Spec
from dpcli.mechanisms.stated.pure_and_approx import Approx
from dpcli.mechanisms.stated.stated import StatedSpec

WHOLE_DATA = "whose distance is counted over all of the data"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposeTestReleaseSpec(StatedSpec):
    """The answer f(x) where d(x) + DLap(1 / epsilon) > T, else none; d(x) counts the changes that keep x away from data of another answer.

    d is a whole number, moves by at most 1 from neighbour to neighbour, and is 0 where a neighbour's answer differs; T is the smallest
    whole number >= 0 with P(DLap(1 / epsilon) > T) <= delta. With `mechanism`, what is released after the test is that entry, charged
    here: noise for answers that differ by at most its sensitivity, and d is 0 where a neighbour's differs by more.

    Neighbours with different answers both have d = 0: they release with probability at most delta. Those of one answer differ by a test on
    d, which is epsilon. k units that change at once: k epsilon, and e^{(k-1) epsilon} delta, since d < k where their answers differ.

    Neighbours: all three adjacencies, those by which the changes of d are counted. Where a unit has several records, stated_for says
    whom epsilon and delta cover.

    Bounds: upper, of the pair (epsilon, delta) alone, and of what follows the test. No finite epsilon below delta.

    Source: Dwork & Lei 2009, Differential privacy and robust statistics; Vadhan 2017, The complexity of differential privacy, section 3.
    """

    example: ClassVar[Mapping[str, Any]] = {"epsilon": 0.01, "delta": 1e-10}
    needs_delta: ClassVar[bool] = True
    premises: ClassVar[Premises] = (
        SECRET,
        moves("The distance moves by at most 1 from neighbour to neighbour.", "release"),
        of_mechanism(
            "The distance is 0 where a neighbour has another answer.",
            "test_a_distance_that_is_one_too_large_releases_too_often",
            "release",
        ),
    )

    epsilon: Annotated[float, Key("epsilon of the test, in nats: the noise on the distance has scale 1 / epsilon", POSITIVE)]
    delta: Annotated[float, Key("largest probability to pass the test where a neighbour's answer differs", OPEN_UNIT)]
    mechanism: Annotated[str | None, Key("name of the entry that is released after the test; absent for the answer itself")] = None

    @property
    def delta_spent(self) -> float:
        return self.delta

    @property
    def unsampled(self) -> str:
        return WHOLE_DATA

    def part_path(self, position: int) -> tuple[str | int, ...]:
        return ("mechanism",)

    def bind(self, lookup: Callable[[str], tuple[Spec, int]]) -> Spec:
        return self if self.mechanism is None else TestedRelease(self, *lookup(self.mechanism))

    def resolve(self, neighbours: Neighbours) -> Mechanism:
        return test_of(self.epsilon, self.delta, self.changes(neighbours))


@dataclass(frozen=True, slots=True)
class TestedRelease(Spec):
    """A test, and the entry that is released after it.

    Where d says that the answers of two neighbours are close, both are the test and the release; where it does not, they release with
    probability delta. The pair of (epsilon, delta), beside that of the release, dominates both.
    """

    test: ProposeTestReleaseSpec
    release: Spec
    count: int

    @property
    def unsampled(self) -> str:
        return WHOLE_DATA

    def resolve(self, neighbours: Neighbours) -> Mechanism:
        return Composed(((self.test.resolve(neighbours), 1), (self.release.resolve(neighbours).unclaimed(), self.count)))


def test_of(epsilon: float, delta: float, changes: int) -> Mechanism:
    """The test for some changes at once."""
    log_delta = math.log(delta) + (changes - 1) * epsilon
    if log_delta >= 0.0:
        return grouped(Approx(epsilon, delta).unclaimed(), changes)
    moved = delta if changes == 1 else math.exp(log_delta) * (1.0 + 1e-12)
    return Approx(changes * epsilon, moved).unclaimed() if moved < 1.0 else grouped(Approx(epsilon, delta).unclaimed(), changes)

"""Bugs that any mechanism could have, planted where a pipeline is resolved, so that no mechanism need be named."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from dpcli.base.errors import NotRepresentable
from dpcli.file.pipeline.model import Pipeline
from dpcli.file.pipeline.resolve import BillLine
from dpcli.mechanisms.mechanism import Dominated, Mechanism, PrivacyLoss
from dpcli.mechanisms.neighbours import Adjacency
from dpcli.numerics.arrays import Array
from dpcli.numerics.contour.tilted import Tilted
from dpcli.numerics.tails import Tails

Resolve = Callable[..., tuple[BillLine, ...]]


@dataclass(frozen=True, slots=True)
class Shrunk:
    """A loss of which everybody is told `share`."""

    inner: PrivacyLoss
    share: float

    def cgf(self, z: Array) -> Array:
        return self.inner.cgf(self.share * z)

    def tilted(self, t: float) -> Tilted:
        raise NotRepresentable("planted")

    def tails(self, at: Array) -> Tails:
        return self.inner.tails(at / self.share)


@dataclass(frozen=True, slots=True)
class Scaled(Mechanism):
    """Every number is `share` of what it should be."""

    inner: Mechanism
    share: float

    def approx_dp(self, delta: float) -> float:
        return self.share * self.inner.approx_dp(delta)

    def delta_floor(self) -> float:
        return self.inner.delta_floor()

    def zcdp(self) -> float:
        return self.share**2 * self.inner.zcdp()

    def gdp(self) -> float:
        return self.share * self.inner.gdp()

    def losses(self) -> tuple[PrivacyLoss, ...]:
        return tuple(Shrunk(loss, self.share) for loss in self.inner.losses())

    def attained(self) -> bool:
        return self.inner.attained()

    def rdp(self, orders: Array) -> Array:
        return self.share * self.inner.rdp(orders)


@dataclass(frozen=True, slots=True)
class Claiming(Dominated):
    """The same numbers, and the claim that they are attained."""

    def attained(self) -> bool:
        return True


def epsilon_over_ten(resolve: Resolve) -> Resolve:
    return lambda *asked: tuple(replace(charge, mechanism=Scaled(charge.mechanism, 0.1)) for charge in resolve(*asked))


def count_ignored(resolve: Resolve) -> Resolve:
    return lambda *asked: tuple(replace(charge, count=1) for charge in resolve(*asked))


def adjacency_ignored(resolve: Resolve) -> Resolve:
    def found(pipeline: Pipeline, *asked: int) -> tuple[BillLine, ...]:
        return resolve(replace(pipeline, privacy=replace(pipeline.privacy, adjacency=Adjacency.ADD_REMOVE)), *asked)

    return found


def lower_bound_claimed(resolve: Resolve) -> Resolve:
    return lambda *asked: tuple(replace(charge, mechanism=Claiming(charge.mechanism)) for charge in resolve(*asked))


PLANTS: dict[str, Callable[[Resolve], Resolve]] = {
    "epsilon divided by ten": epsilon_over_ten,
    "count ignored": count_ignored,
    "adjacency ignored": adjacency_ignored,
    "lower bound claimed": lower_bound_claimed,
}

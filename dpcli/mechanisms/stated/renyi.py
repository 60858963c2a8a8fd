"""Guarantees as stated by somebody else: rho-zCDP, and a Renyi curve."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar

from dpcli.base.fields import NON_NEGATIVE, Key
from dpcli.base.values import dataclass
from dpcli.mechanisms.mechanism import Mechanism
from dpcli.mechanisms.noise.gaussian import Gaussian
from dpcli.mechanisms.noise.no_privacy import LARGEST_RATIO, SMALLEST_RATIO
from dpcli.mechanisms.stated.stated import GivenSpec
from dpcli.numerics.arrays import Array, np
from dpcli.numerics.closed.conversion import balle, zcdp_epsilon
from dpcli.numerics.work import spend


@dataclass(frozen=True, slots=True)
class Zcdp(Mechanism):
    """rho-zCDP and nothing more is known: D_a <= rho a. Source: Bun & Steinke 2016, arXiv:1605.02065, Definition 1.1."""

    rho: float

    def approx_dp(self, delta: float) -> float:
        return zcdp_epsilon(self.rho, delta) if delta > 0.0 else math.inf

    def zcdp(self) -> float:
        return self.rho

    def rdp(self, orders: Array) -> Array:
        return self.rho * orders


@dataclass(frozen=True, slots=True)
class StatedZcdp(Zcdp):
    """rho-zCDP by statement, which allows a Gaussian of that rho: what can be proven from the statement, for whoever knows no more."""

    def witness(self, order: float) -> Mechanism | None:
        return _gaussian(self.rho)


@dataclass(frozen=True, slots=True)
class Renyi(Mechanism):
    """A Renyi curve known at some orders. (a-1) D_a is convex and 0 at a = 1, so its chords bound the orders between; inf beyond."""

    orders: tuple[float, ...]
    values: tuple[float, ...]

    def approx_dp(self, delta: float) -> float:
        if delta <= 0.0:
            return math.inf
        spend(len(self.orders))
        orders = np.array(self.orders)
        return float(np.min(balle(orders, np.array(self.values), math.log(delta))))

    def rdp(self, orders: Array) -> Array:
        z = np.array(self.orders) - 1.0
        with np.errstate(over="ignore"):
            moments = np.append(0.0, z * np.array(self.values))
        chords = np.interp(orders - 1.0, np.append(0.0, z), moments, right=np.inf)
        return np.asarray(chords / (orders - 1.0))

    def witness(self, order: float) -> Mechanism | None:
        """As of `StatedZcdp`: the Gaussian whose divergences are within all that are stated."""
        rho = min(value / at for at, value in zip(self.orders, self.values, strict=True)) * (1.0 - 1e-15)
        return _gaussian(rho)


def _gaussian(rho: float) -> Mechanism | None:
    """D_a = rho a; None where rho is no noise that is worth computing with."""
    mu = math.sqrt(2.0 * rho) * (1.0 - 1e-15)
    return Gaussian(mu) if SMALLEST_RATIO < mu < LARGEST_RATIO else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ZcdpSpec(GivenSpec):
    """Whatever somebody states to be rho-zCDP: Renyi divergences of at most rho times the order, in nats; nothing else is known.

    Neighbours: those of the statement: the file's adjacency, unless the entry states its own, which is converted or refused. Groups follow
    the group theorem. Where a unit has several records, stated_for says whom the statement covers.

    Bounds: upper; `account` shows a lower bound, which a Gaussian that the statement allows attains. No finite epsilon at delta = 0.

    Source: of the number, whoever states it; Bun & Steinke 2016, arXiv:1605.02065; conversion Canonne, Kamath, Steinke 2020,
    arXiv:2004.00010.
    """

    example: ClassVar[Mapping[str, Any]] = {"rho": 0.0001}
    needs_delta: ClassVar[bool] = True

    rho: Annotated[float, Key("stated rho, in nats", NON_NEGATIVE)]

    def stated(self) -> Mechanism:
        return StatedZcdp(self.rho)


@dataclass(frozen=True, slots=True, kw_only=True)
class RdpSpec(GivenSpec):
    """Whatever somebody states to have these Renyi divergences (values, in nats) at these orders; nothing else is known.

    Between two orders a chord of (order - 1) times the divergence bounds it, which is convex; beyond the largest order nothing is known,
    and accountants use no order there.

    Neighbours: those of the statement: the file's adjacency, unless the entry states its own, which is converted or refused. Groups follow
    the group theorem. Where a unit has several records, stated_for says whom the statement covers.

    Bounds: upper; `account` shows a lower bound, which a Gaussian that the statement allows attains. No finite epsilon at delta = 0.

    Source: of the numbers, whoever states them; Mironov 2017, arXiv:1702.07476.
    """

    example: ClassVar[Mapping[str, Any]] = {"orders": [2.0, 64.0], "values": [0.001, 0.01]}
    needs_delta: ClassVar[bool] = True

    orders: Annotated[tuple[float, ...], Key("Renyi orders, increasing, each > 1")]
    values: Annotated[tuple[float, ...], Key("stated Renyi divergence at each order, in nats", NON_NEGATIVE)]

    def problems(self) -> Iterator[tuple[str, str, str]]:
        if not self.orders or min(self.orders) <= 1.0 or list(self.orders) != sorted(set(self.orders)):
            yield "orders", "increasing numbers > 1", str(list(self.orders))
        if len(self.orders) != len(self.values):
            yield "values", f"one value for each of {len(self.orders)} orders", str(len(self.values))

    def stated(self) -> Mechanism:
        return Renyi(self.orders, self.values)

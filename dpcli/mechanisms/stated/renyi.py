"""Stated guarantees: rho-zCDP or a Renyi curve; and a dominating pair of what is known by its Renyi curve alone."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from dpcli.base.errors import NotRepresentable
from dpcli.base.fields import NON_NEGATIVE, Key
from dpcli.base.values import dataclass
from dpcli.mechanisms.mechanism import Mechanism, TailsOnly
from dpcli.mechanisms.noise.additive import LARGEST_RATIO, SMALLEST_RATIO
from dpcli.mechanisms.noise.gaussian import Gaussian
from dpcli.mechanisms.stated.stated_spec import GivenSpec
from dpcli.numerics.arrays import Array, np
from dpcli.numerics.closed.conversion import balle, zcdp_epsilon
from dpcli.numerics.grid.hockey_stick import FURTHEST, ChordPair, symmetric_pair
from dpcli.numerics.tails import Tails
from dpcli.numerics.work import shared, spend

if TYPE_CHECKING:
    pass

POINTS = 2048  # points of the grid of losses
OCTAVES = (-20, 20)  # The search covers orders with order - 1 from 2^-20 to 2^20.
COARSE, FINE = 2, 16  # orders in an octave, in the search over all octaves and near the minimum
LOG_LEAST = -180.0  # logarithm of the height at the last point, where it counts as mass at +inf
HALVINGS = 60  # steps of a bisection
UNDERFLOWN = 1e-300  # least value of a sum; a smaller one may be the result of underflow
UNKNOWN = "a Renyi curve allows infinite losses, so that its worst pair has no CGF"


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
        """Return the Gaussian whose divergences are within all that are stated."""
        rho = min(value / at for at, value in zip(self.orders, self.values, strict=True)) * (1.0 - 1e-15)
        return _gaussian(rho)


def _gaussian(rho: float) -> Mechanism | None:
    """D_a = rho a; None if rho is no noise that is worth computing with."""
    mu = math.sqrt(2.0 * rho) * (1.0 - 1e-15)
    return Gaussian(mu) if SMALLEST_RATIO < mu < LARGEST_RATIO else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ZcdpSpec(GivenSpec):
    """Whatever somebody states to be rho-zCDP: Renyi divergences of at most rho times the order, in nats; nothing else is known.

    Neighbours: those of the statement: the file's adjacency, unless the entry states its own, which is converted or refused. Groups follow
    the group theorem. If a unit has several records, stated_for says whom the statement covers.

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
    the group theorem. If a unit has several records, stated_for says whom the statement covers.

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


@dataclass(frozen=True, slots=True)
class RenyiPairLoss(TailsOnly):
    """The pair of the least curve that follows from Renyi divergences: those of `parts`, each so many times, added up.

    They add up in adaptive compositions (Mironov 2017, arXiv:1702.07476, Proposition 1), and at every order bound the hockey-stick
    divergence at every x >= 0 (Balle et al. 2020, arXiv:1905.09982, Theorem 21), both ways round. The least of these bounds need not be
    convex in e^x; the divergence is, so that it lies below the convex hull, which is the curve of a pair (grid/hockey_stick.py). That
    pair dominates all of `parts` together, whatever runs between them and however each is chosen from the outputs before it: they are one
    interactive mechanism with these Renyi divergences, run concurrently with others (Vadhan, Zhang 2022, arXiv:2207.08335).
    """

    reason: ClassVar[str] = UNKNOWN

    parts: tuple[tuple[Mechanism, int], ...]

    def tails(self, at: Array) -> Tails:
        return _pair(self).tails(at)

    def curve(self, orders: Array) -> Array:
        with np.errstate(all="ignore"):
            total = sum((count * np.asarray(mechanism.rdp(orders)) for mechanism, count in self.parts), np.zeros(len(orders)))
        return np.where(np.isnan(total), np.inf, np.maximum(total * (1.0 + 1e-15 * (2 + len(self.parts))), UNDERFLOWN))


@shared(16)
def _pair(loss: RenyiPairLoss) -> ChordPair:
    """The atoms, remembered. Raises NotRepresentable if no order says anything."""
    orders = _orders(loss)
    divergences = loss.curve(orders)
    reach = float(np.min(divergences + np.log1p(-1.0 / orders) - (LOG_LEAST + np.log(orders)) / (orders - 1.0)))
    x: Array = min(reach, FURTHEST) / POINTS * np.arange(POINTS + 1, dtype=float)
    return symmetric_pair(float(x[1]), np.exp(renyi_log_heights(loss, x)))


def renyi_log_heights(loss: RenyiPairLoss, x: Array) -> Array:
    """Upper bounds on log delta at increasing x >= 0. Raises NotRepresentable if no order says anything."""
    orders = _orders(loss)
    divergences = loss.curve(orders)
    most = np.minimum(_by_variance(float(loss.curve(np.array([2.0]))[0]), x), _total_variation(float(divergences.min())))
    best = _log_heights(orders, divergences, x[:: max(len(x) // 64, 1)]).argmin(axis=0)
    first, last = max(int(best.min()) - 1, 0), min(int(best.max()) + 1, len(orders) - 1)
    low, high = math.floor(math.log2(orders[first] - 1.0)), math.ceil(math.log2(orders[last] - 1.0))
    orders = np.append(_grid(low, max(high, low + 1), FINE), orders[last])
    result = _log_heights(orders, loss.curve(orders), x).min(axis=0)
    with np.errstate(divide="ignore"):
        return np.asarray(np.minimum(np.minimum(result, np.log(most)), 0.0) + 1e-12)


def _log_heights(orders: Array, divergences: Array, x: Array) -> Array:
    """Return the bound of each order at each x: `balle_delta` for all of them."""
    spend(0.5 * len(x) * len(orders))
    z = orders[:, None] - 1.0
    return z * (divergences[:, None] - x + np.log1p(-1.0 / orders)[:, None]) - np.log(orders)[:, None]


def _by_variance(divergence: float, x: Array) -> Array:
    """The order 2 is the variance V of r = dP/dQ under Q: E_Q[(r - s)+] is at most (sqrt(V + (s - 1)^2) - (s - 1)) / 2 (Scarf 1958)."""
    variance, beyond = math.expm1(min(divergence, 600.0)), np.expm1(x)
    return np.asarray(0.5 * variance / (np.sqrt(variance + beyond * beyond) + beyond)) if divergence < 600.0 else np.ones_like(x)


def _total_variation(divergence: float) -> float:
    """Return a bound from the Kullback-Leibler divergence: Pinsker's inequality, and that of Bretagnolle and Huber (1979)."""
    return min(math.sqrt(0.5 * divergence), math.sqrt(-math.expm1(-divergence)), 1.0)


def _orders(loss: RenyiPairLoss) -> Array:
    """Return orders at which the curve is finite. They include the largest such order, to its last digits, as it gives the most."""
    orders = _grid(*OCTAVES, COARSE)
    finite = np.isfinite(loss.curve(orders))
    if not finite.any():
        raise NotRepresentable("the Renyi divergence is infinite at every order")
    if finite.all():
        return orders
    last = int(np.flatnonzero(finite)[-1])
    low, high = float(orders[last]), float(orders[min(last + 1, len(orders) - 1)])
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if np.isfinite(loss.curve(np.array([middle]))[0]) else (low, middle)
    return np.append(orders[finite], low)


def _grid(low: int, high: int, number: int) -> Array:
    """Orders 1 + z, so many in each octave of z from 2^low to 2^high: exactly twice as far above 1 again and again, so that curves which
    look at such orders too remember them."""
    mantissas = np.round(2.0 ** (np.arange(number) / number) * 2.0**20) / 2.0**20
    return np.asarray(1.0 + (2.0 ** np.arange(low, high)[:, None] * mantissas).ravel())

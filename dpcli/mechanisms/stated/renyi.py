"""Stated rho-zCDP and stated Renyi curves, and a dominating pair for mechanisms of which only a Renyi curve is known.

The Renyi divergence D_a of order a > 1 bounds a moment of the privacy loss; rho-zCDP means D_a <= rho a at every order. Somebody states
these numbers, and dpcli trusts them and nothing more: between two stated orders it uses the chord, and beyond the largest none.
`RenyiPairLoss` turns a Renyi curve into a pair (P, Q) of distributions that accountants of privacy losses can compose; its steps 1 to 4 are
the proof. accountants/directions.py uses it for a step that has a Renyi curve and no pair, and the private selection for its runs
(choice/selection_profile.py). A *height* is the value of the pair's curve at some x, an upper bound on delta at epsilon = x, rounded up.

A lower bound comes from a release that the statement allows, such as a Gaussian (`witness`).

A mechanism has upper bounds on its cost (mechanism.py): `approx_dp` returns epsilon at a delta, `zcdp` rho, and `rdp` Renyi divergences.
`witness` returns a mechanism that the keys allow, whose cost is a lower bound. Of a loss L, `tails` returns log tail probabilities under P
and Q. `stated` returns the mechanism as the keys state it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar

from dpcli.base.errors import NotRepresentable
from dpcli.base.fields import NON_NEGATIVE, OPEN_UNIT, Key
from dpcli.base.stated import total  # exact for stated decimals, rounded up once
from dpcli.base.values import dataclass
from dpcli.mechanisms.combined.composed import Composed
from dpcli.mechanisms.mechanism import Mechanism, TailsOnly
from dpcli.mechanisms.noise.additive import LARGEST_RATIO, SMALLEST_RATIO  # limits of sensitivity over noise
from dpcli.mechanisms.noise.gaussian import Gaussian
from dpcli.mechanisms.stated.pure_and_approx import StatedPure, approx
from dpcli.mechanisms.stated.stated_spec import GivenSpec
from dpcli.numerics.arrays import Array, np
from dpcli.numerics.closed.conversion import balle, zcdp_epsilon
from dpcli.numerics.grid.hockey_stick import FURTHEST, ChordPair, symmetric_pair  # FURTHEST: the largest loss on a grid
from dpcli.numerics.tails import Tails
from dpcli.numerics.work import shared, spend  # a cache; spend counts work, which is limited

# Accuracy and speed: every order and every grid of losses gives an upper bound.
POINTS = 2048  # points of the grid of losses
OCTAVES = (-20, 20)  # the search covers orders with order - 1 from 2^-20 to 2^20
COARSE, FINE = 2, 16  # orders in an octave, in the search over all octaves and near the minimum
LOG_LEAST = -180.0  # logarithm of the height at the last point, where it counts as mass at +inf
OCTAVES_OF_COPIES, FINE_OF_COPIES = (-4, 14), 8  # octaves, and orders in an octave, for several runs of one mechanism
HALVINGS = 60  # steps of the bisection for the largest order with a finite divergence
LEAST_SUM = 1e-300  # soundness: least value of a sum; a smaller one may be the result of underflow
NO_CGF = "a Renyi curve allows infinite losses, so that its worst pair has no CGF"


@dataclass(frozen=True, slots=True)
class Zcdp(Mechanism):
    """A mechanism of which only (xi, rho)-zCDP is known: D_a <= xi + rho a (Bun & Steinke 2016, arXiv:1605.02065, Definition 1.1).

    xi is the same at every order, so it is added to every epsilon that follows from rho alone. As a > 1, xi + rho a <= (xi + rho) a.
    """

    rho: float
    xi: float = 0.0

    def approx_dp(self, delta: float) -> float:
        return total(((1, self.xi), (1, zcdp_epsilon(self.rho, delta)))) if delta > 0.0 else math.inf

    def zcdp(self) -> float:
        return total(((1, self.xi), (1, self.rho)))

    def zcdp_parts(self) -> tuple[float, float]:
        return self.xi, self.rho

    def rdp(self, orders: Array) -> Array:
        return self.xi + self.rho * orders


@dataclass(frozen=True, slots=True)
class StatedZcdp(Zcdp):
    """(xi, rho)-zCDP as somebody states it. The statement allows a Gaussian with this rho together with randomised response of epsilon xi,
    whose cost is a lower bound on any provable epsilon."""

    def witness(self, order: float) -> Mechanism | None:
        gaussian = _gaussian(self.rho)
        return Composed(((gaussian, 1), (StatedPure(self.xi), 1))) if gaussian and self.xi > 0.0 else gaussian


@dataclass(frozen=True, slots=True)
class Renyi(Mechanism):
    """A mechanism of which only Renyi divergences at some orders are known.

    (a-1) D_a is convex, and 0 at a = 1. So its chords are bounds between the orders. Beyond the largest order the bound is inf.
    """

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
        """Return a Gaussian whose divergences are at most the stated ones; None if `_gaussian` has none for this rho."""
        rho = min(value / stated_order for stated_order, value in zip(self.orders, self.values, strict=True)) * (1.0 - 1e-15)
        return _gaussian(rho)


def _gaussian(rho: float) -> Mechanism | None:
    """Return the Gaussian with D_a = rho a, or None if its sensitivity over noise is too small or too large to compute with."""
    mu = math.sqrt(2.0 * rho) * (1.0 - 1e-15)
    return Gaussian(mu) if SMALLEST_RATIO < mu < LARGEST_RATIO else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ZcdpSpec(GivenSpec):
    """A release that somebody states to be rho-zCDP: its Renyi divergences, in nats, are at most rho times the order. Nothing else is
    known.

    With xi, they are at most xi plus rho times the order, which is (xi, rho)-zCDP. With delta, this is delta-approximate zCDP: for any two
    neighbours there are an event for each, of probability at least 1 - delta, and the bound holds for the two outputs given these events,
    in both directions. Each output is then a mixture, with weight 1 - delta of an output for which the bound holds, and with weight delta
    of anything. So the release costs no more than one that reveals everything with probability delta, and is zCDP otherwise.

    Neighbours: the statement is for the file's adjacency unless the entry states another one. Another adjacency is converted, or refused if
    it cannot be. The group theorem gives the cost of a group. If a unit has several records, stated_for says whether the statement is for
    one record or for the unit.

    Bounds: upper. `account` shows a lower bound, which a Gaussian that the statement allows attains, together with randomised response of
    epsilon xi, and with revealing everything with probability delta. No finite epsilon at delta = 0, or below the stated delta.

    Source: the numbers are the author's. Bun & Steinke 2016, arXiv:1605.02065 (Definition 1.1, and section 8 for delta); conversion
    Canonne, Kamath, Steinke 2020, arXiv:2004.00010.
    """

    example: ClassVar[Mapping[str, Any]] = {"rho": 0.0001}
    needs_delta: ClassVar[bool] = True

    rho: Annotated[float, Key("stated rho, in nats", NON_NEGATIVE)]
    xi: Annotated[float, Key("stated xi, in nats, which is added to rho times the order at every order", NON_NEGATIVE)] = 0.0
    delta: Annotated[float | None, Key("stated delta of delta-approximate zCDP; by default there is none", OPEN_UNIT)] = None

    @property
    def delta_spent(self) -> float:
        return self.delta or 0.0

    def stated(self) -> Mechanism:
        zcdp = StatedZcdp(self.rho, self.xi)
        return Composed(((zcdp, 1), (approx(0.0, self.delta), 1))) if self.delta else zcdp


@dataclass(frozen=True, slots=True, kw_only=True)
class RdpSpec(GivenSpec):
    """A release that somebody states to have these Renyi divergences (values, in nats) at these orders. Nothing else is known.

    (order - 1) times the divergence is convex, so between two orders its chord is a bound. Beyond the largest order nothing is known, and
    accountants use no order there.

    Neighbours: the statement is for the file's adjacency unless the entry states another one. Another adjacency is converted, or refused if
    it cannot be. The group theorem gives the cost of a group. If a unit has several records, stated_for says whether the statement is for
    one record or for the unit.

    Bounds: upper. `account` shows a lower bound, which a Gaussian that the statement allows attains. No finite epsilon at delta = 0.

    Source: the numbers are the author's. Mironov 2017, arXiv:1702.07476.
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
    """The loss of the best pair that follows from the Renyi divergences of `parts`, each with a count.

    1. The divergences add up in adaptive compositions (Mironov 2017, arXiv:1702.07476, Proposition 1).
    2. At every order they bound the hockey-stick divergence at every x >= 0, in both directions (Balle et al. 2020, arXiv:1905.09982,
       Theorem 21).
    3. The least of these bounds need not be convex in e^x. The divergence is convex, so it lies below the convex hull of the bounds, which
       is the curve of a pair (grid/hockey_stick.py).
    4. This pair dominates all of `parts` together, whatever runs between them, and however each part is chosen from earlier outputs. The
       reason is that the parts are one interactive mechanism with these divergences, which runs concurrently with others (Vadhan, Zhang
       2022, arXiv:2207.08335).
    """

    reason: ClassVar[str] = NO_CGF

    parts: tuple[tuple[Mechanism, int], ...]

    def tails(self, at: Array) -> Tails:
        return _pair(self).tails(at)

    def curve(self, orders: Array) -> Array:
        """Return upper bounds on the sum of the parts' Renyi divergences at `orders`; inf if there is none."""
        with np.errstate(all="ignore"):
            total = sum((count * np.asarray(mechanism.rdp(orders)) for mechanism, count in self.parts), np.zeros(len(orders)))
        return np.where(np.isnan(total), np.inf, np.maximum(total * (1.0 + 1e-15 * (2 + len(self.parts))), LEAST_SUM))


@shared(16)
def _pair(loss: RenyiPairLoss) -> ChordPair:
    """Return the pair, cached. Raises NotRepresentable if the divergence is infinite at every order."""
    orders = _orders(loss)
    divergences = loss.curve(orders)
    # The least epsilon at delta = e^LOG_LEAST, by the formula of `balle`, where the grid ends.
    reach = float(np.min(divergences + np.log1p(-1.0 / orders) - (LOG_LEAST + np.log(orders)) / (orders - 1.0)))
    x: Array = min(reach, FURTHEST) / POINTS * np.arange(POINTS + 1, dtype=float)
    return symmetric_pair(float(x[1]), np.exp(renyi_log_heights(loss, x)))


def renyi_log_heights(loss: RenyiPairLoss, x: Array) -> Array:
    """Return upper bounds on log delta at increasing x >= 0. Raises NotRepresentable if the divergence is infinite at every order."""
    orders = _orders(loss)
    divergences = loss.curve(orders)
    other_bounds = np.minimum(_by_variance(float(loss.curve(np.array([2.0]))[0]), x), _total_variation(float(divergences.min())))
    best = _log_heights(orders, divergences, x[:: max(len(x) // 64, 1)]).argmin(axis=0)  # indices of orders, at about 64 of the x
    # The fine grid reaches from the order below the best ones to the order above them.
    order_below, order_above = orders[max(int(best.min()) - 1, 0)], orders[min(int(best.max()) + 1, len(orders) - 1)]
    low, high = math.floor(math.log2(order_below - 1.0)), math.ceil(math.log2(order_above - 1.0))
    orders = np.append(_grid(low, max(high, low + 1), FINE), order_above)
    result = _log_heights(orders, loss.curve(orders), x).min(axis=0)
    with np.errstate(divide="ignore"):
        return np.asarray(np.minimum(np.minimum(result, np.log(other_bounds)), 0.0) + 1e-12)  # 1e-12 is for rounding


def log_heights_of_copies(mechanism: Mechanism, counts: list[int], x: Array) -> Iterator[Array]:
    """Yield, for each count, upper bounds on log delta at x >= 0 of this many runs of a mechanism.

    Raises NotRepresentable if the mechanism has no Renyi curve.
    """
    loss = RenyiPairLoss(((mechanism, 1),))
    orders = _grid(*OCTAVES_OF_COPIES, FINE_OF_COPIES)
    divergences, of_order_two = loss.curve(orders), float(loss.curve(np.array([2.0]))[0])
    for count in counts:
        other_bounds = np.minimum(_by_variance(count * of_order_two, x), _total_variation(count * float(divergences.min())))
        with np.errstate(divide="ignore"):
            yield np.minimum(_log_heights(orders, count * divergences, x).min(axis=0), np.log(other_bounds)) + 1e-12


def _log_heights(orders: Array, divergences: Array, x: Array) -> Array:
    """Return the bound of each order at each x, by the formula of `balle_delta`, as an array of shape (orders, x)."""
    spend(0.5 * len(x) * len(orders))
    z = orders[:, None] - 1.0
    return z * (divergences[:, None] - x + np.log1p(-1.0 / orders)[:, None]) - np.log(orders)[:, None]


def _by_variance(divergence: float, x: Array) -> Array:
    """Return bounds on delta at x from the divergence of order 2, which gives the variance V of r = dP/dQ under Q.

    With s = e^x, E_Q[(r - s)+] is at most (sqrt(V + (s - 1)^2) - (s - 1)) / 2 (Scarf 1958).
    """
    if divergence >= 600.0:  # V is near overflow
        return np.ones_like(x)
    variance, excess = math.expm1(divergence), np.expm1(x)
    return np.asarray(0.5 * variance / (np.sqrt(variance + excess * excess) + excess))


def _total_variation(divergence: float) -> float:
    """Return a bound on the total variation distance from the Kullback-Leibler divergence.

    It is the smaller of the bounds of Pinsker's inequality and of the inequality of Bretagnolle and Huber (1979), and at most 1.
    """
    return min(math.sqrt(0.5 * divergence), math.sqrt(-math.expm1(-divergence)), 1.0)


def _orders(loss: RenyiPairLoss) -> Array:
    """Return orders at which the curve is finite. They include the largest such order to all digits: it gives the best bound."""
    orders = _grid(*OCTAVES, COARSE)
    finite = np.isfinite(loss.curve(orders))
    if not finite.any():
        raise NotRepresentable("the Renyi divergence is infinite at every order")
    if finite.all():
        return orders
    last_finite = int(np.flatnonzero(finite)[-1])
    low, high = float(orders[last_finite]), float(orders[min(last_finite + 1, len(orders) - 1)])
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if np.isfinite(loss.curve(np.array([middle]))[0]) else (low, middle)
    return np.append(orders[finite], low)


def _grid(low: int, high: int, per_octave: int) -> Array:
    """Return orders 1 + z, with `per_octave` orders in each octave of z from 2^low to 2^high.

    The z of one octave are exactly twice those of the octave before, so that curves that evaluate doubled orders find them in their caches.
    """
    mantissas = np.round(2.0 ** (np.arange(per_octave) / per_octave) * 2.0**20) / 2.0**20  # few digits, so that 1 + z is exact
    return np.asarray(1.0 + (2.0 ** np.arange(low, high)[:, None] * mantissas).ravel())

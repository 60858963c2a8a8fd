"""The published projection: as much of a model as keeps the Renyi divergence of one order, both ways, within a radius. Not a DP guarantee.

A divergence that is bounded at one order says nothing of the others, which the published proof would need.
Source: Flemings, Razaviyayn, Annavaram 2024, arXiv:2403.15638, Section 4 and Algorithm 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from dpcli.base.errors import InputError
from dpcli.numerics.arrays import Array, np

CLOSE = 1e-13  # of a share
ROUNDS = 200


@dataclass(frozen=True, slots=True)
class RenyiBall:
    """Mixtures of a model with a public one, whose Renyi divergences of `order` to and from the public one are at most `radius`."""

    public: Array
    inverse: Array
    order: float
    radius: float
    everywhere: bool  # whether no public probability is 0

    def share(self, private: Array) -> float:
        """The largest share of a model, between 0 and 1; 0 for what is no probabilities."""
        ratios = np.multiply(private, self.inverse)
        scratch = np.empty_like(ratios)
        second = float(np.dot(private, ratios))
        if not math.isfinite(second):
            return 0.0
        forward = (
            self._cubic(private, ratios, scratch, second) if self.order == 3.0 else self._search(ratios, scratch, self.order, 1.0)
        )
        if self._divergence(ratios, scratch, 1.0 - self.order, forward) <= self.radius:
            return forward
        return self._search(ratios, scratch, 1.0 - self.order, forward)

    def mixed(self, private: Array) -> Array:
        """The mixture with that share."""
        share = self.share(private)
        return share * private + (1.0 - share) * self.public

    def _cubic(self, private: Array, ratios: Array, scratch: Array, second: float) -> float:
        """At order 3 it is log(1 + 3 share^2 v + share^3 w) / 2, v and w the second and third moments of x - 1 under the public model."""
        np.multiply(private, ratios, out=scratch)
        third, level = float(np.dot(scratch, ratios)), math.expm1(2.0 * self.radius)
        v, w = second - 1.0, third - 3.0 * second + 2.0
        return _largest(lambda share: share * share * (3.0 * v + share * w) - level, 1.0)

    def _search(self, ratios: Array, scratch: Array, power: float, most: float) -> float:
        return _largest(lambda share: self._divergence(ratios, scratch, power, share) - self.radius, most)

    def _divergence(self, ratios: Array, scratch: Array, power: float, share: float) -> float:
        """log E (1 + share (x - 1))^power / (order - 1) under the public model."""
        np.multiply(ratios, share, out=scratch)
        np.add(scratch, 1.0 - share, out=scratch)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            if power == -2.0:  # order 3, the other way: faster than a power
                np.multiply(scratch, scratch, out=scratch)
                np.divide(self.public, scratch, out=scratch)
            else:
                np.power(scratch, power, out=scratch)
                np.multiply(self.public, scratch, out=scratch)
        total = float(scratch.sum() if self.everywhere else scratch.sum(where=self.public > 0.0))
        return math.log(total) / (self.order - 1.0) if total > 0.0 else -math.inf


def renyi_ball(public: Array, order: float, radius: float) -> RenyiBall:
    """The ball around a public model's probabilities, (vocabulary,). Raises InputError for an order at most 1 or a radius below 0."""
    if not order > 1.0 or not radius >= 0.0:
        raise InputError(f"expected an order > 1 and a radius >= 0, found {order!r} and {radius!r}")
    with np.errstate(divide="ignore"):
        return RenyiBall(public, np.where(public > 0.0, 1.0 / public, 0.0), order, radius, bool((public > 0.0).all()))


def _largest(excess: Callable[[float], float], most: float) -> float:
    """The largest share up to `most` at which an increasing excess is at most 0: false position (Illinois), kept in a bracket."""
    low, high, below, above = 0.0, most, excess(0.0), excess(most)
    if above <= 0.0:
        return most
    if below >= 0.0:
        return 0.0
    side = 0
    for round_ in range(ROUNDS):
        at = high - above * (high - low) / (above - below) if math.isfinite(above) and round_ % 6 < 5 else 0.5 * (low + high)
        if not low < at < high:
            break
        value = excess(at)
        if value <= 0.0:
            low, below = at, value
            above = above / 2.0 if side < 0 else above
            side = -1
        else:
            high, above = at, value
            below = below / 2.0 if side > 0 else below
            side = 1
        if high - low <= CLOSE * most or value == 0.0:
            break
    return low

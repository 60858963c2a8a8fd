"""What a session of queries cost, given the votes: a Renyi curve that is itself private, and its epsilon.

Every query is charged its threshold, abstentions included, and every answered one its answer. With the probabilities of an answer in place
of what happened, the sum is an expectation: good for planning, and no guarantee (Papernot et al. 2018, arXiv:1802.08908, section 3.3).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpcli.base.errors import CannotCertify
from dpcli.numerics.arrays import Array, np
from dpcli.numerics.orders import least_over_orders

if TYPE_CHECKING:
    from dpcli.numerics.closed.conversion import Conversion

Total = Callable[[Array, Array, Array], Array]  # log q (n,), weights (n,), orders (k,) -> the sum of the divergences (k,)


@dataclass(frozen=True, slots=True)
class Releases:
    """Releases of one kind: log q of each, different ones only, and how often each is counted."""

    log_q: Array
    weights: Array
    total: Total

    def rdp(self, orders: Array) -> Array:
        """Upper bounds on the sum of the divergences, shape (k,)."""
        return self.total(self.log_q, self.weights, orders) if len(self.log_q) else np.zeros(len(orders))


def releases(log_q: Array, counted: Array, total: Total) -> Releases:
    """Releases with the same q put together. counted: (n,) how often each is counted, or with which probability."""
    different, place = np.unique(log_q, return_inverse=True)
    weights = np.asarray(np.bincount(np.ravel(place), weights=counted, minlength=len(different)), dtype=float)
    return Releases(different[weights > 0.0], weights[weights > 0.0], total)


@dataclass(frozen=True, slots=True)
class VoteCosts:
    """The cost of a session. answered: how many queries were, or are expected to be, answered."""

    parts: tuple[Releases, ...]
    asked: int
    answered: float

    def rdp(self, orders: Array) -> Array:
        """Upper bounds on D_a at real orders > 1, shape (k,)."""
        found = np.zeros(len(orders))
        for part in self.parts:
            found = found + part.rdp(orders)
        return found

    def epsilon(self, delta: float, conversion: Conversion, orders: Array | None = None) -> tuple[float, float]:
        """(epsilon, order), the smallest over the real line, or over `orders`.

        Raises CannotCertify at delta = 0.
        """
        if delta <= 0.0:
            raise CannotCertify("expected delta > 0 for an epsilon that depends on the votes, found 0")
        log_delta = math.log(delta)
        if orders is None:
            above_one, found = least_over_orders(lambda z: conversion(1.0 + z, self.rdp(1.0 + z), log_delta))
            return found, 1.0 + above_one
        values = conversion(orders, self.rdp(orders), log_delta)
        best = int(np.argmin(values))
        return float(values[best]), float(orders[best])

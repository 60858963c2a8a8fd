"""Neighbouring datasets: the adjacency, and how many records change together."""

from __future__ import annotations

import enum
import math

from dpcli.base.values import dataclass


class Adjacency(enum.Enum):
    """The relation between neighbouring datasets."""

    ADD_REMOVE = "add-remove"
    REPLACE_ONE = "replace-one"
    ZERO_OUT = "zero-out"


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The datasets that are compared.

    adjacency: what one change is.
    contributions: most records that one unit of privacy (a user, say) contributes.
    group: units that change together, in one way: under add-remove all come or all go. One that comes as another goes is a replacement, and
        under Poisson sampling a pair of its own, which neither direction of the group's dominates.
    """

    adjacency: Adjacency
    contributions: int = 1
    group: int = 1

    @property
    def records(self) -> int:
        return self.contributions * self.group

    @property
    def replaces(self) -> bool:
        """Tell whether both datasets hold a version of the record."""
        return self.adjacency is Adjacency.REPLACE_ONE


def any_sampled(rate: float, records: int) -> float:
    """The probability that at least one of `records` is in a Poisson sample."""

    return rate if records == 1 or rate == 1.0 else -math.expm1(records * math.log1p(-rate))

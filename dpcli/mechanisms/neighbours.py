"""The neighbouring relation: the adjacency of datasets, and the number of records that change together.

A pipeline file states both in [privacy]. `Spec.resolve` (spec.py) takes them once, and turns the keys of an entry into a mechanism for
which they are settled, so that no accountant has to know them.
"""

from __future__ import annotations

import enum
import math

from dpcli.base.values import dataclass


class Adjacency(enum.Enum):
    """The kind of one change between neighbouring datasets; ZERO_OUT replaces a record by a blank one that contributes nothing."""

    ADD_REMOVE = "add-remove"
    REPLACE_ONE = "replace-one"
    ZERO_OUT = "zero-out"


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The relation between the two datasets that are compared.

    adjacency: the kind of one change.
    contributions: most records that one unit of privacy, such as a user, contributes.
    group: number of units that change together, all in the same way. Under add-remove, either all are added or all are removed. If one is
        added and another one removed, that is a replacement. On Poisson samples a replacement has a pair of its own, which the pairs of a
        group do not dominate.
    """

    adjacency: Adjacency
    contributions: int = 1
    group: int = 1

    @property
    def records(self) -> int:
        """The number of records that change together, at most."""
        return self.contributions * self.group

    @property
    def replaces(self) -> bool:
        """Tell whether both datasets hold a version of the record."""
        return self.adjacency is Adjacency.REPLACE_ONE

    @property
    def contribution_bounds(self) -> int:
        """The distance by which a change moves a sum, at most, in units of the bound on one record's contribution.

        A replaced record takes its old contribution away and adds the new one, so that it counts twice.
        """
        return 2 * self.records if self.replaces else self.records


def any_sampled(rate: float, records: int) -> float:
    """Return the probability that at least one of `records` records is in a Poisson sample of this rate."""
    return rate if records == 1 or rate == 1.0 else -math.expm1(records * math.log1p(-rate))

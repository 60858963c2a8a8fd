"""How far a vector of whole numbers, one for each key, may move when one unit's rows change."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpcli.mechanisms.neighbours import Adjacency


@dataclass(frozen=True, slots=True)
class Contribution:
    """What one unit may add to a vector: to at most `groups` coordinates, `rows` rows to each, every row a whole number.

    least, most: of one row, where it counts. fixed: the unit has exactly one row that counts, in every dataset, so that of two versions
    both are there. one_key: there is one coordinate only.
    """

    groups: int
    rows: int
    least: int
    most: int
    fixed: bool = False
    one_key: bool = False

    @property
    def size(self) -> int:
        """The largest absolute value that a unit adds to one coordinate."""
        return self.rows * max(abs(self.least), abs(self.most))

    @property
    def span(self) -> int:
        """The most that one coordinate moves where both versions of a unit stand in it; a unit that is not there adds 0."""
        least, most = (self.least, self.most) if self.fixed else (min(self.least, 0), max(self.most, 0))
        return self.rows * (most - least)


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """l1, squared_l2: whole numbers, exact. coordinates: how many may move. why: one line for each step of the reasoning."""

    l1: int
    squared_l2: int
    coordinates: int
    why: tuple[str, ...]

    @property
    def l2(self) -> float:
        """Rounded up; exact where it is whole."""
        whole = math.isqrt(self.squared_l2)
        exact = whole * whole == self.squared_l2 and whole < 2**53
        return float(whole) if exact else math.nextafter(math.sqrt(self.squared_l2), math.inf)


def sensitivity(adjacency: Adjacency, contribution: Contribution) -> Sensitivity:
    """L1 and L2 distance of the vectors of two neighbouring datasets, at most.

    Under add-remove and zero-out a unit's rows come or go: L1 = groups x size, L2 = sqrt(groups) x size. Under replace-one the old version
    goes and a new one comes. Where both stand in one coordinate it moves by the span, which is at most twice the size; where they stand in
    two, by the size each: of j shared coordinates and 2 (groups - j) others the squared distance is linear in j, so that it is largest at
    one of the ends.
    """
    groups, size, span = (1 if contribution.one_key else contribution.groups), contribution.size, contribution.span
    rows = f"{contribution.rows:,} row{'s' if contribution.rows > 1 else ''}"
    counted = f"one unit adds at most {rows}"
    if not contribution.one_key:
        counted = f"one unit adds to at most {groups:,} of the keys, {rows} to each"
    one = contribution.least == contribution.most
    ranged = f"a row adds {contribution.least:,}" if one else f"a row adds from {contribution.least:,} to {contribution.most:,}"
    if adjacency is not Adjacency.REPLACE_ONE:
        which = "the number" if contribution.one_key else "each of these keys"
        moved = f"its rows come or go: {which} moves by at most {size:,}"
        return Sensitivity(groups * size, groups * size * size, groups, (counted, ranged, moved))
    if contribution.one_key:
        both = "both versions count" if contribution.fixed else "a version may also add nothing"
        return Sensitivity(
            span,
            span * span,
            1,
            (counted, ranged, f"another version takes its place ({both}): it moves by at most {span:,}"),
        )
    moved = f"the old version goes and a new one comes: up to {2 * groups:,} keys move by {size:,} each, or {groups:,} by {span:,}"
    l1, squared = groups * max(2 * size, span), groups * max(2 * size * size, span * span)
    return Sensitivity(l1, squared, 2 * groups, (counted, ranged, moved))

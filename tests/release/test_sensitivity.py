"""Sensitivity by brute force: every unit that the limits allow, every pair of its versions."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from dpcli.mechanisms.neighbours import Adjacency
from dpcli.release.vectors import Contribution, sensitivity
from tests.cases import of_each

KEYS = 3


def versions(contribution: Contribution) -> Iterator[tuple[int, ...]]:
    """What one unit can add to each key, over all rows that it may have."""
    keys = 1 if contribution.one_key else KEYS
    values = range(contribution.least, contribution.most + 1)
    counts = [contribution.rows] if contribution.fixed else range(contribution.rows + 1)
    sums = sorted({sum(rows) for count in counts for rows in itertools.combinations_with_replacement(values, count)})
    for added in itertools.product(sums, repeat=keys):
        touched = sum(1 for each in added if each != 0)
        if touched <= (1 if contribution.one_key else contribution.groups):
            yield added


CASES = [
    Contribution(groups, rows, least, most, one_key=one_key)
    for groups, rows, (least, most), one_key in itertools.product(
        (1, 2), (1, 2), ((1, 1), (0, 3), (-1, 2), (-2, -1), (2, 3)), (False, True)
    )
    if not (one_key and groups > 1)
] + [Contribution(1, 1, least, most, fixed=True, one_key=True) for least, most in ((1, 1), (0, 3), (-1, 2), (-3, -1), (2, 3))]


@of_each("adjacency", list(Adjacency), told=lambda adjacency: adjacency.value)
@of_each("contribution", CASES)
def test_no_unit_moves_a_vector_further_than_is_said(contribution: Contribution, adjacency: Adjacency) -> None:
    """And some unit moves it as far, where there are keys enough for the two versions to lie apart."""
    stated = sensitivity(adjacency, contribution)
    all_versions = list(versions(contribution))
    nothing = tuple(0 for _ in all_versions[0])
    pairs = itertools.product(all_versions, all_versions if adjacency is Adjacency.REPLACE_ONE else [nothing])
    moved = [[abs(a - b) for a, b in zip(old, new, strict=True)] for old, new in pairs]
    l1, squared = max(map(sum, moved)), max(sum(each * each for each in one) for one in moved)
    coordinates = max(sum(1 for each in one if each) for one in moved)
    assert (
        l1 <= stated.l1 and squared <= stated.squared_l2 <= stated.l2**2 * (1 + 1e-12) and coordinates <= max(stated.coordinates, 1)
    )
    if contribution.one_key or adjacency is not Adjacency.REPLACE_ONE or contribution.groups == 1:
        assert (l1, squared) == (stated.l1, stated.squared_l2)

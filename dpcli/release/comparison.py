"""What a mode by propose-test-release is compared with: the same epsilon and delta spent in other ways."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dpcli.base.errors import InputError
from dpcli.release.entries import AskedQuery
from dpcli.release.measures.mode import ModeQuery
from dpcli.release.stability.compared import PTR, Comparison, Lead, compared

SIZES = (100, 10_000, 10**6, 10**9)  # of the domain
POINTS = 60  # gaps of a picture


def comparison_of(asked: Sequence[AskedQuery], path: str) -> Comparison:
    """Of the first mode by propose-test-release in a file. Raises InputError where there is none."""
    for one in asked:
        query = one.query
        if isinstance(query, ModeQuery) and query.tests and query.delta is not None:
            (release,) = one.releases
            epsilon, adjacency = release.keys["epsilon"], one.setting.adjacency
            lead = Lead(epsilon, query.delta, adjacency, 1, SIZES[0], groups=query.groups, rows=query.rows)
            alone = compared(lead, (1,), SIZES)
            reach = max(2 * alone.needed(PTR, 2, query.confidence), 10)
            gaps = sorted({1 + round(place * (reach - 1) / POINTS) for place in range(POINTS + 1)})
            return replace(compared(lead, gaps, SIZES), confidence=query.confidence)
    raise InputError(f'{path}: expected a query with measure = "mode" and method = "propose-test-release" to compare, found none')

"""Scores of quantiles: how far one change can move two of them apart, by enumeration, and what the best candidate scores."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from fractions import Fraction

from dpcli.mechanisms.neighbours import Adjacency
from dpcli.release.noise.selection import rank_range, rank_scores
from tests.cases import of_each

SHARES = [Fraction(text) for text in ("1/2", "1/4", "3/4", "2/3")]
Counts = tuple[int, ...]


def counts_of(candidates: int, most: int) -> Iterator[Counts]:
    return itertools.product(range(most + 1), repeat=candidates)


def changed(counts: Counts, adjacency: Adjacency) -> Iterator[Counts]:
    """One row more; or one row elsewhere."""
    for i in range(len(counts)):
        more = tuple(count + (j == i) for j, count in enumerate(counts))
        if adjacency is Adjacency.ADD_REMOVE:
            yield more
        else:
            yield from (tuple(count - (j == k) for j, count in enumerate(more)) for k in range(len(counts)) if counts[k] and k != i)


def widest(share: Fraction, adjacency: Adjacency) -> int:
    worst = 0
    for counts in itertools.chain(counts_of(2, 8), counts_of(3, 4)):
        for other in changed(counts, adjacency):
            moved = [a - b for a, b in zip(rank_scores(counts, share), rank_scores(other, share), strict=True)]
            worst = max(worst, max(moved) - min(moved))
    return worst


@of_each("adjacency", [Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE])
@of_each("share", SHARES)
def test_the_range_is_what_is_reached(share: Fraction, adjacency: Adjacency) -> None:
    assert widest(share, adjacency) == rank_range(share, 1, adjacency)


@of_each("share", [Fraction(0), Fraction(1)])
@of_each("adjacency", [Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE])
def test_the_ends_move_no_further(share: Fraction, adjacency: Adjacency) -> None:
    assert widest(share, adjacency) <= rank_range(share, 1, adjacency)


@of_each("share", SHARES)
def test_some_candidate_holds_the_rank(share: Fraction) -> None:
    for counts in counts_of(4, 2):
        assert max(rank_scores(counts, share)) == 0


def test_the_median_of_a_few() -> None:
    """Rows 1, 1, 2, 4, 4 at candidates 0 to 4: the third of five; each score is twice a distance in ranks."""
    assert rank_scores([0, 2, 1, 0, 2], Fraction(1, 2)) == [-5, -1, 0, -1, -1]


def test_rows_of_a_unit_add_up() -> None:
    assert rank_range(Fraction(1, 4), 3, Adjacency.ADD_REMOVE) == 18 and rank_range(Fraction(1, 4), 3, Adjacency.REPLACE_ONE) == 24

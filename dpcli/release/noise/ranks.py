"""Scores of the candidates for a quantile: how far each is from the rank that is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import accumulate

from dpcli.mechanisms.neighbours import Adjacency


def rank_scores(counts: Sequence[int], share: Fraction, shift: int = 0) -> list[int]:
    """Minus the distance between the rank asked for and the ranks that each candidate holds, times the denominator of `share`.

    Of n rows, L below candidate t and E at it: with share = a/b, t holds the ranks from bL to b(L + E), the lowest candidate all below too
    and the highest all above. The target is a n + shift. As each rank is held, the best score is 0, whatever the data are.

    Args:
        counts: rows at each candidate of the declared grid, in its order; every row is at one of them.
        share: of the rows that shall be below, in [0, 1].
        shift: in units of a rank / b; negative for the lower end of an interval.
    """
    part, whole = share.numerator, share.denominator
    target, last = part * sum(counts) + shift, len(counts) - 1
    tops = [whole * top for top in accumulate(counts)]
    return [
        -max(
            bottom - target if index > 0 else 0,
            target - top if index < last else 0,
            0,
        )
        for index, (bottom, top) in enumerate(zip([0, *tops], tops, strict=False))
    ]


def rank_range(share: Fraction, max_rows: int, adjacency: Adjacency) -> int:
    """The score range of `rank_scores`, for units of at most max_rows rows.

    With share = a/b. A row x that is added moves the target by a. Below x nothing else moves: the distance of a candidate there changes by
    at most a, either way. Above x, bL and b(L + E) move by b: by at most b - a, either way. So one score moves by at most max(a, b - a),
    and two by 2 max(a, b - a) apart: one side of the target gains what the other loses, hence the full factor of 2. A row that is replaced
    moves bL and b(L + E) by b between its old and its new place, on both sides of the target: 2b. Rows of a unit add up.
    Both are attained: tests/release/noise/test_ranks.py.
    """
    part, whole = share.numerator, share.denominator
    one = whole if adjacency is Adjacency.REPLACE_ONE else max(part, whole - part)
    return 2 * one * max_rows

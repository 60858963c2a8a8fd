"""What the numbers of a ledger of blocks rest on, broken: each block is asked for a bit, by randomised response at its cap."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import pytest

from dpcli.ledger.plugin import BLOCKS
from dpcli.ledger.terms import LedgerTerms

EPSILON = 1.0
CUT: Mapping[str, Mapping[str, Any]] = {"region": {"names": ["a", "b", "c", "d"]}, "hash": {"count": 4}}
SIZES = {by: (1,) if by == "hash" else (1, 2, 3) for by in BLOCKS}  # a unit is in one part of a hash


def cap(by: str, most: int) -> float:
    """The epsilon of each block of a ledger whose own is EPSILON."""
    blocks = {"by": by, "column": "when", "max_blocks": most, **CUT.get(by, {})}
    terms = LedgerTerms("user", "add-remove", EPSILON, 0.0, filter="approx-dp", blocks=blocks)
    return float(terms.caps(EPSILON)["epsilon"])


def loss(before: Sequence[bool], after: Sequence[bool], epsilon: float) -> float:
    """The largest privacy loss over all answers, where each bit is answered truly with odds of e^epsilon."""
    true = 1.0 / (1.0 + math.exp(-epsilon))

    def chance(bits: Sequence[bool], answers: Sequence[bool]) -> float:
        return math.prod(true if bit == answer else 1.0 - true for bit, answer in zip(bits, answers, strict=True))

    return max(math.log(chance(after, said) / chance(before, said)) for said in product((False, True), repeat=len(before)))


def odd(blocks: Sequence[Sequence[int]]) -> list[bool]:
    """Of each block whether the smallest value in it is odd."""
    return [min(block) % 2 == 1 for block in blocks]


@pytest.mark.parametrize("by", BLOCKS)
def test_blocks_by_rank_move_as_a_whole(by: str) -> None:
    """One record that comes is in one block by its own value; by its rank it pushes one record over every border."""
    records, more = [2, 5, 12, 15, 22, 25, 32, 35], 1

    def by_value(values: Sequence[int]) -> list[list[int]]:
        return [[value for value in values if value // 10 == block] for block in range(4)]

    def by_rank(values: Sequence[int]) -> list[list[int]]:
        return [[value for rank, value in enumerate(sorted(values)) if min(rank // 2, 3) == block] for block in range(4)]

    held, moved = (loss(odd(cut(records)), odd(cut([*records, more])), cap(by, 1)) for cut in (by_value, by_rank))
    assert 0.0 < held <= EPSILON * (1.0 + 1e-12) < moved


@pytest.mark.parametrize("by", BLOCKS)
def test_a_unit_in_one_block_more_loses_more_than_the_cap(by: str) -> None:
    for most in SIZES[by]:
        within, beyond = ([block < lies for block in range(4)] for lies in (most, most + 1))
        assert loss([False] * 4, within, cap(by, most)) <= EPSILON * (1.0 + 1e-12) < loss([False] * 4, beyond, cap(by, most))


@pytest.mark.parametrize("by", BLOCKS)
def test_a_block_outside_of_the_window_is_read_for_nothing(by: str) -> None:
    """Two runs that use up a block each: the second one reads the first one's block as well."""
    first, own, other = [True, False], [False], [True]
    nobody = [False, False]
    assert loss(nobody, first, cap(by, 1)) <= EPSILON * (1.0 + 1e-12)
    assert loss([*nobody, *own], [*first, *own], cap(by, 1)) <= EPSILON * (1.0 + 1e-12)
    assert loss([*nobody, *own], [*first, *other], cap(by, 1)) > 1.5 * EPSILON

"""A bug in any registered mechanism fails the exam, though nobody names the mechanism."""

from __future__ import annotations

from itertools import product

import pytest

from dpcli.base.registry import MECHANISMS
from dpcli.exam.enumeration.bracket import Bracket
from dpcli.exam.mechanism_plants import PLANTS, promises_more, undetected_in_mechanism
from tests.cases import in_turn, tiered

EACH_ONCE = in_turn(MECHANISMS, PLANTS)
OTHERS = [pair for pair in product(MECHANISMS, PLANTS) if pair not in EACH_ONCE]
SLOW = {"exponential", "sparse-vector", "zcdp", "rdp", "gaussian", "gaussian-mixture", "composed"}
DEAR = [pair for pair in EACH_ONCE if pair[0] in SLOW]
CHEAP = [pair for pair in EACH_ONCE if pair not in DEAR]


@pytest.mark.parametrize(("kind", "plant"), [*tiered(CHEAP, 4, 3), *tiered(DEAR, 0, 1), *tiered(OTHERS, 0)])
def test_a_bug_in_any_mechanism_is_seen(kind: str, plant: str) -> None:
    assert not undetected_in_mechanism(kind, plant), f"{plant} in {kind} is not seen"


def test_only_a_smaller_upper_bound_promises_more() -> None:
    assert promises_more(Bracket(0.1, None, 0.1, 0.2), Bracket(0.1, None, 0.1, 0.3))
    assert not promises_more(Bracket(0.1, 0.2, 0.1, 0.3), Bracket(0.1, 0.1, 0.1, 0.3))

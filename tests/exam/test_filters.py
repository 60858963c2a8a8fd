"""Tests of the laws of every registered privacy filter, with planted bugs. A new filter is tested once it is registered."""

from __future__ import annotations

import pytest

from dpcli.exam.filter_laws import LARGE_EPSILON, OPENINGS, certified_lower, drawn_runs, runs, violations
from dpcli.exam.filter_plants import FILTER_PLANTS, examined_ledger, undetected_in_filter
from dpcli.exam.subjects import SEED
from dpcli.ledger.plugin import FILTERS
from tests.cases import in_turn, tiered

EACH_ONCE = in_turn(FILTERS, OPENINGS)
OTHERS = in_turn(FILTERS, OPENINGS[::-1])


@pytest.mark.sampled(0, 2)
@pytest.mark.parametrize(("name", "opening"), [*tiered(EACH_ONCE, 3, 2), *tiered(OTHERS, 0, len(OTHERS))], ids=str)
def test_the_laws_hold(name: str, opening: tuple[float, float]) -> None:
    ledger = examined_ledger(name, *opening)
    some = (*runs(), *drawn_runs(f"{SEED}/{name}"))
    assert sum(ledger.cost(run, 1e-7) is not None for run in runs()) >= 2, f"{name} has a cost for next to nothing"
    assert list(violations(ledger, some)) == [], f"seed {SEED}"


@pytest.mark.sampled
@pytest.mark.parametrize("plant", FILTER_PLANTS)
@pytest.mark.parametrize("name", FILTERS)
def test_a_bug_in_any_filter_is_seen(name: str, plant: str) -> None:
    assert not undetected_in_filter(name, plant), f"{plant} in {name} is not seen"


@pytest.mark.parametrize(("count", "known"), [(49, False), (50, True), (1000, True)])
def test_delta_that_is_overspent_is_seen(count: int, known: bool) -> None:
    """1 - (1 - 0.02)^n is above 0.63 from n = 50 on, whatever a filter says of the runs' delta."""
    run = runs()[-1]
    assert (certified_lower(run, count, 0.63) == LARGE_EPSILON) == known

"""The laws of privacy filters, for every registered one, and bugs in each that must be seen, though nobody names it."""

from __future__ import annotations

import functools
from itertools import islice

import pytest

from dpcli.file.pipeline.model import Pipeline
from dpcli.ledger.filters.filter import Cost, Filter, opened_filter
from dpcli.ledger.plugin import FILTERS
from tests.cases import in_turn, tiered
from tests.exam.filter_plants import FILTER_PLANTS, PlantedFilter
from tests.exam.filters import DESCRIBED, LARGE, OPENINGS, Ledger, broken, certified, drawn_runs, runs
from tests.exam.subjects import SEED


class Remembered(PlantedFilter):
    """The filter itself, with what it said of a run."""

    def cost(self, pipeline: Pipeline, delta: float) -> Cost:
        return priced(self.inner, pipeline, delta)


@functools.cache
def priced(the_filter: Filter, run: Pipeline, delta: float) -> Cost:
    return the_filter.cost(run, delta)


def opened(name: str, epsilon: float, delta: float) -> Ledger:
    return Ledger(Remembered(opened_filter(name, epsilon, delta, {})), epsilon, delta)


EACH_ONCE = in_turn(FILTERS, OPENINGS)
OTHERS = in_turn(FILTERS, OPENINGS[::-1])


@pytest.mark.sampled(3, 4)
@pytest.mark.parametrize(("name", "opening"), [*tiered(EACH_ONCE, 3, 2), *tiered(OTHERS, 0, len(OTHERS))], ids=str)
def test_the_laws_hold(name: str, opening: tuple[float, float]) -> None:
    ledger = opened(name, *opening)
    some = (*runs(), *drawn_runs(f"{SEED}/{name}"))
    assert sum(ledger.cost(run, 1e-7) is not None for run in runs()) >= 2, f"{name} has a cost for next to nothing"
    assert list(broken(ledger, some)) == [], f"seed {SEED}"


def changes(planted: Ledger, honest: Ledger) -> bool:
    """Whether the bug changes a cost, a cap or what is told."""
    caps = honest.caps
    costs = any(planted.cost(run, delta) != honest.cost(run, delta) for run in runs() for delta in DESCRIBED)
    return costs or planted.caps != caps or planted.told(caps) != honest.told(caps)


@pytest.mark.sampled
@pytest.mark.parametrize("plant", FILTER_PLANTS)
@pytest.mark.parametrize("name", FILTERS)
def test_a_bug_in_any_filter_is_seen(name: str, plant: str) -> None:
    for opening in OPENINGS:
        honest = opened(name, *opening)
        planted = Ledger(FILTER_PLANTS[plant](honest.the_filter), *opening)
        if changes(planted, honest):
            assert list(islice(broken(planted, runs()), 1)), f"{plant} in {name} is not seen"


@pytest.mark.parametrize(("count", "known"), [(49, False), (50, True), (1000, True)])
def test_delta_that_is_overspent_is_seen(count: int, known: bool) -> None:
    """1 - (1 - 0.02)^n is above 0.63 from n = 50 on, whatever a filter says of the runs' delta."""
    run = runs()[-1]
    assert (certified(run, count, 0.63) == LARGE) == known

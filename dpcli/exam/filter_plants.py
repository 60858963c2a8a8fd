"""Mutation testing of privacy filters: bugs planted around any filter, and whether the laws of filters detect them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from dpcli.exam.filter_laws import DESCRIBED, OPENINGS, ExaminedLedger, broken, runs
from dpcli.file.pipeline.model import Pipeline
from dpcli.ledger.amounts import EXACT, Amounts
from dpcli.ledger.filters.filter import Cost, Filter, opened_filter

TENTH, TEN = Decimal("0.1"), Decimal(10)
LARGE = 0.3  # a delta larger than that of any ledger


@dataclass(frozen=True, slots=True)
class PlantedFilter:
    """A privacy filter with a planted bug; subclasses override what the bug changes."""

    inner: Filter

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def caps(self, epsilon: float, delta: float) -> Mapping[str, str]:
        return self.inner.caps(epsilon, delta)

    def cost(self, pipeline: Pipeline, delta: float) -> Cost:
        return self.inner.cost(pipeline, delta)

    def epsilon(self, amounts: Amounts, delta: float) -> float:
        return self.inner.epsilon(amounts, delta)


def scaled(cost: Mapping[str, str], by: Decimal) -> dict[str, str]:
    """Return the amounts multiplied by a factor, exactly."""
    return {name: str(EXACT.multiply(Decimal(amount), by)) for name, amount in cost.items()}


class FirstCheap(PlantedFilter):
    """A bug that charges a tenth of a run's first amount."""

    def cost(self, pipeline: Pipeline, delta: float) -> Cost:
        cost = self.inner.cost(pipeline, delta)
        first = self.inner.currency[0]
        return replace(cost, amounts={**cost.amounts, first: scaled(cost.amounts, TENTH)[first]})


class OthersForgotten(PlantedFilter):
    """A bug that charges only a run's first amount."""

    def cost(self, pipeline: Pipeline, delta: float) -> Cost:
        cost = self.inner.cost(pipeline, delta)
        return replace(cost, amounts={name: cost.amounts[name] if name == self.inner.currency[0] else "0" for name in cost.amounts})


class CountIgnored(PlantedFilter):
    """A bug that charges every entry as one step."""

    def cost(self, pipeline: Pipeline, delta: float) -> Cost:
        return self.inner.cost(replace(pipeline, mechanisms=tuple(replace(e, steps=1) for e in pipeline.mechanisms)), delta)


class FirstEntry(PlantedFilter):
    """A bug that charges only the first entry of a run."""

    def cost(self, pipeline: Pipeline, delta: float) -> Cost:
        return self.inner.cost(replace(pipeline, mechanisms=pipeline.mechanisms[:1]), delta)


class DeltaForgotten(PlantedFilter):
    """A bug that does not charge amounts that grow with delta."""

    def cost(self, pipeline: Pipeline, delta: float) -> Cost:
        cost, less = self.inner.cost(pipeline, delta).amounts, self.inner.cost(pipeline, delta / 2.0).amounts
        return Cost({name: "0" if Decimal(cost[name]) > Decimal(less[name]) else cost[name] for name in cost}, "")


class DeltaOfTheLedgerIgnored(PlantedFilter):
    """A bug that computes caps and the reported epsilon at a large delta, whatever the delta of the ledger is."""

    def caps(self, epsilon: float, delta: float) -> Mapping[str, str]:
        return self.inner.caps(epsilon, max(delta, LARGE))

    def epsilon(self, amounts: Amounts, delta: float) -> float:
        return self.inner.epsilon(amounts, max(delta, LARGE))


class Generous(PlantedFilter):
    """A bug that makes caps ten times too large."""

    def caps(self, epsilon: float, delta: float) -> Mapping[str, str]:
        return scaled(self.inner.caps(epsilon, delta), TEN)


class ToldLess(PlantedFilter):
    """A bug that reports a tenth of the epsilon that was spent."""

    def epsilon(self, amounts: Amounts, delta: float) -> float:
        return self.inner.epsilon(amounts, delta) / 10.0


FILTER_PLANTS: dict[str, Callable[[Filter], Any]] = {
    "first amount divided by ten": FirstCheap,
    "first amount only": OthersForgotten,
    "count ignored": CountIgnored,
    "first entry only": FirstEntry,
    "delta forgotten": DeltaForgotten,
    "delta of the ledger ignored": DeltaOfTheLedgerIgnored,
    "caps times ten": Generous,
    "told as a tenth": ToldLess,
}


class PricedOnce(PlantedFilter):
    """A filter without a bug, which caches the price of each run."""

    def cost(self, pipeline: Pipeline, delta: float) -> Cost:
        return priced(self.inner, pipeline, delta)  # type: ignore[arg-type]  # A filter is frozen, and therefore hashable.


@functools.cache
def priced(the_filter: Filter, run: Pipeline, delta: float) -> Cost:
    return the_filter.cost(run, delta)


def opened(name: str, epsilon: float, delta: float) -> ExaminedLedger:
    """Return a ledger whose filter has this name, with the cap (epsilon, delta)."""
    once: Any = PricedOnce(opened_filter(name, epsilon, delta, {}))
    return ExaminedLedger(once, epsilon, delta)


def changes(planted: ExaminedLedger, honest: ExaminedLedger) -> bool:
    """Return whether the bug changes a cost, a cap or the reported epsilon."""
    caps = honest.caps
    costs = any(planted.cost(run, delta) != honest.cost(run, delta) for run in runs() for delta in DESCRIBED)
    return costs or planted.caps != caps or planted.epsilon_of(caps) != honest.epsilon_of(caps)


def undetected(name: str, plant: str) -> bool:
    """Return whether a planted bug changes an answer of the filter and breaks no law."""
    for opening in OPENINGS:
        honest = opened(name, *opening)
        planted = ExaminedLedger(FILTER_PLANTS[plant](honest.the_filter), *opening)
        if changes(planted, honest) and next(broken(planted, runs()), None) is None:
            return True
    return False

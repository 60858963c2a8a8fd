"""Mutation testing of privacy filters. Bugs are planted around a filter, and the laws of filters must detect them.

A *filter* decides whether a ledger grants one more run: it prices a run in *amounts* of its currency, such as rho, which have caps. A
*plant* is a `PlantedFilter` that undercharges, raises the caps or reports too small an epsilon. It is detected if a law of filter_laws.py
is broken for one of its runs. A plant that changes no answer of a filter, such as one about a second amount that it does not have, is
harmless. examine.py asks `undetected_in_filter`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from dpcli.exam.filter_laws import OPENINGS, PRICED_AT, ExaminedLedger, runs, violations
from dpcli.file.pipeline.model import Pipeline
from dpcli.ledger.amounts import EXACT, Amounts
from dpcli.ledger.filters.filter import Cost, Filter, filter_for_cap

TENTH, TEN = Decimal("0.1"), Decimal(10)
LARGE_DELTA = 0.3  # a delta that is larger than the delta of any ledger in OPENINGS


@dataclass(frozen=True, slots=True)
class PlantedFilter:
    """A privacy filter that passes every call on to another one. A subclass overrides the methods that its bug or its cache changes."""

    inner: Filter

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


def scaled_amounts(cost: Mapping[str, str], by: Decimal) -> dict[str, str]:
    return {name: str(EXACT.multiply(Decimal(amount), by)) for name, amount in cost.items()}


class FirstAmountReduced(PlantedFilter):
    """A bug that charges a tenth of a run's first amount."""

    def cost(self, pipeline: Pipeline, delta: float) -> Cost:
        cost = self.inner.cost(pipeline, delta)
        name, *_ = self.inner.currency  # the names of the filter's amounts
        return replace(cost, amounts={**cost.amounts, name: scaled_amounts(cost.amounts, TENTH)[name]})


class FirstAmountOnly(PlantedFilter):
    """A bug that charges only a run's first amount."""

    def cost(self, pipeline: Pipeline, delta: float) -> Cost:
        cost = self.inner.cost(pipeline, delta)
        name, *_ = self.inner.currency
        return replace(cost, amounts={**dict.fromkeys(cost.amounts, "0"), name: cost.amounts[name]})


class CountIgnored(PlantedFilter):
    """A bug that charges every entry as one step."""

    def cost(self, pipeline: Pipeline, delta: float) -> Cost:
        single_steps = tuple(replace(entry, steps=1) for entry in pipeline.mechanisms)
        return self.inner.cost(replace(pipeline, mechanisms=single_steps), delta)


class FirstEntryOnly(PlantedFilter):
    """A bug that charges only the first entry of a run."""

    def cost(self, pipeline: Pipeline, delta: float) -> Cost:
        return self.inner.cost(replace(pipeline, mechanisms=pipeline.mechanisms[:1]), delta)


class DeltaUncharged(PlantedFilter):
    """A bug that does not charge amounts that grow with delta."""

    def cost(self, pipeline: Pipeline, delta: float) -> Cost:
        amounts = self.inner.cost(pipeline, delta).amounts
        amounts_at_half = self.inner.cost(pipeline, delta / 2.0).amounts
        growing = [name for name in amounts if Decimal(amounts[name]) > Decimal(amounts_at_half[name])]
        return Cost({**amounts, **dict.fromkeys(growing, "0")}, detail="")


class LedgerDeltaIgnored(PlantedFilter):
    """A bug that computes caps and the reported epsilon at a large delta instead of the delta of the ledger."""

    def caps(self, epsilon: float, delta: float) -> Mapping[str, str]:
        return self.inner.caps(epsilon, LARGE_DELTA)

    def epsilon(self, amounts: Amounts, delta: float) -> float:
        return self.inner.epsilon(amounts, LARGE_DELTA)


class LargeCaps(PlantedFilter):
    """A bug that makes caps ten times too large."""

    def caps(self, epsilon: float, delta: float) -> Mapping[str, str]:
        return scaled_amounts(self.inner.caps(epsilon, delta), TEN)


class ReportReduced(PlantedFilter):
    """A bug that reports a tenth of the epsilon that was spent."""

    def epsilon(self, amounts: Amounts, delta: float) -> float:
        return self.inner.epsilon(amounts, delta) / 10.0


FILTER_PLANTS: dict[str, Callable[[Filter], Any]] = {
    "first amount divided by ten": FirstAmountReduced,
    "first amount only": FirstAmountOnly,
    "count ignored": CountIgnored,
    "first entry only": FirstEntryOnly,
    "delta forgotten": DeltaUncharged,
    "delta of the ledger ignored": LedgerDeltaIgnored,
    "caps times ten": LargeCaps,
    "reported epsilon divided by ten": ReportReduced,
}


class CachedPrices(PlantedFilter):
    """A filter without a bug, which caches the price of each run."""

    def cost(self, pipeline: Pipeline, delta: float) -> Cost:
        return cached_cost(self.inner, pipeline, delta)  # type: ignore[arg-type]  # A filter is frozen, and therefore hashable.


@functools.cache
def cached_cost(the_filter: Filter, run: Pipeline, delta: float) -> Cost:
    return the_filter.cost(run, delta)


def examined_ledger(name: str, epsilon: float, delta: float) -> ExaminedLedger:
    """Return a ledger with the named filter and the cap (epsilon, delta)."""
    cached: Any = CachedPrices(filter_for_cap(name, epsilon, delta, parameters={}))
    return ExaminedLedger(cached, epsilon, delta)


def changes(planted: ExaminedLedger, honest: ExaminedLedger) -> bool:
    """Return whether the bug changes a cost, a cap or the reported epsilon."""
    caps = honest.caps
    costs = any(planted.cost(run, delta) != honest.cost(run, delta) for run in runs() for delta in PRICED_AT)
    return costs or planted.caps != caps or planted.epsilon_of(caps) != honest.epsilon_of(caps)


def undetected_in_filter(name: str, plant: str) -> bool:
    """Return whether a planted bug changes an answer of the filter without breaking a law."""
    for opening in OPENINGS:
        honest = examined_ledger(name, *opening)
        planted = ExaminedLedger(FILTER_PLANTS[plant](honest.the_filter), *opening)
        if changes(planted, honest) and next(violations(planted, runs()), None) is None:
            return True
    return False

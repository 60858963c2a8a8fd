"""Queries that state a weight: each gets its share of what the budget leaves for them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from dpcli.base.errors import InputError
from dpcli.release.cost import QueryCost

if TYPE_CHECKING:
    from dpcli.file.pipeline.model import Budget, Privacy
    from dpcli.release.query import Query
    from dpcli.release.settings import Source


def weighted(queries: Sequence[Query], source: Source, privacy: Privacy, budget: Budget | None) -> Iterator[QueryCost | None]:
    """The cost of each query; None where its error decides.

    What is left of the budget is shared in rho where there is a delta, else in pure epsilon. Everything is priced again afterwards: what
    holds is the account of the file. Raises InputError where there is no budget to share, or nothing is left of it.
    """
    stated = {place: query.weight for place, query in enumerate(queries) if query.weight is not None}
    _, power = math.frexp(max(stated.values(), default=0.0))
    parts = {place: math.ldexp(weight, -power) for place, weight in stated.items()}  # the sum of weights may be no double
    total = math.fsum(parts.values())
    whole = _whole(queries, source, privacy, budget) if parts else None
    for place, query in enumerate(queries):
        if place in parts and whole is not None:
            yield whole.share(parts[place] / total * (1.0 - 1e-12))
        elif query.epsilon is not None:
            yield QueryCost(epsilon=query.epsilon)
        else:
            yield None if query.rho is None else QueryCost(rho=query.rho)


def _whole(queries: Sequence[Query], source: Source, privacy: Privacy, budget: Budget | None) -> QueryCost:
    """What the queries with a weight may cost together."""
    if budget is None:
        raise InputError("weight: no [budget] to share: state its epsilon")
    if any(getattr(query, "error", None) is not None for query in queries):
        raise InputError(
            "weight in one and error in another, whose cost is not stated: state rho or epsilon in place of one of them"
        )
    stated = [QueryCost(query.epsilon, query.rho) for query in queries if query.weight is None]
    delta = _delta(queries, privacy.delta if budget.delta is None else budget.delta)
    if delta is None and budget.epsilon is not None:
        left = budget.epsilon - math.fsum(cost.epsilon if cost.epsilon is not None else math.inf for cost in stated)
        if not 0.0 < left < math.inf:
            raise InputError("weight: nothing is left of a budget without delta beside what the other queries cost")
        return QueryCost(epsilon=left)
    caps = (
        rho_within(budget.epsilon, delta) if budget.epsilon is not None and delta is not None else math.inf,
        math.inf if budget.rho is None else budget.rho,
    )
    left = min(caps) - math.fsum(_rho(cost) for cost in stated)
    if left <= 0.0:
        raise InputError("weight: nothing is left of [budget] beside what the other queries cost")
    return QueryCost(rho=left)


def _delta(queries: Sequence[Query], delta: float | None) -> float | None:
    """What the queries' own deltas leave of it; None where there is none."""
    if not delta:
        return None
    left = delta - math.fsum(getattr(query, "delta", None) or 0.0 for query in queries)
    if left <= 0.0:
        raise InputError(f"weight: nothing is left of delta = {delta:g} beside the queries' own")
    return left


def _rho(cost: QueryCost) -> float:
    return cost.rho if cost.rho is not None else cost.pure_epsilon**2 / 2.0


def rho_within(epsilon: float, delta: float) -> float:
    """The largest rho that is found to have at most this epsilon at delta, rounded down.

    Source: Canonne, Kamath, Steinke 2020, arXiv:2004.00010, Corollary 13, turned round by bisection.
    """
    from dpcli.numerics.closed.conversion import zcdp_epsilon

    low, high = 0.0, epsilon + 2.0 * math.log(1.0 / delta) + 2.0 * math.sqrt(epsilon * math.log(1.0 / delta))
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if zcdp_epsilon(middle, delta) <= epsilon else (low, middle)
    return low

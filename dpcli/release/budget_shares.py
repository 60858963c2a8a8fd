"""The costs of queries: the costs that they state, or shares of the budget in proportion to their weights.

query_entries.py calls it when a file with [[query]] is read. A query states its cost as epsilon or rho, as a weight, or as an error that
its noise must meet. Stated costs and deltas come off the budget first, and weights divide the rest: as a pure epsilon if there is no delta,
and as a rho of zCDP otherwise. Shares are rounded down (SHARE_ROUNDING), so that they do not exceed the rest. These numbers only decide the
noise: whether all queries together stay within the budget is decided by the account of the file, which prices that noise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from dpcli.base.errors import InputError
from dpcli.file.pipeline.model import Budget, Privacy
from dpcli.release.cost import QueryCost
from dpcli.release.query import Query

# Factor for rounding errors in the shares of the budget, whose sum must not exceed 1. The account decides in the end.
SHARE_ROUNDING = 1.0 - 1e-12
# The bisection divides the interval by 2^60, which is more than a double resolves. Fewer halvings would give a little more noise.
HALVINGS = 60


def query_costs(queries: Sequence[Query], privacy: Privacy, budget: Budget | None) -> list[QueryCost | None]:
    """Return the cost of each query; None if the query states an error, which determines its cost.

    Queries with a weight share the part of the budget that the other queries leave. The part is a pure epsilon if the budget states an
    epsilon and there is no delta, and rho otherwise.

    Raises InputError if queries have weights, and there is no budget, nothing is left of it, or another query states an error.
    """
    costs = [None if query.epsilon is None and query.rho is None else QueryCost(query.epsilon, query.rho) for query in queries]
    weights = {index: query.weight for index, query in enumerate(queries) if query.weight is not None}
    if not weights:
        return costs
    available = _cost_left(queries, privacy, budget)
    _, power = math.frexp(max(weights.values()))  # the largest weight is below 2^power
    scaled = {index: math.ldexp(weight, -power) for index, weight in weights.items()}  # the sum of unscaled weights might overflow
    total = math.fsum(scaled.values())
    for index, weight in scaled.items():
        costs[index] = available.share(weight / total * SHARE_ROUNDING)
    return costs


def _cost_left(queries: Sequence[Query], privacy: Privacy, budget: Budget | None) -> QueryCost:
    """Return the part of the budget that the queries with a weight share. Raises InputError if it is unknown, or if nothing is left."""
    if budget is None:
        raise InputError("weight: there is no [budget] to share: state budget.epsilon")
    if any(getattr(query, "error", None) is not None for query in queries):  # not every measure has the key `error`
        raise InputError(
            "weight: another query states an error, so its cost is unknown when the weights are applied: state rho or epsilon in "
            "one of the two"
        )
    stated = [QueryCost(query.epsilon, query.rho) for query in queries if query.weight is None]
    delta = _delta_left(queries, privacy.delta if budget.delta is None else budget.delta)
    if delta is None and budget.epsilon is not None:
        return _epsilon_left(budget.epsilon, stated)
    # A budget states epsilon, rho or both, and the smaller rho that they allow is shared.
    rho = math.inf if budget.rho is None else budget.rho
    if budget.epsilon is not None and delta is not None:
        rho = min(rho, rho_within(budget.epsilon, delta))
    left = rho - math.fsum(cost.as_rho for cost in stated)
    if left <= 0.0:
        raise InputError("weight: the other queries use the whole [budget]")
    return QueryCost(rho=left)


def _epsilon_left(epsilon: float, stated: Sequence[QueryCost]) -> QueryCost:
    """Return a pure epsilon minus the stated costs. Raises InputError if nothing is left; a stated rho has no finite pure epsilon."""
    left = epsilon - math.fsum(math.inf if cost.epsilon is None else cost.epsilon for cost in stated)
    if not 0.0 < left < math.inf:
        raise InputError("weight: the other queries use the whole budget, which has no delta")
    return QueryCost(epsilon=left)


def _delta_left(queries: Sequence[Query], delta: float | None) -> float | None:
    """Return delta minus the deltas of the queries; None if there is no delta, or if it is 0. Raises InputError if nothing is left."""
    if not delta:
        return None
    left = delta - sum_of_deltas(queries)
    if left <= 0.0:
        raise InputError(f"weight: the deltas of the queries use all of delta = {delta:g}")
    return left


def sum_of_deltas(queries: Sequence[Query]) -> float:
    return math.fsum(getattr(query, "delta", None) or 0.0 for query in queries)


def rho_within(epsilon: float, delta: float) -> float:
    """Return the largest rho of zCDP that implies at most this epsilon at delta, rounded down.

    The conversion is inverted by bisection. The result is the lower end of the last interval, which is certified.

    Source: Canonne, Kamath, Steinke 2020, arXiv:2004.00010, Corollary 13.
    """
    from dpcli.numerics.closed.conversion import zcdp_epsilon

    log_inverse = math.log(1.0 / delta)
    # If the upper end were too small, the result would be too small, which gives more noise.
    low, high = 0.0, epsilon + 2.0 * log_inverse + 2.0 * math.sqrt(epsilon * log_inverse)
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if zcdp_epsilon(middle, delta) <= epsilon else (low, middle)
    return low

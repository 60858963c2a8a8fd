"""What remains of a cap, in terms that a person can plan with. Closed forms alone: nothing here needs arrays."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from dpcli.ledger import amounts
from dpcli.ledger.filters import largest
from dpcli.ledger.state import Run, State


@dataclass(frozen=True, slots=True)
class Room:
    """What may still be spent.

    spent, reserved, left: shares of the cap (the scarcest amount decides); of the number of declared runs in declared mode. There is no
    epsilon of what is spent: at a moment that is chosen from outputs only the cap is a bound. planned: in declared mode the epsilon of the
    whole plan, which was fixed in advance; else None. like_last: further runs like the last one that fit, None where
    none was made. pure: a pure epsilon that certainly fits in one run.
    """

    spent: float
    reserved: float
    left: float
    planned: float | None
    like_last: int | None
    pure: float


def room(state: State) -> Room:
    """What a state leaves."""
    terms = state.open_terms()
    reserved = {name: Decimal(0) for name in state.caps}
    for run in state.runs.values():
        if run.status in ("reserved", "started"):
            reserved = amounts.add(reserved, run.cost)
    declared = terms.mode == "declared"
    spent = share_of(state, state.spent)
    return Room(
        spent,
        share_of(state, reserved),
        max(1.0 - spent, 0.0),
        float((terms.certified or {})["epsilon"]) if declared else None,
        None if state.last is None else runs_like(state, state.last),
        0.0 if declared else pure_room(terms.filter, terms.parameters or {}, state.left()),
    )


def share_of(state: State, part: amounts.Amounts) -> float:
    """The share of the cap that a part of the spending takes; in declared mode, of the number of runs that were declared."""
    if state.open_terms().mode == "declared":
        return float(sum(part.values()) / sum(state.caps.values()))
    return amounts.share(part, state.caps)


def runs_like(state: State, run: Run) -> int:
    """How many more runs of that cost fit; -1 where it costs nothing, and any number does."""
    left = state.left()
    return min((Fraction(left[name]) // Fraction(cost) for name, cost in run.cost.items() if cost > 0), default=-1)


def pure_room(name: str, parameters: Mapping[str, float], left: amounts.Amounts) -> float:
    """The largest pure epsilon whose cost in the filter's currency is within `left`, rounded down."""
    main = float(next(value for amount, value in left.items() if amount != "delta"))
    if name == "approx-dp":
        return main  # what somebody states is what is charged
    return largest(lambda epsilon: _PURE[name](epsilon, parameters) <= main * (1.0 - 1e-12), 1e5) * (1.0 - 1e-12)


def _renyi(epsilon: float, parameters: Mapping[str, float]) -> float:
    """Randomised response at the filter's order a: log(p^a q^(1-a) + q^a p^(1-a)) / (a - 1) with p = 1/(1 + e^-epsilon), q = 1 - p."""
    above_one = parameters["order"] - 1.0
    log_p = -math.log1p(math.exp(-epsilon))
    return (log_p + math.log1p(math.exp(-(2.0 * above_one + 1.0) * epsilon))) / above_one + epsilon


def _gaussian(epsilon: float, parameters: Mapping[str, float]) -> float:
    from dpcli.ledger.filter_gdp import mu_of_pure

    return mu_of_pure(epsilon) ** 2


_PURE: dict[str, Callable[[float, Mapping[str, float]], float]] = {
    "zcdp": lambda epsilon, parameters: epsilon * math.tanh(0.5 * epsilon),
    "rdp": _renyi,
    "gdp": _gaussian,
    "advanced": lambda epsilon, parameters: 0.5 * epsilon * epsilon,
}

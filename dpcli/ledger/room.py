"""What remains of a cap, in terms that a person can plan with. Closed forms alone: nothing here needs arrays."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal

from dpcli.ledger import amounts
from dpcli.ledger.state import Run, State
from dpcli.numerics.logspace import log_expm1, log_ndtr


@dataclass(frozen=True, slots=True)
class Room:
    """What may still be spent.

    spent, reserved, left: shares of the cap (the scarcest amount decides); of the number of declared runs in declared mode.
    epsilon: an upper bound at the ledger's delta of everything charged. like_last: further runs like the last one that fit, None where
    none was made. pure: a pure epsilon that certainly fits in one run.
    """

    spent: float
    reserved: float
    left: float
    epsilon: float
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
        float((terms.certified or {})["epsilon"]) if declared else terms.the_filter.epsilon(state.spent, terms.delta),
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
    counts = [int(left[name] / cost) for name, cost in run.cost.items() if cost > 0]
    count = min(counts, default=-1)
    if count > 0 and any(amounts.EXACT.multiply(cost, Decimal(count)) > left[name] for name, cost in run.cost.items()):
        count -= 1  # the quotient was rounded up to a whole number
    return count


def pure_room(name: str, parameters: Mapping[str, float], left: amounts.Amounts) -> float:
    """A pure epsilon whose cost in the filter's currency is within `left`: a lower bound on the largest.

    epsilon-DP is epsilon^2/2-zCDP (Bun & Steinke 2016, arXiv:1605.02065, Proposition 3.3), and its Renyi divergence is at most epsilon.
    """
    main = float(next(value for amount, value in left.items() if amount != "delta"))
    return _PURE[name](main, parameters) * (1.0 if name == "approx-dp" else 1.0 - 1e-12)  # there it is what somebody states


def _gaussian(square: float, parameters: Mapping[str, float]) -> float:
    """Phi(-mu/2) = 1/(1 + e^epsilon), solved for epsilon."""
    return max(log_expm1(-log_ndtr(-0.5 * math.sqrt(square))), 0.0)


_PURE: dict[str, Callable[[float, Mapping[str, float]], float]] = {
    "zcdp": lambda rho, parameters: math.sqrt(2.0 * rho),
    "rdp": lambda rdp, parameters: max(rdp, math.sqrt(2.0 * rdp / parameters["order"])),
    "gdp": _gaussian,
    "approx-dp": lambda epsilon, parameters: epsilon,
    "advanced": lambda half_squares, parameters: math.sqrt(2.0 * half_squares),
}

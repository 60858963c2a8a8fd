"""A schedule fixed in advance: the whole pipeline run many times on the same data, all runs within one cap."""

from __future__ import annotations

import math

from dpcli.analysis.account import Account, headline
from dpcli.base.errors import InputError
from dpcli.base.rounding import up
from dpcli.file.pipeline.gate_keys import Horizon
from dpcli.file.pipeline.model import Pipeline
from dpcli.gate.verdicts import Condition, Target

KEY = ("gate", "horizon")
PLANNED = "a schedule fixed in advance; runs decided on after looking at results belong in a ledger"


def horizon_condition(result: Account, horizon: Horizon) -> Condition:
    """Whether all runs of the horizon together stay within its cap, at the delta of the budget.

    Each charge counts as many times over, so this is the composition of the runs by the sound accountants, and not a multiple of one
    run's epsilon. Whoever chooses a run by what an earlier one showed is not covered: that needs a filter.
    """
    try:
        total = _total(result, horizon.count)
    except InputError as error:
        return Condition("horizon", "invalid", str(error), KEY)
    text = f"{horizon.schedule}: epsilon {up(total)} at delta = {result.delta!r} for all together, cap {horizon.epsilon!r}"
    if math.isinf(total):
        return Condition("horizon", "unknown", text, KEY)
    target = Target(horizon.epsilon, result.delta, horizon.count)
    if total <= horizon.epsilon:
        return Condition("horizon", "pass", f"{text} ({PLANNED})", KEY, measured=total, target=target)
    fit = runs_that_fit(result, horizon)
    room = f"at most {fit:,} runs would fit" if fit else "not even one run would fit"
    return Condition("horizon", "fail", f"{text}; {room} ({PLANNED})", KEY, measured=total, target=target)


def runs_that_fit(result: Account, horizon: Horizon) -> int:
    """The most runs, below the horizon's, whose composition is within the cap while that of one more is not; by bisection."""
    good, bad = 0, horizon.count
    while bad - good > 1:
        # By ratio while the ends are far apart: a count may have eighteen digits.
        middle = math.isqrt(max(good, 1) * bad) if bad > 8 * max(good, 1) else (good + bad) // 2
        good, bad = (middle, bad) if _total(result, middle) <= horizon.epsilon else (good, middle)
    return good


def _total(result: Account, runs: int) -> float:
    return headline(result.pipeline, delta=result.delta, runs=runs).upper


def runs_of(pipeline: Pipeline, horizon: Horizon | None) -> int:
    """How often a file counts: as often as its own horizon or one from outside plans, whichever has more runs."""
    return max((one.count for one in (horizon, pipeline.gate.horizon) if one is not None), default=1)


def held_horizons(*stated: Horizon | None) -> tuple[Horizon, ...]:
    """The horizons that hold: each of which no other one, with as many runs within as little, makes needless."""
    ordered = sorted((one for one in stated if one is not None), key=lambda one: (-one.count, one.epsilon))
    return tuple(one for k, one in enumerate(ordered) if all(one.epsilon < other.epsilon for other in ordered[:k]))

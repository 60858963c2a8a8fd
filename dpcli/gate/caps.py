"""The cap on epsilon: from a flag, else the policy, else the file."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from dpcli.analysis.account import Account
from dpcli.errors import InputError
from dpcli.gate.verdicts import Condition, Target
from dpcli.pipeline.gate_keys import Caps
from dpcli.pipeline.model import Budget, Pipeline
from dpcli.rounding import up

NEAR = ", above the warning level"


def capped(pipeline: Pipeline, outside: Caps) -> Pipeline:
    """The pipeline with the caps from outside in place of its own. Raises InputError where neither states one, of epsilon or rho."""
    own = pipeline.budget
    epsilon = outside.epsilon if outside.epsilon is not None else own.epsilon if own else None
    rho = outside.rho if outside.rho is not None else own.rho if own else None
    if epsilon is None and rho is None:
        raise InputError(
            f"{pipeline.path}: budget: no cap to judge by: state a [budget] in the file, or give --max-epsilon or --policy"
        )
    delta = next((d for d in (outside.delta, own.delta if own else None, pipeline.privacy.delta) if d is not None), None)
    return replace(pipeline, budget=Budget(epsilon, delta, own.warn_at if own else 0.8, rho))


def delta_condition(pipeline: Pipeline, outside: Caps) -> Iterator[Condition]:
    """A no to a file that holds its epsilon to a larger delta than the one that it promises."""
    promised, held = pipeline.privacy.delta, pipeline.budget.delta if pipeline.budget else None
    if outside.delta is None and promised is not None and held is not None and held > promised:
        text = f"budget.delta: expected at most privacy.delta = {promised!r}, found {held!r}"
        yield Condition("delta", "fail", text, ("budget", "delta"))


def cap_conditions(result: Account) -> Iterator[Condition]:
    """Whether what the pipeline spends is within its caps, of which there is one at least; what no accountant bounds is unknown.

    No waiver speaks of rho.
    """
    assert result.budget is not None
    cap, rho = result.budget.epsilon, result.budget.rho
    if cap is not None and math.isinf(cap.spent):
        yield Condition("budget", "unknown", "no finite epsilon can be certified")
    elif cap is not None:
        near = NEAR if cap.verdict == "warn" else ""
        text = f"epsilon {up(cap.spent)} at delta = {cap.delta!r}, cap {cap.cap!r}{near}"
        yield Condition("budget", cap.verdict, text, measured=cap.spent, target=Target(cap.cap, cap.delta))
    if rho is not None:
        text = f"{rho.words()}{NEAR if rho.verdict == 'warn' else ''}"
        yield Condition("rho", rho.verdict, text, ("budget", "rho"))

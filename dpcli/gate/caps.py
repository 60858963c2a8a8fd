"""The cap on epsilon: from a flag, else the policy, else the file."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from dpcli.analysis.account import Account
from dpcli.analysis.rho import judged
from dpcli.errors import InputError
from dpcli.gate.verdicts import Condition, Target
from dpcli.pipeline.gate_keys import Caps
from dpcli.pipeline.model import Budget, Pipeline
from dpcli.rounding import up

NEAR = ", above the warning level"


def capped(pipeline: Pipeline, outside: Caps) -> Pipeline:
    """The pipeline with the caps from outside in place of its own. Raises InputError where neither states one."""
    own = pipeline.budget
    epsilon = outside.epsilon if outside.epsilon is not None else own.epsilon if own else None
    if epsilon is None:
        raise InputError(
            f"{pipeline.path}: budget: no cap to judge by: state a [budget] in the file, or give --max-epsilon or --policy"
        )
    rho = outside.rho if outside.rho is not None else own.rho if own else None
    delta = next((d for d in (outside.delta, own.delta if own else None, pipeline.privacy.delta) if d is not None), None)
    return replace(pipeline, budget=Budget(epsilon, delta, own.warn_at if own else 0.8, rho))


def delta_condition(pipeline: Pipeline, outside: Caps) -> Iterator[Condition]:
    """A no to a file that holds its epsilon to a larger delta than the one that it promises."""
    promised, held = pipeline.privacy.delta, pipeline.budget.delta if pipeline.budget else None
    if outside.delta is None and promised is not None and held is not None and held > promised:
        text = f"budget.delta: expected at most privacy.delta = {promised!r}, found {held!r}"
        yield Condition("delta", "fail", text, ("budget", "delta"))


def cap_condition(result: Account) -> Condition:
    """Whether what the pipeline spends is within its cap; what no accountant bounds is unknown."""
    assert result.budget is not None
    cap = result.budget
    if math.isinf(cap.spent):
        return Condition("budget", "unknown", "no finite epsilon can be certified")
    assert result.pipeline.budget is not None
    verdict = judged(cap.spent, cap.epsilon, result.pipeline.budget.warn_at)
    near = NEAR if verdict == "warn" else ""
    text = f"epsilon {up(cap.spent)} at delta = {cap.delta!r}, cap {cap.epsilon!r}{near}"
    return Condition("budget", verdict, text, measured=cap.spent, target=Target(cap.epsilon, cap.delta))


def rho_condition(result: Account) -> Iterator[Condition]:
    """Whether rho is within its cap, where it has one; no waiver speaks of it."""
    assert result.budget is not None
    rho = result.budget.rho
    if rho is not None:
        text = f"{rho.words()}{NEAR if rho.verdict == 'warn' else ''}"
        yield Condition("rho", rho.verdict, text, ("budget", "rho"))

"""The costs of a file's tokens if a shard is replaced and where one is removed; and the radius or the tokens that a target allows."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal, get_args

from dpcli.analysis.account import account
from dpcli.analysis.calibrate import Calibration, calibrate
from dpcli.base.errors import CannotCertify, InputError
from dpcli.file.pipeline.model import Pipeline
from dpcli.predict.pmixed.pmixed_plan import PmixedPlan

Change = Literal["replace-shard", "remove-shard"]
Solvable = Literal["radius", "steps"]
ACCOUNTANTS = ("rdp", "pld")


@dataclass(frozen=True, slots=True)
class ChangeCost:
    """A cost, by one accountant.

    Attributes:
        epsilon: An upper bound; of the solution if something was solved for.
        stated: Whether it is the file's own change.
        solved: The solution; None if nothing is solved for, or nothing meets the target.
    """

    change: Change
    accountant: str
    epsilon: float
    stated: bool
    solved: Calibration | None = None


@dataclass(frozen=True, slots=True)
class Costs:
    """The costs of a plan.

    Attributes:
        rows: By change and accountant; none for a file under the published protocol.
        target: Epsilon to meet, if something was solved for.
    """

    plan: PmixedPlan
    delta: float
    rows: tuple[ChangeCost, ...]
    solve: Solvable | None = None
    target: float | None = None

    @property
    def best(self) -> ChangeCost:
        """Return the least epsilon, or the largest solution, of the file's own change."""
        own = [row for row in self.rows if row.stated and (self.solve is None or row.solved is not None)]
        return min(own, key=lambda row: -row.solved.value if row.solved is not None else row.epsilon)


def costs(plan: PmixedPlan, solve: str | None = None, target: float | None = None, delta: float | None = None) -> Costs:
    """Price a plan, or solve for its radius or tokens.

    Args:
        solve: Radius or steps.
        target: Epsilon to meet; that of the file's budget if None.

    Raises:
        InputError: A target without something to solve for, none, or the published protocol, which has nothing to solve for.
        CannotCertify: Nothing meets the target.
    """
    if plan.account is None:
        if solve is not None or target is not None:
            raise InputError('--solve: expected pmixed.mode = "sound", found "paper", whose radius follows from what it claims')
        assert plan.published is not None
        return Costs(plan, plan.published.delta, ())
    at = delta if delta is not None else plan.account.delta
    assert at is not None
    if solve is None:
        if target is not None:
            raise InputError("--target-epsilon: needs --solve radius or --solve steps")
        priced = Costs(plan, at, tuple(_priced(plan, at)))
        if priced.best.epsilon == math.inf:
            raise CannotCertify(
                f"{plan.path}: at delta = {at!r} neither accountant certifies a finite epsilon; dpcli account may, at 0"
            )
        return priced
    parameter: Solvable = "steps" if solve == "steps" else "radius"
    budget = plan.pipeline.budget
    if target is None and budget is not None and budget.rho is not None:
        raise InputError(f"{plan.path}: budget.rho: needs --target-epsilon, as --solve meets an epsilon alone")
    aim = target if target is not None else budget.epsilon if budget is not None else None
    if aim is None:
        raise InputError(f"{plan.path}: state --target-epsilon, or budget.epsilon in the file")
    solution = Costs(plan, at, tuple(_solved(plan, parameter, aim, at)), parameter, aim)
    if not any(row.solved is not None for row in solution.rows if row.stated):
        raise CannotCertify(f"{plan.path}: no {parameter} brings epsilon to {aim:g}: the rest of the file costs more")
    return solution


def _priced_pipelines(plan: PmixedPlan) -> Iterator[tuple[Change, str, Pipeline]]:
    for change in get_args(Change):
        for accountant in ACCOUNTANTS:
            yield change, accountant, plan.with_entry(replace(plan.entry, spec=replace(plan.spec, change=change))).pipeline


def _priced(plan: PmixedPlan, delta: float) -> Iterator[ChangeCost]:
    for change, accountant, pipeline in _priced_pipelines(plan):
        yield ChangeCost(change, accountant, account(pipeline, [accountant], delta).upper, change == plan.spec.change)


def _solved(plan: PmixedPlan, solve: Solvable, target: float, delta: float) -> Iterator[ChangeCost]:
    for change, accountant, pipeline in _priced_pipelines(plan):
        stated = change == plan.spec.change
        try:
            solution = calibrate(pipeline, target, delta, solve, ((plan.entry.name, solve),), [accountant])
        except CannotCertify:
            yield ChangeCost(change, accountant, float("inf"), stated)
        else:
            yield ChangeCost(change, accountant, solution.upper, stated, solution)

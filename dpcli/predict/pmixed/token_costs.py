"""The costs that `dpcli pmixed account` prints: epsilon for a replaced and for a removed shard, by each accountant.

A *shard* is the part of the private texts on which one model of the ensemble is fitted, and the *radius* limits how far a model may be from
the public one when a token is drawn (pmixed_plan.py). A *change* is the effect of one unit on the ensemble: it replaces the model of one
shard ("replace-shard"), or adds or removes a whole shard ("remove-shard"). The pipeline file states one of them, and the other is shown for
comparison. The command can also solve for the radius or the number of tokens ("steps") that meets a target epsilon. Every epsilon is an
upper bound. A file with the published protocol (mode "paper") has no account: its claim of an epsilon is not a guarantee.
"""

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
ACCOUNTANTS = ("rdp", "pld")  # names in the table and in JSON: Renyi divergences, and privacy-loss distributions


@dataclass(frozen=True, slots=True)
class ChangeCost:
    """The cost of one kind of change, by one accountant.

    Attributes:
        epsilon: Upper bound on epsilon. If the radius or the tokens are solved for, it is the bound at the solution.
        stated: Whether the file states this kind of change.
        solved: The solution, with its `value`; None if nothing is solved for, or no value meets the target.
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
        rows: Costs by change and accountant; empty for a file with the published protocol, which cannot be priced.
        solve: Parameter that is solved for; None if there is none.
        target: Epsilon to meet; None if nothing is solved for.
    """

    plan: PmixedPlan
    delta: float
    rows: tuple[ChangeCost, ...]
    solve: Solvable | None = None
    target: float | None = None

    @property
    def best(self) -> ChangeCost:
        """Return the row with the least epsilon, or the largest solution, for the change that the file states."""
        stated = [row for row in self.rows if row.stated]
        if self.solve is None:
            return min(stated, key=lambda row: row.epsilon)
        return max(stated, key=lambda row: -math.inf if row.solved is None else row.solved.value)


def costs(plan: PmixedPlan, solve: str | None = None, target: float | None = None, delta: float | None = None) -> Costs:
    """Price a plan, or solve for its radius or tokens.

    Args:
        solve: "radius" or "steps"; None to price the plan.
        target: Epsilon to meet; the epsilon of the file's budget if None.
        delta: Delta of the costs; the file's delta if None.

    Raises:
        InputError: If there is a target without `solve`, or `solve` without a target, or the file uses the published protocol.
        CannotCertify: If nothing meets the target, or no accountant certifies a finite epsilon.
    """
    if plan.account is None:
        if solve is not None or target is not None:
            raise InputError(
                '--solve: expected pmixed.mode = "sound", found "paper", whose radius follows from its claimed epsilon'
            )
        assert plan.published is not None
        return Costs(plan, plan.published.delta, ())
    costs_delta = delta if delta is not None else plan.account.delta
    assert costs_delta is not None
    if solve is not None:
        return _solution(plan, "steps" if solve == "steps" else "radius", target, costs_delta)
    if target is not None:
        raise InputError("--target-epsilon: needs --solve radius or --solve steps")
    priced = Costs(plan, costs_delta, tuple(_price(plan, costs_delta)))
    if priced.best.epsilon == math.inf:
        raise CannotCertify(
            f"{plan.path}: at delta = {costs_delta!r} neither accountant certifies a finite epsilon; try dpcli account"
        )
    return priced


def _solution(plan: PmixedPlan, parameter: Solvable, target: float | None, delta: float) -> Costs:
    """Return the costs with the radius or tokens that meets the target, or the epsilon of the file's budget if there is no target."""
    budget = plan.pipeline.budget
    if target is None and budget is not None:
        if budget.rho is not None:
            raise InputError(f"{plan.path}: budget.rho: set --target-epsilon, as --solve cannot meet a rho")
        target = budget.epsilon
    if target is None:
        raise InputError(f"{plan.path}: set --target-epsilon, or budget.epsilon in the file")
    solution = Costs(plan, delta, tuple(_solve(plan, parameter, target, delta)), parameter, target)
    if not any(row.solved is not None for row in solution.rows if row.stated):
        raise CannotCertify(f"{plan.path}: no {parameter} meets epsilon = {target:g}: the rest of the file costs more")
    return solution


def _price(plan: PmixedPlan, delta: float) -> Iterator[ChangeCost]:
    """Yield the epsilon of the tokens for each change, by each accountant."""
    for change, accountant, pipeline in _cases(plan):
        epsilon = account(pipeline, [accountant], delta).upper
        yield ChangeCost(change, accountant, epsilon, change == plan.spec.change)


def _solve(plan: PmixedPlan, parameter: Solvable, target: float, delta: float) -> Iterator[ChangeCost]:
    """Yield the largest radius or number of tokens that meets the target, for each change, by each accountant."""
    solved_key = (plan.entry.name, parameter)
    for change, accountant, pipeline in _cases(plan):
        is_stated = change == plan.spec.change
        try:
            solution = calibrate(pipeline, target, delta, parameter, targets=(solved_key,), accountants=[accountant])
        except CannotCertify:
            yield ChangeCost(change, accountant, math.inf, is_stated)
        else:
            yield ChangeCost(change, accountant, solution.upper, is_stated, solution)


def _cases(plan: PmixedPlan) -> Iterator[tuple[Change, str, Pipeline]]:
    """Yield each kind of change with each accountant that prices it, and the plan's pipeline with that kind of change."""
    for change in get_args(Change):
        entry = replace(plan.entry, spec=replace(plan.spec, change=change))
        for accountant in ACCOUNTANTS:
            yield change, accountant, plan.with_entry(entry).pipeline

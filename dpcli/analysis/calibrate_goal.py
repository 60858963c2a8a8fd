"""The least noise, or the most of another parameter, that meets a goal in place of an epsilon."""

from __future__ import annotations

import math
from collections.abc import Sequence

from dpcli.analysis.calibrate import Calibration, Parameter, refused_by_keys, searched, solvable, substitute
from dpcli.analysis.goals import Goal
from dpcli.file.pipeline.model import Pipeline
from dpcli.file.pipeline.section import refuse_contradicted
from dpcli.numerics.work import limited


@limited
def calibrate_goal(
    pipeline: Pipeline,
    goal: Goal,
    solve: Parameter = "noise",
    targets: Sequence[tuple[str, str]] | None = None,
    group_size: int = 1,
) -> Calibration:
    """`calibrate` for a goal: the upper bound of its quantity is at most the target at the value, and not at the cheaper one.

    Raises InputError as `calibrate` does; CannotCertify where no value meets the goal, or none could.
    """
    chosen = solvable(pipeline, targets, solve)
    measured: dict[float, tuple[float, str]] = {}

    def upper(value: float) -> float:
        if value not in measured:
            candidate = substitute(pipeline, chosen, value)
            measured[value] = (math.inf, "") if refused_by_keys(candidate) else goal.measure(candidate, group_size)
        return measured[value][0]

    value, cheaper, adjacent = searched(upper, goal.target, pipeline, chosen, solve, goal.said)
    answer = substitute(pipeline, chosen, value)
    refuse_contradicted(answer)
    return Calibration(
        solve,
        chosen,
        goal.target,
        None,
        value,
        *measured[value],
        cheaper,
        None if cheaper is None else upper(cheaper),
        adjacent,
        answer,
        group_size,
        quantity=goal.quantity,
        said=goal.said,
    )

"""The documents of a training run: what it would do, and what it did."""

from __future__ import annotations

import math
import os
from dataclasses import asdict
from typing import TYPE_CHECKING

from dpcli.base.rounding import up
from dpcli.document.document import Document, visible
from dpcli.sessions.documents.dry_run import dry_run, rows_data, shown, window_note
from dpcli.train.documents.run_statement import words
from dpcli.train.plan.plan import TrainingPlan
from dpcli.train.plan.stages import Stage
from dpcli.train.run.outcome import MODEL, STATEMENT, Outcome

if TYPE_CHECKING:
    from dpcli.train.loop.private import PrivateResult
    from dpcli.train.run.training_run import Estimate


def planned(plan: TrainingPlan) -> Document:
    """Return what `dpcli train` would do, how long it would take, and how much memory."""
    from dpcli.train.run.training_run import estimate

    chosen, measured = plan.train, estimate(plan)
    read = () if isinstance(measured, str) else measured.constants
    details = (
        *(
            f"{steps:,} steps of {stage.entry.name} ({stage.entry.type}): noise multiplier {stage.noise_multiplier:.7g}, "
            f"about {stage.expected_batch:g} records per step"
            for steps, stage in by_entry(plan)
        ),
        f"clipping norm {chosen.clipping.norm:g} ({chosen.clipping.style})",
        f"task {chosen.task}: {chosen.model} on {chosen.data}, {chosen.optimizer} at learning rate {chosen.learning_rate:g}",
        f"leaves {MODEL} and {STATEMENT} in {shown(plan.folder)}",
        *window_note(plan),
        estimated(measured),
        *([f"the program also reads {', '.join(read)}: nothing of these may come from private records"] if read else []),
    )
    data = {
        "steps": plan.steps,
        "stages": [
            {
                "mechanism": stage.entry.name,
                "steps": steps,
                "noise_multiplier": stage.noise_multiplier,
                "expected_batch": stage.expected_batch,
            }
            for steps, stage in by_entry(plan)
        ],
        "estimate": measured if isinstance(measured, str) else asdict(measured),
    }
    return dry_run(plan, "dpcli/train-plan/v1", data, details)


def by_entry(plan: TrainingPlan) -> list[tuple[int, Stage]]:
    """Return the steps of each entry, with its first stage."""
    firsts = {stage.entry.name: stage for stage in reversed(plan.stages)}
    names = dict.fromkeys(stage.entry.name for stage in plan.stages)
    return [(sum(stage.steps for stage in plan.stages if stage.entry.name == name), firsts[name]) for name in names]


def estimated(measured: Estimate | str) -> str:
    """Return the estimate in words."""
    if isinstance(measured, str):
        return f"time and memory not estimated: {measured}"
    return (
        f"about {duration(measured.seconds)} on this machine and {measured.bytes / 1e6:,.0f} MB at the peak, measured on one step; "
        f"{measured.parameters:,} parameters, clipped sums by {measured.method}"
    )


def duration(seconds: float) -> str:
    """Return a time as a person would say it."""
    units = (("s", 1.0, 120.0), ("minutes", 60.0, 7200.0), ("hours", 3600.0, math.inf))
    name, length, _ = next(unit for unit in units if seconds < unit[2])
    return f"{seconds / length:.3g} {name}"


def outcome(result: Outcome) -> Document:
    """Return what a run did."""
    plan = result.plan
    name = os.path.basename(plan.path)
    measured = f"; {words(result.metrics)} on data that {name} declares public (not checked)" if result.metrics else ""
    private = "" if result.private else f"NOT PRIVATE ({result.unprotected}): "
    headline = f"{private}epsilon <= {up(result.epsilon)} at delta = {plan.account.delta!r} after {result.taken:,} steps{measured}"
    data = {
        "schema": "dpcli/train/v1",
        "private": result.private,
        "steps": plan.steps,
        "repeated": result.repeated_steps,
        "metrics": dict(result.metrics),
        "method": result.method,
        "noise": result.noise,
        "folder": result.folder,
        "run": result.run,
        "result": {"epsilon_upper": result.epsilon, "delta": plan.account.delta},
        **rows_data(plan),
        "exit_code": 0,
    }
    details: tuple[str, ...] = (
        *window_note(plan),
        f"model, metrics and statement are in {shown(result.folder)}",
    )
    if result.unmeasured:
        details += (f"not measured: {visible(result.unmeasured)}; measure the model with dpcli evaluate",)
    if result.charged:
        details += (f"charged to the ledger: {result.charged}",)
    elif result.earlier:
        details += ("an earlier run's files were replaced: both runs cost epsilon, and only a ledger (--ledger) adds them up",)
    return Document(
        headline, data, "pass" if result.private else "warn", notes=details, details=details, total=repr(result.epsilon)
    )


def of_result(result: PrivateResult) -> Document:
    """Return what a notebook shows of a run that has ended."""
    return Document(str(result), {}, "pass" if result.private else "warn")

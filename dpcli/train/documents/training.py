"""A training run as a document: what it would do, and what it did."""

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
    from dpcli.train.plan.estimate import Estimate


def planned(plan: TrainingPlan) -> Document:
    """What `dpcli train` would do, how long it would take, and how much memory."""
    from dpcli.train.plan.estimate import estimate

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
    """The steps of each entry, with its first stage."""
    firsts = {stage.entry.name: stage for stage in reversed(plan.stages)}
    names = dict.fromkeys(stage.entry.name for stage in plan.stages)
    return [(sum(stage.steps for stage in plan.stages if stage.entry.name == name), firsts[name]) for name in names]


def estimated(measured: Estimate | str) -> str:
    """In words."""
    if isinstance(measured, str):
        return f"time and memory not estimated: {measured}"
    return (
        f"about {duration(measured.seconds)} on this machine and {measured.bytes / 1e6:,.0f} MB at the peak, measured on one step; "
        f"{measured.parameters:,} parameters, clipped sums by {measured.method}"
    )


def duration(seconds: float) -> str:
    """As a person would say it."""
    units = (("s", 1.0, 120.0), ("minutes", 60.0, 7200.0), ("hours", 3600.0, math.inf))
    name, length, _ = next(unit for unit in units if seconds < unit[2])
    return f"{seconds / length:.3g} {name}"


def outcome(found: Outcome) -> Document:
    """What it did."""
    plan = found.plan
    name = os.path.basename(plan.path)
    measured = f"; {words(found.metrics)} on data that {name} declares public (not checked)" if found.metrics else ""
    private = "" if found.private else f"NOT PRIVATE ({found.unprotected}): "
    said = f"{private}epsilon <= {up(found.epsilon)} at delta = {plan.account.delta!r} after {found.taken:,} steps{measured}"
    data = {
        "schema": "dpcli/train/v1",
        "private": found.private,
        "steps": plan.steps,
        "repeated": found.repeated_steps,
        "metrics": dict(found.metrics),
        "method": found.method,
        "noise": found.noise,
        "folder": found.folder,
        "run": found.run,
        "result": {"epsilon_upper": found.epsilon, "delta": plan.account.delta},
        **rows_data(plan),
        "exit_code": 0,
    }
    details: tuple[str, ...] = (
        *window_note(plan),
        f"model, metrics and statement are in {shown(found.folder)}",
    )
    if found.unmeasured:
        details += (f"not measured: {visible(found.unmeasured)}; measure the model with dpcli evaluate",)
    if found.charged:
        details += (f"charged to the ledger: {found.charged}",)
    elif found.earlier:
        details += ("an earlier run's files were replaced: both runs cost epsilon, and only a ledger (--ledger) adds them up",)
    return Document(said, data, "pass" if found.private else "warn", notes=details, details=details, total=repr(found.epsilon))


def of_result(found: PrivateResult) -> Document:
    """What a notebook shows of a run that has ended."""
    return Document(str(found), {}, "pass" if found.private else "warn")

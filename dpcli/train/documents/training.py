"""The documents of `dpcli train`: `plan_document` for a dry run, and `outcome_document` for a run that has ended.

A document is what a command prints (document/document.py): a headline, lines, and the same facts as JSON (`data`). `details` are the lines
of plain text, and `notes` those of other formats. `alerts` also go to standard error. The JSON follows the schemas dpcli/train-plan/v1 and
dpcli/train/v1, so no key of it may be renamed or removed.

An *entry* is a mechanism of the file, and a *stage* a sequence of steps of one entry (plan/stages.py).
"""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Literal

from dpcli.base.errors import Unavailable
from dpcli.document.document import Document, visible
from dpcli.lint.delta import delta_errors
from dpcli.lint.documents.diagnostics import note
from dpcli.sessions.documents.dry_run import dry_run, rows_data, shown, window_note
from dpcli.train.documents.run_statement import metrics_words
from dpcli.train.plan.plan import TrainingPlan
from dpcli.train.plan.stages import Stage
from dpcli.train.run.outcome import MODEL, STATEMENT, Outcome

if TYPE_CHECKING:
    from dpcli.train.loop.private import PrivateResult
    from dpcli.train.run.training_run import Estimate


MINUTE, HOUR = 60.0, 3600.0  # in seconds


def plan_document(plan: TrainingPlan) -> Document:
    """Return the document of a dry run, with the steps, the noise, and estimates of time and memory if all libraries are installed."""
    from dpcli.train.run.training_run import estimate

    train = plan.train
    constants: tuple[str, ...] = ()
    measured: dict[str, Any] | str
    try:
        result = estimate(plan)
    except Unavailable as problem:
        measured = str(problem)
        words = f"time and memory were not estimated: {measured}"
    else:
        measured, words, constants = asdict(result), estimate_words(result), result.constants
    details = [
        f"{_steps_of(plan, stage):,} steps of {stage.entry.name} ({stage.entry.type}): noise multiplier {stage.noise_multiplier:.7g}, "
        f"about {stage.expected_batch:g} records per step"
        for stage in plan.first_stages
    ]
    details += [
        f"clipping norm {train.clipping.norm:g} ({train.clipping.style})",
        f"task {train.task}: {train.model} on {train.data}, {train.optimizer} at learning rate {train.learning_rate:g}",
        f"writes {MODEL} and {STATEMENT} to {shown(plan.folder)}",
        *window_note(plan),
        words,
    ]
    if constants:
        details.append(f"the program also reads {', '.join(constants)}: none of these may come from private records")
    data = {
        "steps": plan.steps,
        "stages": [_stage_data(plan, stage) for stage in plan.first_stages],
        "estimate": measured,
    }
    return dry_run(plan, "dpcli/train-plan/v1", data, tuple(details))


def _stage_data(plan: TrainingPlan, stage: Stage) -> dict[str, Any]:
    """Return an entry of the file as JSON values, given its first stage."""
    return {
        "mechanism": stage.entry.name,
        "steps": _steps_of(plan, stage),
        "noise_multiplier": stage.noise_multiplier,
        "expected_batch": stage.expected_batch,
    }


def _steps_of(plan: TrainingPlan, first: Stage) -> int:
    """Return the number of steps in all stages of an entry, given its first stage."""
    return sum(stage.steps for stage in plan.stages if stage.entry.name == first.entry.name)


def estimate_words(measured: Estimate) -> str:
    """Return the estimate in words."""
    return (
        f"about {duration(measured.seconds)} on this machine and {measured.bytes / 1e6:,.0f} MB of peak memory, measured on one step; "
        f"{measured.parameters:,} parameters, clipped sums by {measured.method}"
    )


def duration(seconds: float) -> str:
    """Return a duration in words, in seconds, minutes or hours, depending on its length."""
    if seconds < 2 * MINUTE:
        return f"{seconds:.3g} s"
    if seconds < 2 * HOUR:
        return f"{seconds / MINUTE:.3g} minutes"
    return f"{seconds / HOUR:.3g} hours"


def outcome_document(result: Outcome) -> Document:
    """Return the document of a run that has ended."""
    plan = result.plan
    name = os.path.basename(plan.path)
    measured = f"; {metrics_words(result.metrics)} on data that {name} declares public (not checked)" if result.metrics else ""
    warning = "" if result.private else f"NOT PRIVATE ({result.unprotected}): "
    headline = f"{warning}{result.guarantee} after {result.taken:,} steps{measured}"
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
    details = [*window_note(plan), f"model, metrics and statement are in {shown(result.folder)}"]
    if result.unmeasured is not None:
        details.append(f"no metrics: {visible(result.unmeasured)}; measure the model with dpcli evaluate")
    if result.charged is not None:
        details.append(f"charged to the ledger: {result.charged}")
    elif result.earlier:
        details.append(
            "the files of an earlier run were replaced: both runs cost epsilon, and only a ledger (--ledger) adds them up"
        )
    verdict: Literal["pass", "warn"] = "pass" if result.private else "warn"
    # An alert says that delta is too large for the number of records.
    alerts = tuple(map(note, delta_errors(plan.pipeline, plan.account.delta)))
    lines = tuple(details)
    return Document(headline, data, verdict, notes=lines, details=lines, total=repr(result.epsilon), alerts=alerts)


def of_result(result: PrivateResult) -> Document:
    """Return the document that a notebook shows for the result of dpcli.private. plugin.py names this function."""
    return Document(str(result), {}, "pass" if result.private else "warn")

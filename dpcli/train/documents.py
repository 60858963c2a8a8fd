"""A training run as a document: what it would do, and what it did."""

from __future__ import annotations

from dpcli.report.account_report import headline
from dpcli.report.document import Document
from dpcli.rounding import up
from dpcli.train.plan import Plan
from dpcli.train.run import MODEL, STATEMENT, Outcome, folder_of


def planned(plan: Plan) -> Document:
    """What `dpcli train` would do."""
    chosen = plan.train
    noise = f"noise multiplier {plan.noise_multiplier:.7g}, clipping norm {chosen.clipping.norm:g} ({chosen.clipping.style})"
    details = (
        f"{plan.steps:,} steps of {plan.entry.name}: {noise}, about {plan.expected_batch:g} records per step",
        f"task {chosen.task}: {chosen.model} on {chosen.data}, {chosen.optimizer} at learning rate {chosen.learning_rate:g}",
        f"leaves {MODEL} and {STATEMENT} in {folder_of(plan)}",
    )
    data = {
        "schema": "dpcli/train-plan/v1",
        "steps": plan.steps,
        "noise_multiplier": plan.noise_multiplier,
        "expected_batch": plan.expected_batch,
        "result": {"epsilon_upper": plan.account.upper, "delta": plan.account.delta},
        "fingerprint": plan.fingerprint(),
        "exit_code": 0,
    }
    return Document(headline(plan.account), data, "pass", notes=details, details=details, total=repr(plan.account.upper))


def outcome(found: Outcome) -> Document:
    """What it did."""
    plan = found.plan
    measured = "" if found.accuracy is None else f"; accuracy {found.accuracy:.4f} on public data"
    private = "" if found.private else "NOT PRIVATE (seeded noise): "
    said = f"{private}epsilon <= {up(found.epsilon)} at delta = {plan.account.delta!r} after {plan.steps:,} steps{measured}"
    data = {
        "schema": "dpcli/train/v1",
        "private": found.private,
        "steps": plan.steps,
        "repeated": found.repeated,
        "accuracy": found.accuracy,
        "folder": found.folder,
        "run": found.run,
        "result": {"epsilon_upper": found.epsilon, "delta": plan.account.delta},
        "exit_code": 0,
    }
    details = (f"model, metrics and statement are in {found.folder}",)
    return Document(said, data, "pass" if found.private else "warn", notes=details, details=details, total=repr(found.epsilon))

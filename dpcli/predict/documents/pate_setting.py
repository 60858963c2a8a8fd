"""What the machine form of every document about a session of votes has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpcli.file.pipeline.datasets import window_data

if TYPE_CHECKING:
    from dpcli.predict.pate.plan import VotingPlan
    from dpcli.predict.pate.sanitised import Sanitised
    from dpcli.predict.pate.transcript import Transcript

SCHEMA = "dpcli/pate/v1"


def setting(plan: VotingPlan) -> dict[str, Any]:
    """What every document of a session says of it."""
    account = plan.account
    return {
        "schema": SCHEMA,
        "pipeline": {"name": plan.pipeline.name, "path": plan.path, "sha256": plan.pipeline.sha256},
        "mechanism": {"name": plan.entry.name, "type": plan.entry.type},
        **window_data(plan.pipeline.privacy),
        "teachers": plan.pate.teachers,
        "classes": plan.pate.labels,
        "queries": plan.queries,
        "answers": plan.answers,
        "result": {
            "epsilon_upper": account.upper,
            "delta": account.delta,
            "accountant": account.winner.accountant.name if account.winner else None,
        },
    }


def counts(held: Transcript) -> dict[str, Any]:
    """What came of the queries, for the machine form."""
    return {"asked": len(held), "answered": len(held.labels), "charged_answers": len(held.answered), "lost": len(held.lost)}


def sanitised_data(plan: VotingPlan, noised: Sanitised | None) -> dict[str, Any] | None:
    """What was released of the epsilon that depends on the votes, for the machine form."""
    if noised is None or not plan.account.delta:
        return None
    return {
        "epsilon_upper": noised.epsilon(plan.account.delta),
        "delta": plan.account.delta,
        "order": noised.order,
        "rdp": noised.rdp,
        "release_rdp": noised.release_rdp,
        "failure": noised.failure,
    }

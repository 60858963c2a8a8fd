"""What a run says of itself in its folder, so that its model can be used without the file and the folder that it was trained from."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from dpcli import __version__
from dpcli.ledger.blocks.family import spelled
from dpcli.sessions.folder import replaced
from dpcli.train.run.description import SCHEMA, digest_of, is_left
from dpcli.train.run.guarantee import guarantee
from dpcli.train.run.outcome import ADAPTER, DESCRIPTION, MODEL, PIPELINE, STATEMENT, Outcome

if TYPE_CHECKING:
    from dpcli.ledger.ledger import Ledger
    from dpcli.train.tasks.learning import Learning


def describe(outcome: Outcome, problem: Learning, ledger: Ledger | None) -> None:
    """Write it, after every file that it names."""
    content = json.dumps(_content(outcome, problem, ledger), indent=1, sort_keys=True)
    replaced(os.path.join(outcome.folder, DESCRIPTION), f"{content}\n".encode())


def _content(outcome: Outcome, problem: Learning, ledger: Ledger | None) -> dict[str, Any]:
    from dpcli.train.trained.weights import frozen_digest

    plan, folder = outcome.plan, outcome.folder
    adapter = os.path.join(folder, ADAPTER)
    inside = [f"{ADAPTER}/{name}" for name in sorted(os.listdir(adapter))] if os.path.isdir(adapter) else []
    return {
        "schema": SCHEMA,
        "dpcli": __version__,
        "run": outcome.run,
        "model": {
            "task": plan.train.task,
            "source": plan.train.model,
            **problem.facts,
            "frozen_sha256": frozen_digest(problem.model),
        },
        "files": {name: digest_of(os.path.join(folder, name)) for name in (MODEL, STATEMENT, PIPELINE, *filter(is_left, inside))},
        "guarantee": guarantee(plan, outcome.repeated, outcome.private),
        "repeated": [list(portion) for portion in outcome.repeated],
        "ledger": None if ledger is None else _anchor(ledger, outcome.run),
        "metrics": dict(outcome.metrics),
        "origin": os.path.relpath(os.path.dirname(os.path.abspath(plan.path)), folder),
    }


def _anchor(ledger: Ledger, run: str) -> dict[str, Any]:
    """Where the ledger was when the run was charged."""
    state = ledger.state()
    charged, family = state.run(run), state.open_terms().family
    window = {} if family is None else {"window": list(spelled(family, charged.window))}
    found = {"dataset": ledger.dataset, "run": run, "status": charged.status, "seq": state.head.seq, "head": state.head.hash}
    return {**found, **window}

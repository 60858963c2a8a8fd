"""How a run begins, or goes on: with which state, and what is charged for it before any noise is drawn."""

from __future__ import annotations

import os
import uuid
from dataclasses import replace
from typing import TYPE_CHECKING

from dpcli.errors import InputError
from dpcli.train.outcome import METRICS, STATE
from dpcli.train.plan import Plan

if TYPE_CHECKING:
    from dpcli.ledger.ledger import Ledger
    from dpcli.train.checkpoint import Checkpoint


def begun(plan: Plan, ledger: Ledger | None, resume: bool, private: bool, folder: str) -> Checkpoint:
    """The state to begin with: of a run that did not end, under --resume, or of one that has not begun."""
    from dpcli.train.checkpoint import Checkpoint, restored

    state = os.path.join(folder, STATE)
    if not resume and os.path.lexists(state):
        raise InputError(f"{folder}: expected a new folder or --resume, found the state of a run that did not end")
    if not resume:
        os.makedirs(folder, exist_ok=True)
        open(os.path.join(folder, METRICS), "w").close()  # of a run before this one
        return Checkpoint(0, plan.fingerprint(), uuid.uuid4().hex, [], 0.0, ledger is not None, True, private, {}, {}, {})
    before = restored(state, plan.fingerprint())
    _refuse_other_books(before, ledger)
    stage = plan.stage_at(before.step)
    if not before.clean or (stage.whole and before.step > stage.start):
        before.resumed.append(before.step)
    return replace(before, private=before.private and private)


def _refuse_other_books(before: Checkpoint, ledger: Ledger | None) -> None:
    """A resumed run goes on in the ledger that was charged for it: elsewhere only what it repeats would be charged, or nothing."""
    if before.charged != (ledger is not None):
        stated = (
            ("the --ledger that was charged for this run", "none") if before.charged else ("no --ledger, as at its start", "one")
        )
        raise InputError(f"--resume: expected {stated[0]}, found {stated[1]}")
    if ledger is not None:
        ledger.state().run(before.run)


def charge(plan: Plan, ledger: Ledger | None, before: Checkpoint) -> None:
    """Charge the run, or what a resumed one may do twice.

    After a crash nobody knows how far the steps beyond the last state went: up to the next state they are charged again.
    """
    if ledger is None:
        return
    if not before.model:
        ledger.reserve(plan.pipeline, before.run, why=f"dpcli train {os.path.basename(plan.path)}")
        ledger.start(before.run)
        return
    if not before.resumed or before.resumed[-1] != before.step:
        return
    again = before.step
    ledger.spend(
        plan.costs([(again, plan.milestone(again))], beside=False),
        f"{before.run} resumed {len(before.resumed)}",
        why=f"steps that may have been done before the run was resumed at {again}",
    )

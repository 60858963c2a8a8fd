"""How a run begins, or goes on: with which state, and what is charged for it before any noise is drawn."""

from __future__ import annotations

import os
import uuid
from dataclasses import replace
from typing import TYPE_CHECKING

from dpcli.errors import InputError
from dpcli.sessions.charged import charge_run, require_going_on, require_same_books
from dpcli.sessions.priced import require_budget
from dpcli.sessions.reason import reason
from dpcli.train.plan.plan import TrainingPlan
from dpcli.train.run.outcome import METRICS, STATE

if TYPE_CHECKING:
    from dpcli.ledger.ledger import Ledger
    from dpcli.train.run.checkpoint import Checkpoint


def begun(plan: TrainingPlan, ledger: Ledger | None, resume: bool, private: bool, folder: str) -> Checkpoint:
    """The state to begin with: of a run that did not end, under --resume, or of one that has not begun.

    Raises:
        Denied: the file's own budget does not allow the run. InputError: there is no such state, or it is not this run's.
    """
    from dpcli.analysis.account import headline
    from dpcli.train.run.checkpoint import Checkpoint, restored

    state = os.path.join(folder, STATE)
    plan.require_budget()
    if not resume and os.path.lexists(state):
        raise InputError(
            f"{folder}: expected a new folder, found the state of a run that did not end: --resume goes on with it; removing {STATE} "
            "gives it up, and what was charged for it stays charged"
        )
    if not resume:
        return Checkpoint(0, plan.parts(), uuid.uuid4().hex, [], 0.0, ledger is not None, True, private, {}, {}, {})
    before = restored(state, plan.parts())
    if not 0 <= before.step < plan.steps:
        raise InputError(f"--resume: {state}: expected a step below {plan.steps}, found {before.step}")
    require_same_books("--resume", before.charged, ledger, "run")  # elsewhere only what it repeats would be charged, or nothing
    if ledger is not None:
        require_going_on("--resume", before.run, ledger, "run")
    stage = plan.stage_at(before.step)
    if not before.clean or (stage.whole and before.step > stage.start):
        before.resumed.append(before.step)
    if before.resumed:
        again = [(step, plan.milestone(step)) for step in before.resumed]
        require_budget(headline(plan.costs([(0, plan.steps), *again])).budget, f"--resume: {plan.path}")
    return replace(before, private=before.private and private)


def charge(plan: TrainingPlan, ledger: Ledger | None, before: Checkpoint, folder: str) -> None:
    """Charge the run, or what a resumed one may do twice; then nothing of an earlier run's metrics is left.

    After a crash nobody knows how far the steps beyond the last state went: up to the next state they are charged again, under a key of
    their own. After a clean stop nothing is repeated, as long as nobody goes on from a copy of the state as well.
    """
    if not before.model:
        if ledger is not None:
            charge_run(ledger, before.run, plan.pipeline, reason("train", plan.path, plan.pipeline))
        open(os.path.join(folder, METRICS), "w").close()
    elif ledger is not None and before.resumed and before.resumed[-1] == before.step:
        again = before.step
        ledger.spend(
            plan.costs([(again, plan.milestone(again))], beside=False),
            f"{before.run} resumed {uuid.uuid4().hex}",
            why=f"steps that may have been done before the run was resumed at {again}",
        )

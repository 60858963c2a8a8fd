"""A whole run: charge the ledger, train, leave a model, its metrics and a statement."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING

from dpcli.base.errors import InputError
from dpcli.base.extras import require
from dpcli.sessions.folder import exclusive
from dpcli.train.plan.plan import TrainingPlan
from dpcli.train.run.outcome import Outcome

if TYPE_CHECKING:
    from dpcli.ledger.ledger import Ledger
    from dpcli.train.run.ranks import Ranks

Report = Callable[[int, Mapping[str, float] | None], None]  # steps done, and metrics where they were just measured


def train(
    plan: TrainingPlan,
    ledger: Ledger | None = None,
    resume: bool = False,
    insecure_seed: int | None = None,
    report: Report = lambda step, metrics: None,
) -> Outcome:
    """Do what the plan says, on this process or with the others that torchrun started.

    Args:
        ledger: the run is reserved in full at the start, and charged before the first sum, which may fail by what it finds; a resumed run
            is charged again for the steps that it may repeat.
        insecure_seed: reproducible noise, which is no noise to whoever knows the seed: the statement says NOT PRIVATE, a ledger refuses.

    Raises:
        InputError: what the file asks for cannot be done. Denied: the ledger says no. LedgerError: it cannot be read.
    """
    require("torch", "safetensors")
    from dpcli.train.run.ranks import ranks_of

    if ledger is not None and insecure_seed is not None:
        raise InputError("--insecure-seed: expected no --ledger with it, found one: noise that can be repeated protects nobody")
    ranks, folder = ranks_of(plan.train.device), plan.folder
    with exclusive(folder) if ranks.first else nullcontext():
        outcome = _run(plan, ledger, resume, insecure_seed, report, ranks, folder)
    ranks.part_ways()
    return outcome


def _run(
    plan: TrainingPlan, ledger: Ledger | None, resume: bool, insecure_seed: int | None, report: Report, ranks: Ranks, folder: str
) -> Outcome:
    from dpcli.train.run.charged_run import charged_run
    from dpcli.train.run.stopping import Stopped, stoppable
    from dpcli.train.step.prepare import prepare

    (rows,) = ranks.same((plan.rows,) if ranks.first else None)  # the first alone has asked the ledger
    plan = plan.on_rows(rows)
    run = charged_run(plan, ledger, resume, insecure_seed, ranks, folder, prepare)
    with stoppable() as asked:
        try:
            for stage in plan.stages:
                run.prepared.stage(stage, lambda step: report(step, run.after(step)), asked)
        except Stopped:
            run.pause()
            ranks.part_ways()
            raise KeyboardInterrupt from None
        except BaseException as problem:
            run.charge.give_back(problem)
            raise
    return run.end()

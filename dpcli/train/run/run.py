"""A whole run: charge the ledger, train, leave a model, its metrics and a statement."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dpcli.errors import InputError
from dpcli.extras import require
from dpcli.sessions.folder import exclusive
from dpcli.train.plan.plan import TrainingPlan
from dpcli.train.run.outcome import STATE, Outcome
from dpcli.train.run.results import ended, log
from dpcli.train.run.start import begun, charge

if TYPE_CHECKING:
    from dpcli.ledger.ledger import Ledger
    from dpcli.train.run.checkpoint import Checkpoint
    from dpcli.train.run.ranks import Ranks
    from dpcli.train.step.prepare import Prepared

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
        ledger: charged in full before the first noise; a resumed run is charged again for the steps that it may repeat.
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
    from dpcli.train.noise.randomness import insecure_seed as seeded
    from dpcli.train.noise.randomness import system_entropy
    from dpcli.train.run.stopping import Stopped, stoppable
    from dpcli.train.step.prepare import prepare

    before = ranks.same(begun(plan, ledger, resume, insecure_seed is None, folder) if ranks.first else None)
    streams = system_entropy() if insecure_seed is None else seeded(insecure_seed, before.step)
    prepared = prepare(plan, streams, ranks, before if before.model else None, folder)
    prepared.rehearse()
    if ranks.first:
        charge(plan, ledger, before, folder)
    state = _State(prepared, before, os.path.join(folder, STATE), ranks)
    state.save()  # before the first noise: what is resumed after a crash is known to have begun
    ranks.same(True)  # nobody draws before the first has charged

    def after(step: int) -> None:
        metrics = None
        if step == plan.milestone(step - 1) and step < plan.steps:
            state.save()
            metrics = prepared.measure()
            log(folder, {"step": step, **metrics}, ranks)
        report(step, metrics)

    with stoppable() as asked:
        try:
            for stage in plan.stages:
                prepared.stage(stage, after, asked)
        except Stopped:
            state.save(clean=True)
            ranks.part_ways()
            raise KeyboardInterrupt from None
    with prepared.final():
        return ended(prepared, folder, before, ledger)


@dataclass(frozen=True, slots=True)
class _State:
    """What a run can be resumed from."""

    prepared: Prepared
    before: Checkpoint
    path: str
    ranks: Ranks

    def save(self, clean: bool = False) -> None:
        """The first process writes it."""
        from dpcli.train.run.checkpoint import save

        if not self.ranks.first:
            return
        trainer = self.prepared.trainer
        now = replace(
            self.before,
            step=trainer.step,
            bound=trainer.gradients.clip.bound,
            clean=clean,
            average={} if trainer.average is None else trainer.average.values,
            model=trainer.model.state_dict(),
            optimizer=trainer.optimizer.state_dict(),
        )
        self.prepared.require_buffers()
        save(self.path, now)

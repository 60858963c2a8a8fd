"""A run that is charged and may draw noise: what `dpcli train` and a loop of the caller's own have in common."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dpcli.base.errors import InputError
from dpcli.random.streams import Streams, insecure_seed, system_entropy
from dpcli.train.plan.plan import TrainingPlan
from dpcli.train.run.checkpoint import save
from dpcli.train.run.outcome import METRICS, STATE, Outcome
from dpcli.train.run.results import ended, log, measured
from dpcli.train.run.start import RunCharge, begun, reserved

if TYPE_CHECKING:
    from dpcli.ledger.ledger import Ledger
    from dpcli.train.run.checkpoint import Checkpoint
    from dpcli.train.run.ranks import Ranks
    from dpcli.train.step.prepare import Prepared

    Prepare = Callable[[TrainingPlan, Streams, Ranks, Checkpoint | None, str], Prepared]


def charged_run(
    plan: TrainingPlan, ledger: Ledger | None, resume: bool, seed: int | None, ranks: Ranks, folder: str, prepare: Prepare
) -> ChargedRun:
    """Everything up to the first step: what is not honoured is refused, then the charge is reserved in the ledger.

    Raises as `dpcli.train.run.run.train` does.
    """
    if plan.laid_open and (ledger is not None or resume):
        raise InputError(
            f'audit.canary: expected a run that is neither charged nor resumed with "{plan.canary}", found '
            f"{'a ledger' if ledger is not None else '--resume'}: its steps are laid open to an audit, and its model is not private"
        )
    before = ranks.same(begun(plan, ledger, resume, seed is None and not plan.laid_open, folder) if ranks.first else None)
    streams = system_entropy() if seed is None else insecure_seed(seed, before.step)
    prepared = prepare(plan, streams, ranks, before if before.model else None, folder)
    prepared.rehearse()
    if not before.model:
        prepared.measure()  # a metric that fails on any model fails before anything is charged
    charge = reserved(plan, ledger if ranks.first else None, before)
    run = ChargedRun(plan, prepared, before, ledger, folder, ranks, charge)
    prepared.trainer.before_sums = run.start
    ranks.same(True)  # nobody reads a record before the first has reserved
    return run


@dataclass(frozen=True, slots=True)
class ChargedRun:
    """before: the state that it began with."""

    plan: TrainingPlan
    prepared: Prepared
    before: Checkpoint
    ledger: Ledger | None
    folder: str
    ranks: Ranks
    charge: RunCharge

    def start(self) -> None:
        """Called before each sum: before the first the run is charged, and a state saved, which tells that it has begun after a crash.

        Then nothing of an earlier run's metrics is left.
        """
        if self.charge.started:
            return
        self.charge.start()
        if self.ranks.first and not self.before.model:
            open(os.path.join(self.folder, METRICS), "w").close()
        self.save()

    def pause(self) -> None:
        """Leave a state that nothing is repeated from; where no step was taken, there is none and the charge is given back."""
        if self.charge.started:
            self.save(clean=True)
        else:
            self.charge.give_back()

    def after(self, step: int) -> Mapping[str, float] | None:
        """Save a state now and then and after the last step, and return the metrics that were measured with it.

        What fails after the last step is done again from its state, without another step.
        """
        if step != self.plan.milestone(step - 1):
            return None
        last = step == self.plan.steps
        with (
            suppress(InputError) if last else nullcontext()
        ):  # where the disk has no room for the state it may have some for the model
            self.save(clean=last)
        if last:
            return None
        metrics, unmeasured = measured(self.prepared)
        log(self.folder, {"step": step, **metrics, **({"unmeasured": unmeasured} if unmeasured else {})}, self.ranks)
        return metrics

    def save(self, clean: bool = False) -> None:
        """What the run can be resumed from; the first process writes it."""
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
        save(os.path.join(self.folder, STATE), now)

    def end(self, unchecked: tuple[str, ...] = ()) -> Outcome:
        """Leave the model and the statement, and commit. unchecked: what the statement says that nobody looked at."""
        self.start()
        if self.prepared.trainer.step < self.plan.steps:
            self.save(clean=True)
        with self.prepared.final():
            return ended(self.prepared, self.folder, self.before, self.ledger, unchecked)

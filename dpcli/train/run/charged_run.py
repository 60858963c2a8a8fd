"""A run that is charged and may draw noise, of `dpcli train` or of a loop of the caller's own: how it begins, goes on and ends."""

from __future__ import annotations

import contextlib
import logging
import os
import uuid
from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dpcli.base.errors import Denied, DpcliError, InputError
from dpcli.file.toml.shown import first_names
from dpcli.random.streams import Streams, insecure_seed, system_entropy
from dpcli.sessions.charged import charge_run, reason, require_going_on, require_same_books
from dpcli.sessions.priced import require_budget
from dpcli.train.plan.plan import TrainingPlan
from dpcli.train.run.description import description_in
from dpcli.train.run.outcome import KEPT, METRICS, STATE, Outcome
from dpcli.train.run.processes import first_process
from dpcli.train.run.results import ended, log, measured
from dpcli.train.run.saved_state import save

if TYPE_CHECKING:
    from dpcli.file.pipeline.model import Pipeline
    from dpcli.ledger.ledger import Ledger
    from dpcli.train.run.saved_state import Checkpoint


def begun(plan: TrainingPlan, ledger: Ledger | None, resume: bool, private: bool, folder: str) -> Checkpoint:
    """Return the state to begin with: of a run that did not end, under --resume, or of one that has not begun.

    Raises:
        Denied: the file's own budget does not allow the run. InputError: there is no such state, or it is not this run's.
    """
    from dpcli.analysis.account import headline
    from dpcli.train.run.saved_state import Checkpoint, restored

    state = os.path.join(folder, STATE)
    plan.require_budget()
    _require_unfinished(folder, state, ledger)
    if not resume and os.path.lexists(state):
        raise InputError(
            f"{folder}: expected a new folder, found the state of a run that did not end: --resume goes on with it; removing {STATE} "
            "gives it up, and what was charged for it stays charged"
        )
    if not resume:
        return Checkpoint(0, plan.parts(), uuid.uuid4().hex, [], 0.0, ledger is not None, True, private, {}, {}, {})
    before = restored(state, plan.parts())
    if not 0 <= before.step <= plan.steps:
        raise InputError(f"--resume: {state}: expected a step from 0 to {plan.steps}, found {before.step}")
    require_same_books("--resume", before.charged, ledger, "run")  # elsewhere only what it repeats would be charged, or nothing
    if ledger is not None:
        require_going_on("--resume", before.run, ledger, "run")
    if before.step < plan.steps and not never_started(ledger, before):  # else killed before its first sum: nothing is repeated
        stage = plan.stage_at(before.step)
        if not before.clean or (stage.indivisible and before.step > stage.start):
            before.resumed.append(before.step)
    if before.resumed:
        again = [(step, plan.milestone(step)) for step in before.resumed]
        require_budget(headline(plan.costs([(0, plan.steps), *again])).budget, f"--resume: {plan.path}")
    return replace(before, private=before.private and private)


def never_started(ledger: Ledger | None, before: Checkpoint) -> bool:
    """Return whether the ledger knows that the run of this state has not begun: its state is written first, and then it is charged."""
    if ledger is None or before.step > 0:
        return False
    run = ledger.state().runs.get(before.run)
    return run is not None and run.status == "reserved"


def _require_unfinished(folder: str, state: str, ledger: Ledger | None) -> None:
    """Raise InputError where the state is of a run whose result is in the folder, and remove it: a kill came just before that."""
    from dpcli.train.run.saved_state import loaded

    try:
        before, result = loaded(state), description_in(folder)
    except InputError:  # there is no state, or no result
        return
    charged = None if ledger is None else ledger.state().runs.get(before.run)
    committed = charged is not None and charged.status == "committed"
    if before.run != result.run or before.charged != (ledger is not None) or (before.charged and not committed):
        return
    for name in (state, os.path.join(folder, KEPT)):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)
    raise InputError(
        f"{folder}: expected a run that goes on, found one that has ended: its model is there. The state that it left is removed now; "
        "the same command without --resume begins another run, which is charged again"
    )


@dataclass(slots=True)
class RunCharge:
    """The price of a run: reserved before its first step, and given back where it stops before that.

    A step reads private records before it draws noise, and may fail by what it finds: a loss that raises, a sum that no record alone
    confirms. So the run is started before the first sum and not only before the first noise: what was given back after a look at a record
    would say so, in books that others read, for nothing. Until then a stop depends on the file, the program and made-up records.

    key: the run's, or where steps may be repeated one of their own; None where there is nothing to charge. cost: of it.
    """

    ledger: Ledger | None
    key: str | None
    cost: Pipeline
    why: str
    repeats: bool
    started: bool = False

    def start(self) -> None:
        """Charge it, whatever happens from then on. Raises LedgerError where the books say otherwise: draw nothing then."""
        if self.ledger is not None and self.key is not None:
            charge_run(self.ledger, self.key, self.cost, self.why)
            if self.repeats:
                self.ledger.commit(self.key)  # steps of another run, which ends by its own key
        self.started = True

    def give_back(self, stopped_by: BaseException | None = None) -> bool:
        """Give back the reservation, with the reason, unless it was started; return whether nothing is charged now.

        Where the books cannot be written, it stays charged.
        """
        if self.started:
            return False
        if self.ledger is None or self.key is None:
            return True
        why = str(stopped_by) if isinstance(stopped_by, DpcliError) else type(stopped_by).__name__
        try:
            self.ledger.void(self.key, f"stopped before the first step{'' if stopped_by is None else f': {why}'}")
        except DpcliError:
            return False
        return True


def reserved(plan: TrainingPlan, ledger: Ledger | None, before: Checkpoint) -> RunCharge:
    """Reserve the run in the ledger, or what a resumed one may do twice.

    After a crash nobody knows how far the steps beyond the last state went: up to the next state they are charged again, under a key of
    their own. After a clean stop nothing is repeated, as long as nobody goes on from a copy of the state as well.
    """
    key, cost, why = None, plan.pipeline, reason("train", plan.path, plan.pipeline)
    new = not before.model or never_started(ledger, before)
    if new:
        key = before.run
    elif before.resumed[-1:] == [before.step]:
        key = f"{before.run} resumed {uuid.uuid4().hex}"
        cost = plan.costs([(before.step, plan.milestone(before.step))], with_rest=False)
        why = f"steps that may have been done before the run was resumed at {before.step}"
    if ledger is not None and key is not None and key not in ledger.state().runs:
        try:
            ledger.reserve(cost, key, why=why)
        except Denied as error:
            idle = [run.key for run in ledger.state().runs.values() if run.status == "reserved"]
            if not idle:
                raise
            raise Denied(
                f"{error}; reserved and never started: {first_names(idle)} (dpcli budget void gives back what was never begun)"
            ) from None
    return RunCharge(ledger, key, cost, why, not new)


if TYPE_CHECKING:
    from dpcli.ledger.ledger import Ledger
    from dpcli.train.run.ranks import Ranks
    from dpcli.train.run.saved_state import Checkpoint
    from dpcli.train.step.prepare import Prepared

    Prepare = Callable[[TrainingPlan, Streams, Ranks, Checkpoint | None, str], Prepared]


def charged_run(
    plan: TrainingPlan, ledger: Ledger | None, resume: bool, seed: int | None, ranks: Ranks, folder: str, prepare: Prepare
) -> ChargedRun:
    """Prepare everything up to the first step: refuse what is not honoured, then reserve the charge in the ledger.

    Raises as `dpcli.train.run.training_run.train` does.
    """
    if plan.laid_open and (ledger is not None or resume):
        raise InputError(
            f'audit.canary: expected a run that is neither charged nor resumed with "{plan.canary}", found '
            f"{'a ledger' if ledger is not None else '--resume'}: its steps are laid open to an audit, and its model is not private"
        )
    before = ranks.same(begun(plan, ledger, resume, seed is None and not plan.laid_open, folder) if ranks.first else None)
    streams = system_entropy() if seed is None else insecure_seed(seed, before.step)
    prepared = prepare(plan, streams, ranks, before if before.model else None, folder)
    tell_of_a_loop(prepared, prepared.rehearse())
    if not before.model:
        prepared.measure()  # a metric that fails on any model fails before anything is charged
    charge = reserved(plan, ledger if ranks.first else None, before)
    run = ChargedRun(plan, prepared, before, ledger, folder, ranks, charge)
    prepared.trainer.before_sums = run.start
    ranks.same(True)  # nobody reads a record before the first has reserved
    return run


def tell_of_a_loop(prepared: Prepared, seconds: float) -> None:
    """Log how long a run takes that computes one record at a time, each of which takes so many seconds."""
    method, stages = prepared.trainer.gradients.describe(), prepared.plan.stages
    if method.startswith("loop") and first_process():
        a_step = seconds * max(stage.expected_batch for stage in stages)
        every = seconds * sum(stage.steps * stage.expected_batch for stage in stages)
        logging.getLogger("dpcli").warning(
            f"dpcli: one record is computed at a time ({method}): about {a_step:,.3g} s a step, {every:,.0f} s in all"
        )


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
        """Save a state, and then charge the run, before its first sum: what is charged can be gone on with, whenever it is killed.

        Then nothing of an earlier run's metrics is left.
        """
        if self.charge.started:
            return
        self.save()
        self.charge.start()
        if self.ranks.first and self.before.step == 0:
            open(os.path.join(self.folder, METRICS), "w").close()

    def give_back(self, stopped_by: BaseException | None = None) -> None:
        """Give back what was reserved, and leave no state of a run that never began."""
        if self.charge.give_back(stopped_by) and self.ranks.first and not self.before.model:
            with suppress(FileNotFoundError):
                os.unlink(os.path.join(self.folder, STATE))

    def pause(self) -> None:
        """Leave a state that nothing is repeated from; where no step was taken, there is none and the charge is given back."""
        if self.charge.started:
            self.save(clean=True)
        else:
            self.give_back()

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
        """Write what the run can be resumed from; the first process does."""
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

"""A run with its charge in the ledger, from `dpcli train` or the user's own loop: how it starts, resumes and ends."""

from __future__ import annotations

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
from dpcli.train.run.outcome import METRICS, STATE, Outcome
from dpcli.train.run.processes import first_process
from dpcli.train.run.results import finish_run, log, measured, remove_state
from dpcli.train.run.saved_state import Checkpoint, load_checkpoint, restored, save

if TYPE_CHECKING:
    from dpcli.file.pipeline.model import Pipeline
    from dpcli.ledger.ledger import Ledger
    from dpcli.train.run.ranks import Ranks
    from dpcli.train.step.prepare import Prepared

    Prepare = Callable[[TrainingPlan, Streams, Ranks, Checkpoint | None, str], Prepared]


def initial_state(plan: TrainingPlan, ledger: Ledger | None, resume: bool, private: bool, folder: str) -> Checkpoint:
    """Return the state at the start of a run. It is new or, with --resume, the saved one.

    Raises:
        Denied: The file's own budget does not allow the run.
        InputError: There is no saved state to resume, or it is of another run. Without --resume, the folder has the state of a run.
    """
    state = os.path.join(folder, STATE)
    plan.require_budget()
    _require_unfinished(folder, state, ledger)
    if resume:
        return _resumed_state(plan, ledger, private, state)
    if os.path.lexists(state):
        raise InputError(
            f"{folder}: expected a new folder, found the state of a run that did not end: --resume goes on with it; removing {STATE} "
            "gives it up, and what was charged for it stays charged"
        )
    return Checkpoint(
        step=0,
        parts=plan.parts(),
        run=uuid.uuid4().hex,
        resumed=[],
        bound=0.0,
        charged=ledger is not None,
        clean=True,
        private=private,
        model={},
        optimizer={},
        average={},
    )


def _resumed_state(plan: TrainingPlan, ledger: Ledger | None, private: bool, state: str) -> Checkpoint:
    """Return the saved state. The resumption is added to it if steps may be repeated."""
    from dpcli.analysis.account import headline

    before = restored(state, plan.parts())
    if not 0 <= before.step <= plan.steps:
        raise InputError(f"--resume: {state}: expected a step from 0 to {plan.steps}, found {before.step}")
    require_same_books("--resume", before.charged, ledger, "run")  # another ledger would be charged for the repeated steps only
    if ledger is not None:
        require_going_on("--resume", before.run, ledger, "run")
    if before.step < plan.steps and not never_started(ledger, before):  # otherwise there is no step that could be repeated
        stage = plan.stage_at(before.step)
        if not before.clean or (stage.indivisible and before.step > stage.start):
            before.resumed.append(before.step)
    if before.resumed:
        costs = plan.costs([(0, plan.steps), *plan.repeated_portions(before.resumed)])
        require_budget(headline(costs).budget, f"--resume: {plan.path}")
    return replace(before, private=before.private and private)


def never_started(ledger: Ledger | None, before: Checkpoint) -> bool:
    """Check whether the ledger shows that the run has not begun. This can happen because a state is saved before the run is charged."""
    if ledger is None or before.step > 0:
        return False
    run = ledger.state().runs.get(before.run)
    return run is not None and run.status == "reserved"


def _require_unfinished(folder: str, state: str, ledger: Ledger | None) -> None:
    """Check that the folder has no result of the run whose state it has.

    Otherwise the run was killed after it had written its result, and before it removed its state. The state is then removed.

    Raises:
        InputError: The run has ended.
    """
    try:
        before, result = load_checkpoint(state), description_in(folder)
    except InputError:  # there is no state, or no result
        return
    charged = None if ledger is None else ledger.state().runs.get(before.run)
    committed = charged is not None and charged.status == "committed"
    if before.run != result.run or before.charged != (ledger is not None) or (before.charged and not committed):
        return
    remove_state(folder)
    raise InputError(
        f"{folder}: expected a run that goes on, found one that has ended: its model is there. The state that it left is removed now; "
        "the same command without --resume begins another run, which is charged again"
    )


@dataclass(slots=True)
class RunCharge:
    """The charge of a run. It is reserved before the first step, and released if the run stops before that step.

    A step reads private records before it draws noise, and may fail because of a record. So the run is charged before the first sum, not
    just before the first noise: a charge that is released after a record was read would reveal something about it to readers of the
    ledger. Before that point, a failure depends only on the file, the program and synthetic records.

    Attributes:
        key: Key of the run, or of the steps that may be repeated; None if there is nothing to charge.
        cost: Pipeline whose cost is charged under the key.
        why: Reason for the charge, in words, for the ledger.
        repeats: Whether the charge is for repeated steps.
        started: Whether the run was charged.
    """

    ledger: Ledger | None
    key: str | None
    cost: Pipeline
    why: str
    repeats: bool
    started: bool = False

    def start(self) -> None:
        """Charge the run permanently. Raises LedgerError if the ledger refuses; no noise may be drawn then."""
        if self.ledger is not None and self.key is not None:
            charge_run(self.ledger, self.key, self.cost, self.why)
            if self.repeats:
                self.ledger.commit(self.key)  # the run itself is committed by its own key
        self.started = True

    def give_back(self, stopped_by: BaseException | None = None) -> bool:
        """Release the reservation unless the run was charged. Return whether nothing is reserved or charged now.

        If the ledger cannot be written, the reservation remains.

        Args:
            stopped_by: Error that stopped the run, for the reason in the ledger.
        """
        if self.started:
            return False
        if self.ledger is None or self.key is None:
            return True
        why = "stopped before the first step"
        if stopped_by is not None:
            why += f": {stopped_by if isinstance(stopped_by, DpcliError) else type(stopped_by).__name__}"
        try:
            self.ledger.void(self.key, why)
        except DpcliError:
            return False
        return True


def reserve_charge(plan: TrainingPlan, ledger: Ledger | None, before: Checkpoint) -> RunCharge:
    """Reserve a run in the ledger, or the steps that a resumed run may repeat.

    After a crash it is unknown how many steps followed the last saved state. The steps up to the next state are therefore charged again,
    under a separate key. After a clean stop no step is repeated, unless someone also resumes from a copy of the state.
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
        _reserve(ledger, cost, key, why)
    return RunCharge(ledger, key, cost, why, not new)


def _reserve(ledger: Ledger, cost: Pipeline, key: str, why: str) -> None:
    """Reserve a cost. If the ledger denies it, the message names reservations of runs that never started."""
    try:
        ledger.reserve(cost, key, why=why)
    except Denied as error:
        idle = [run.key for run in ledger.state().runs.values() if run.status == "reserved"]
        if not idle:
            raise
        raise Denied(
            f"{error}; reserved and never started: {first_names(idle)} (dpcli budget void gives back what was never begun)"
        ) from None


def charged_run(
    plan: TrainingPlan, ledger: Ledger | None, resume: bool, seed: int | None, ranks: Ranks, folder: str, prepare: Prepare
) -> ChargedRun:
    """Prepare a run up to its first step. All checks are made before the charge is reserved in the ledger.

    Raises the errors of `dpcli.train.run.training_run.train`.
    """
    if plan.laid_open and (ledger is not None or resume):
        raise InputError(
            f'audit.canary: expected a run that is neither charged nor resumed with "{plan.canary}", found '
            f"{'a ledger' if ledger is not None else '--resume'}: its steps are laid open to an audit, and its model is not private"
        )
    private = seed is None and not plan.laid_open
    before = ranks.broadcast(initial_state(plan, ledger, resume, private, folder) if ranks.first else None)
    streams = system_entropy() if seed is None else insecure_seed(seed, before.step)
    prepared = prepare(plan, streams, ranks, before if before.model else None, folder)
    warn_of_loop(prepared, prepared.rehearse())
    if not before.model:
        prepared.measure()  # if a metric fails on every model, it fails before anything is charged
    charge = reserve_charge(plan, ledger if ranks.first else None, before)
    run = ChargedRun(plan, prepared, before, ledger, folder, ranks, charge)
    prepared.trainer.before_sums = run.start
    ranks.broadcast(True)  # no process reads a record before the first process has made the reservation
    return run


def warn_of_loop(prepared: Prepared, seconds: float) -> None:
    """Log the expected duration of a run that processes one record at a time, given the seconds that one record takes."""
    method, stages = prepared.trainer.gradients.describe(), prepared.plan.stages
    if method.startswith("loop") and first_process():
        a_step = seconds * max(stage.expected_batch for stage in stages)
        every = seconds * sum(stage.steps * stage.expected_batch for stage in stages)
        logging.getLogger("dpcli").warning(
            f"dpcli: one record is computed at a time ({method}): about {a_step:,.3g} s a step, {every:,.0f} s in all"
        )


@dataclass(frozen=True, slots=True)
class ChargedRun:
    """A run that is prepared, with its reservation in the ledger.

    Attributes:
        before: State of the run at its start.
    """

    plan: TrainingPlan
    prepared: Prepared
    before: Checkpoint
    ledger: Ledger | None
    folder: str
    ranks: Ranks
    charge: RunCharge

    def start(self) -> None:
        """Save a state, charge the run, and clear the metrics of an earlier run. It must be called before the first sum.

        The state is saved before the charge, so that a charged run can always be resumed.
        """
        if self.charge.started:
            return
        self.save()
        self.charge.start()
        if self.ranks.first and self.before.step == 0:
            open(os.path.join(self.folder, METRICS), "w").close()

    def give_back(self, stopped_by: BaseException | None = None) -> None:
        """Release the reservation if no step began, and remove the state of a new run."""
        if self.charge.give_back(stopped_by) and self.ranks.first and not self.before.model:
            with suppress(FileNotFoundError):
                os.unlink(os.path.join(self.folder, STATE))

    def pause(self) -> None:
        """Save a state from which the run resumes without repeating a step. Before the first step, release the reservation instead."""
        if self.charge.started:
            self.save(clean=True)
        else:
            self.give_back()

    def after(self, step: int) -> Mapping[str, float] | None:
        """Save a state at each milestone of the plan and after the last step, and return the metrics measured there.

        If writing the results fails after the last step, they can be written from that state without another step.
        """
        if step != self.plan.milestone(step - 1):
            return None
        last = step == self.plan.steps
        # After the last step, errors are suppressed: a disk that is too full for the state may have room for the model.
        with suppress(InputError) if last else nullcontext():
            self.save(clean=last)
        if last:
            return None
        metrics, unmeasured = measured(self.prepared)
        log(self.folder, {"step": step, **metrics, **({"unmeasured": unmeasured} if unmeasured else {})}, self.ranks)
        return metrics

    def save(self, clean: bool = False) -> None:
        """Save the state from which the run can be resumed. Only the first process writes it.

        Args:
            clean: Whether no step can have followed this state.
        """
        if not self.ranks.first:
            return
        trainer = self.prepared.trainer
        state = replace(
            self.before,
            step=trainer.step,
            bound=trainer.gradients.clip.bound,
            clean=clean,
            average={} if trainer.average is None else trainer.average.values,
            model=trainer.model.state_dict(),
            optimizer=trainer.optimizer.state_dict(),
        )
        self.prepared.require_buffers()
        save(os.path.join(self.folder, STATE), state)

    def end(self, unchecked: tuple[str, ...] = ()) -> Outcome:
        """Write the model and the statement, commit the run, and return the outcome.

        Args:
            unchecked: As in `Outcome`.
        """
        self.start()
        if self.prepared.trainer.step < self.plan.steps:
            self.save(clean=True)
        with self.prepared.final_weights():
            return finish_run(self.prepared, self.folder, self.before, self.ledger, unchecked)

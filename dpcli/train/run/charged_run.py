"""A training run with its charge in the ledger: how it starts, resumes, pauses and ends.

The *ledger* holds what each release has cost, and refuses a run that would exceed the budget. The run belongs to `dpcli train`
(training_run.py), or to the user's own loop with `dpcli.private` (loop/steps.py). `charged_run` prepares it and reserves its cost in the
ledger. The caller takes steps; the first one calls `ChargedRun.start`, which saves a state and makes the charge permanent. At the end,
`ChargedRun.end` writes the files and commits the charge. A charged run can therefore be resumed after a crash at any point. Steps that may
have been taken before a crash are charged again. A run that an error stops before its first step gives its reservation back.

In the ledger a charge is first *reserved*, then *started* (it can no longer be taken back), and at last *committed*. A reservation that is
given back becomes *void*.
"""

from __future__ import annotations

import logging
import os
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dpcli.base.errors import Denied, DpcliError, InputError
from dpcli.file.toml.shown import first_names
from dpcli.random.streams import Streams, insecure_seed, system_entropy
from dpcli.sessions.charged import charge_run, reason, require_same_ledger, require_unfinished
from dpcli.sessions.priced import require_budget
from dpcli.train.plan.plan import TrainingPlan
from dpcli.train.run.description import description_in
from dpcli.train.run.outcome import METRICS, STATE, Outcome
from dpcli.train.run.processes import first_process
from dpcli.train.run.results import append_metrics, finish_run, remove_state, try_to_measure
from dpcli.train.run.saved_state import Checkpoint, load_checkpoint, matching_checkpoint, save

if TYPE_CHECKING:
    from dpcli.file.pipeline.model import Pipeline
    from dpcli.ledger.ledger import Ledger
    from dpcli.train.run.ranks import Ranks
    from dpcli.train.step.prepare import Prepared

    Prepare = Callable[[TrainingPlan, Streams, Ranks, Checkpoint | None, str], Prepared]


def initial_state(plan: TrainingPlan, ledger: Ledger | None, folder: str, *, resume: bool, private: bool) -> Checkpoint:
    """Return the state at the start of a run: the saved state with --resume, or a new one otherwise.

    Args:
        private: Whether the noise of the coming steps is secret.

    Raises:
        Denied: The budget in the file does not allow the run.
        InputError: With --resume, there is no saved state, or the state is of another run. Without --resume, the folder contains the state
            of an unfinished run, or the folder's run has just ended.
    """
    state = os.path.join(folder, STATE)
    plan.require_budget()
    _require_not_ended(folder, state, ledger)
    if resume:
        return _resumed_state(plan, ledger, state, private=private)
    if os.path.lexists(state):
        raise InputError(
            f"{folder}: expected a new folder, found the state of a run that did not end: continue it with --resume (resume=True in "
            f"Python), or remove {STATE} to abandon it; its charge remains"
        )
    return Checkpoint(
        step=0,
        parts=plan.parts(),
        run=uuid.uuid4().hex,
        resumed=[],
        bound=0.0,  # not used before `save` sets it
        charged=ledger is not None,
        clean=True,
        private=private,
        model={},
        optimizer={},
        average={},
    )


def _resumed_state(plan: TrainingPlan, ledger: Ledger | None, state: str, *, private: bool) -> Checkpoint:
    """Return the saved state. If steps may be repeated, the number of the present step is added to `resumed`.

    Raises:
        Denied: The budget in the file does not allow the repeated steps.
        InputError: There is no saved state, or it belongs to another plan or another ledger.
    """
    from dpcli.analysis.account import headline

    saved = matching_checkpoint(state, plan.parts())
    if not 0 <= saved.step <= plan.steps:
        raise InputError(f"--resume: {state}: expected a step from 0 to {plan.steps}, found {saved.step}")
    require_same_ledger("--resume", saved.charged, ledger, "run")  # a ledger new to the run would have only the repeated steps
    if ledger is not None:
        require_unfinished("--resume", saved.run, ledger, "run")
    may_repeat_steps = saved.step < plan.steps and not never_started(ledger, saved)
    if may_repeat_steps:
        stage = plan.stage_at(saved.step)
        # An indivisible stage, such as a pass, cannot continue in its middle: its order and its correlated noise are not saved. The steps
        # that are left cost as much as a complete stage, even after a clean stop.
        if not saved.clean or (stage.indivisible and saved.step > stage.start):
            saved.resumed.append(saved.step)
    if saved.resumed:
        costs = plan.costs([(0, plan.steps), *plan.repeated_portions(saved.resumed)])
        require_budget(headline(costs).budget, f"--resume: {plan.path}")
    return replace(saved, private=saved.private and private)


def never_started(ledger: Ledger | None, initial: Checkpoint) -> bool:
    """Return whether the run took no step, because it is only reserved in the ledger. Without a ledger, the result is False.

    Such a run may have a saved state, because the state is saved before the charge.
    """
    if ledger is None or initial.step > 0:
        return False
    run = ledger.state().runs.get(initial.run)
    return run is not None and run.status == "reserved"


def _require_not_ended(folder: str, state: str, ledger: Ledger | None) -> None:
    """Raise InputError if the folder contains both a state and the result of the same run, and remove the state.

    The run was then killed after it had ended and before it removed its state. A run that its ledger has not committed has not ended.
    """
    try:
        saved, result = load_checkpoint(state), description_in(folder)
    except InputError:  # there is no state, or no result
        return
    if saved.run != result.run or saved.charged != (ledger is not None):  # another run, or only one of the two has a ledger
        return
    if ledger is not None:
        charged = ledger.state().runs.get(saved.run)
        if charged is None or charged.status != "committed":
            return
    remove_state(folder)
    raise InputError(
        f"{folder}: expected an unfinished run, found one that has ended and left its model. Its old state was removed just now; "
        "the same command without --resume begins another run, which is charged again"
    )


@dataclass(slots=True)
class RunCharge:
    """The charge of a run: reserved before the first step, and released if the run stops before that step.

    The run is charged before its first sum over private records. From then on, a failure may depend on a record, and a released charge
    would reveal that. Before the first sum, a failure depends only on the file, the program and synthetic records.

    Attributes:
        key: Key of the run, or of the steps that may be repeated; None if there is nothing to charge.
        why: Reason for the charge, in words, for the ledger.
        repeats: Whether the charge is for the steps that a resumed run may repeat, and not for the run itself.
        started: Whether the charge is permanent.
    """

    ledger: Ledger | None
    key: str | None
    cost: Pipeline
    why: str
    repeats: bool
    started: bool = False

    def start(self) -> None:
        """Charge the run permanently. Do nothing in a ledger if there is nothing to charge.

        Raises:
            Denied, LedgerError: The ledger refuses the charge, or has voided the run. No record may be read and no noise drawn then.
        """
        if self.ledger is not None and self.key is not None:
            charge_run(self.ledger, self.key, self.cost, self.why)
            if self.repeats:
                self.ledger.commit(self.key)  # the run itself is committed later, under the key of the run
        self.started = True

    def give_back(self, stopped_by: BaseException | None = None) -> bool:
        """Release the reservation of a run that was not charged. Return True if no reservation and no charge remains.

        If the ledger cannot be written, the reservation remains.

        Args:
            stopped_by: Error that stopped the run. The ledger names it as the reason.
        """
        if self.started:
            return False
        if self.ledger is None or self.key is None:
            return True
        try:
            self.ledger.void(self.key, _reason_to_stop(stopped_by))
        except DpcliError:
            return False
        return True


def _reason_to_stop(error: BaseException | None) -> str:
    """Return the reason why a run stopped before its first step, in words. The message of an unknown error may quote records."""
    if error is None:
        return "stopped before the first step"
    return f"stopped before the first step: {error if isinstance(error, DpcliError) else type(error).__name__}"


def reserve_charge(plan: TrainingPlan, ledger: Ledger | None, initial: Checkpoint) -> RunCharge:
    """Return the charge of a new run, or of the steps that a resumed run may repeat. It is reserved in the ledger if it is not yet.

    After a crash it is unknown how many steps followed the last saved state. The steps up to the next state are therefore charged again,
    under a separate key. After a clean stop, no step is repeated and nothing is reserved.

    Raises Denied if the ledger refuses the cost.
    """
    key, cost, why = None, plan.pipeline, reason("train", plan.path, plan.pipeline)
    is_new = not initial.model or never_started(ledger, initial)
    if is_new:
        key = initial.run
    elif initial.resumed[-1:] == [initial.step]:  # this resumption may repeat steps
        key = f"{initial.run} resumed {uuid.uuid4().hex}"
        cost = plan.costs([(initial.step, plan.milestone(initial.step))], with_rest=False)
        why = f"steps that may have been done before the run was resumed at {initial.step}"
    if ledger is not None and key is not None and key not in ledger.state().runs:
        _reserve(ledger, cost, key, why)
    return RunCharge(ledger, key, cost, why, repeats=not is_new)


def _reserve(ledger: Ledger, cost: Pipeline, key: str, why: str) -> None:
    """Reserve a cost in the ledger.

    Raises:
        Denied: The ledger refuses the cost. The message names the reservations of other runs that were not charged yet.
    """
    try:
        ledger.reserve(cost, key, why=why)
    except Denied as error:
        idle = [run.key for run in ledger.state().runs.values() if run.status == "reserved"]
        if not idle:
            raise
        raise Denied(
            f"{error}; reserved and never started: {first_names(idle)} (dpcli budget void releases the reservation of such a run)"
        ) from None


def charged_run(
    plan: TrainingPlan, ledger: Ledger | None, resume: bool, seed: int | None, ranks: Ranks, folder: str, prepare: Prepare
) -> ChargedRun:
    """Prepare a run up to its first step. All checks are made before the charge is reserved in the ledger.

    Args:
        resume: Whether to continue the unfinished run in the folder.
        seed: Seed of reproducible noise; None for secret noise.

    Raises:
        InputError: The run that the file declares is impossible, or contradicts an argument.
        Denied: The budget in the file or the ledger refuses the run.
        LedgerError: The ledger cannot be read or written, or has voided the run.
    """
    if plan.open_to_audit and (ledger is not None or resume):
        refused = "a ledger" if ledger is not None else "--resume"
        raise InputError(
            f'audit.canary: expected a run that is neither charged nor resumed with "{plan.canary}", found {refused}: '
            "the audit sees its noisy sums, so its model is not private"
        )
    private = seed is None and not plan.open_to_audit
    initial = ranks.broadcast(initial_state(plan, ledger, folder, resume=resume, private=private) if ranks.first else None)
    # A resumed run with a seed begins with other numbers than the first part of the run.
    streams = system_entropy() if seed is None else insecure_seed(seed, initial.step)
    restored = initial if initial.model else None  # a new run has no state of a model
    prepared = prepare(plan, streams, ranks, restored, folder)
    warn_of_loop(prepared, seconds_per_record=prepared.rehearse())
    if not initial.model:
        prepared.measure()  # a metric that fails on every model fails here, before anything is charged
    charge = reserve_charge(plan, ledger if ranks.first else None, initial)
    run = ChargedRun(plan, prepared, initial, ledger, folder, ranks, charge)
    prepared.trainer.before_sums = run.start
    ranks.broadcast(True)  # no process reads a record before the first process has made the reservation
    return run


def warn_of_loop(prepared: Prepared, seconds_per_record: float) -> None:
    """Log a warning with the expected duration if the run processes one record at a time."""
    method, stages = prepared.trainer.gradients.describe(), prepared.plan.stages
    if method.startswith("loop") and first_process():  # the description begins with the name of the method
        per_step = seconds_per_record * max(stage.expected_batch for stage in stages)
        in_all = seconds_per_record * sum(stage.steps * stage.expected_batch for stage in stages)
        logging.getLogger("dpcli").warning(
            f"dpcli: records are processed one at a time ({method}): about {per_step:,.3g} s per step, {in_all:,.0f} s in all; "
            "what is faster: dpcli explain training"
        )


@dataclass(frozen=True, slots=True)
class ChargedRun:
    """A prepared run with its reservation in the ledger."""

    plan: TrainingPlan
    prepared: Prepared
    initial: Checkpoint
    ledger: Ledger | None
    folder: str
    ranks: Ranks
    charge: RunCharge

    def start(self) -> None:
        """Save a state, charge the run, and clear the metrics of an earlier run. This must happen before the first sum.

        The state is saved before the charge, so that a charged run can always be resumed.
        """
        if self.charge.started:
            return
        self.save()
        self.charge.start()
        if self.ranks.first and self.initial.step == 0:
            open(os.path.join(self.folder, METRICS), "w").close()

    def give_back(self, stopped_by: BaseException | None = None) -> None:
        """Release the reservation if no step began, and remove the state of a new run."""
        if self.charge.give_back(stopped_by) and self.ranks.first and not self.initial.model:
            with suppress(FileNotFoundError):
                os.unlink(os.path.join(self.folder, STATE))

    def pause(self) -> None:
        """Save a state from which the run resumes without repeating a step. Before the first step, release the reservation instead."""
        if self.charge.started:
            self.save(clean=True)
        else:
            self.give_back()

    def after(self, step: int) -> Mapping[str, float] | None:
        """Save a state if the step is a milestone of the plan. After a milestone before the last step, also measure and log the metrics, if
        models before the last may be seen (not `final_only`).

        A state is saved after the last step as well. If the results then cannot be written, a resumed run writes them without another step.

        Returns:
            The metrics, which are empty if they could not be measured. None if none were to be measured after this step.
        """
        if step != self.plan.milestone(step - 1):
            return None
        if step == self.plan.steps:
            with suppress(InputError):  # a disk that is too full for the state may have room for the model
                self.save(clean=True)
            return None
        self.save()
        if self.plan.final_only:
            return None
        metrics, error = try_to_measure(self.prepared)
        record = {"step": step, **metrics, **({} if error is None else {"unmeasured": error})}
        append_metrics(self.folder, record, self.ranks)
        return metrics

    def save(self, clean: bool = False) -> None:
        """Save the state from which the run can be resumed. Only the first process writes it.

        Args:
            clean: Whether it is certain that no step follows this state before the next one is saved.

        Raises:
            InputError: The state cannot be written.
        """
        if not self.ranks.first:
            return
        trainer = self.prepared.trainer
        state = replace(
            self.initial,
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
        """Write the model and the statement, commit the run, and return the outcome. A run that took no step is charged as well.

        Args:
            unchecked: Paragraphs for the statement about the user's own loop; empty if dpcli takes the steps.

        Raises:
            InputError: A file cannot be written.
            Denied, LedgerError: The ledger refuses the charge, or cannot be written.
        """
        self.start()
        if self.prepared.trainer.step < self.plan.steps:
            self.save(clean=True)
        with self.prepared.final_weights():
            return finish_run(self.prepared, self.folder, self.initial, self.ledger, unchecked)

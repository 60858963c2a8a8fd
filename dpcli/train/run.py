"""A whole run: charge the ledger, train, leave a model, its metrics and a statement."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from dpcli.errors import InputError
from dpcli.train.plan import Plan, Portion

if TYPE_CHECKING:
    from dpcli.ledger.ledger import Ledger
    from dpcli.train.checkpoint import Checkpoint
    from dpcli.train.prepare import Prepared
    from dpcli.train.ranks import Ranks

STATE, MODEL, METRICS, STATEMENT = "state.pt", "model.safetensors", "metrics.jsonl", "statement.md"
Report = Callable[[int, Mapping[str, float] | None], None]  # steps done, and metrics where they were just measured


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run came to.

    repeated: portions that may have been done twice, and are charged twice. metrics: on public data, the headline first; empty where
    there are none. method: how the clipped sums were computed. noise: where the noise came from.
    """

    plan: Plan
    folder: str
    run: str
    repeated: tuple[Portion, ...]
    private: bool
    metrics: Mapping[str, float]
    method: str
    noise: str

    @property
    def epsilon(self) -> float:
        """Of every step that drew noise, the repeated ones included; an upper bound."""
        from dpcli.accounting import account

        if not self.repeated:
            return self.plan.account.upper
        return account(self.plan.costs([(0, self.plan.steps), *self.repeated])).upper

    @property
    def repeated_steps(self) -> int:
        return sum(stop - start for start, stop in self.repeated)


def folder_of(plan: Plan) -> str:
    """Where a run leaves its files."""
    name = plan.train.output or os.path.join("runs", plan.pipeline.name or os.path.splitext(os.path.basename(plan.path))[0])
    return name if os.path.isabs(name) else os.path.join(os.getcwd(), name)


def train(
    plan: Plan,
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
    from dpcli.train.prepare import prepare
    from dpcli.train.randomness import insecure_seed as seeded
    from dpcli.train.randomness import system_entropy
    from dpcli.train.ranks import ranks_of
    from dpcli.train.stopping import Stopped, stoppable

    if ledger is not None and insecure_seed is not None:
        raise InputError("--insecure-seed: expected no ledger beside it, found one: noise that can be repeated protects nobody")
    ranks, folder = ranks_of(plan.train.device), folder_of(plan)
    before = ranks.same(_begun(plan, ledger, resume, folder) if ranks.first else None)
    streams = system_entropy() if insecure_seed is None else seeded(insecure_seed, before.step)
    prepared = prepare(plan, streams, ranks, before if before.model else None, folder)
    if ranks.first:
        _charge(plan, ledger, before)
    state = _State(prepared, before, os.path.join(folder, STATE), ranks)
    state.save()  # before the first noise: what is resumed after a crash is known to have begun
    ranks.same(True)  # nobody draws before the first has charged
    prepared.settle()

    def after(step: int) -> None:
        metrics = None
        if step == plan.milestone(step - 1) and step < plan.steps:
            state.save()
            metrics = prepared.measure()
            _log(folder, {"step": step, **metrics}, ranks)
        report(step, metrics)

    with stoppable() as asked:
        try:
            for stage in plan.stages:
                prepared.stage(stage, after, asked)
        except Stopped:
            state.save(clean=True)
            raise KeyboardInterrupt from None
    with prepared.final():
        return _ended(prepared, folder, before, ledger)


def _begun(plan: Plan, ledger: Ledger | None, resume: bool, folder: str) -> Checkpoint:
    """The state to begin with: of a run that did not end, under --resume, or of one that has not begun."""
    from dpcli.train.checkpoint import Checkpoint, restored

    state = os.path.join(folder, STATE)
    if not resume and os.path.lexists(state):
        raise InputError(f"{folder}: expected a new folder or --resume, found the state of a run that did not end")
    if not resume:
        os.makedirs(folder, exist_ok=True)
        return Checkpoint(0, plan.fingerprint(), uuid.uuid4().hex, [], 0.0, ledger is not None, True, {}, {}, {})
    before = restored(state, plan.fingerprint())
    _refuse_other_books(before, ledger)
    stage = plan.stage_at(before.step)
    if not before.clean or (stage.whole and before.step > stage.start):
        before.resumed.append(before.step)
    return before


def _refuse_other_books(before: Checkpoint, ledger: Ledger | None) -> None:
    """A resumed run goes on in the ledger that was charged for it: elsewhere only what it repeats would be charged, or nothing."""
    if before.charged != (ledger is not None):
        stated = (
            ("the --ledger that was charged for this run", "none") if before.charged else ("no --ledger, as at its start", "one")
        )
        raise InputError(f"--resume: expected {stated[0]}, found {stated[1]}")
    if ledger is not None:
        ledger.state().run(before.run)


def _charge(plan: Plan, ledger: Ledger | None, before: Checkpoint) -> None:
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


@dataclass(frozen=True, slots=True)
class _State:
    """What a run can be resumed from."""

    prepared: Prepared
    before: Checkpoint
    path: str
    ranks: Ranks

    def save(self, clean: bool = False) -> None:
        """The first process writes it."""
        from dpcli.train import checkpoint

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
        checkpoint.save(self.path, now)


def _ended(prepared: Prepared, folder: str, before: Checkpoint, ledger: Ledger | None) -> Outcome:
    """What the first process leaves."""
    outcome = _outcome(prepared, folder, before)
    if not prepared.trainer.ranks.first:
        return outcome
    if prepared.canaries is not None:
        prepared.canaries.leave_scores(folder, prepared.problem)
    _leave(outcome, prepared)
    if ledger is not None:
        ledger.commit(before.run)
    os.unlink(os.path.join(folder, STATE))
    return outcome


def _outcome(prepared: Prepared, folder: str, before: Checkpoint) -> Outcome:
    plan, streams = prepared.plan, prepared.streams
    return Outcome(
        plan,
        folder,
        before.run,
        tuple((step, plan.milestone(step)) for step in before.resumed),
        streams.private,
        prepared.problem.measure(),
        prepared.trainer.gradients.describe(),
        prepared.noise_source(),
    )


def _log(folder: str, record: Mapping[str, Any], ranks: Ranks) -> None:
    if ranks.first:
        with open(os.path.join(folder, METRICS), "a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")


def _leave(outcome: Outcome, prepared: Prepared) -> None:
    """The model and the statement, each in one piece."""
    from safetensors.torch import save

    from dpcli.train.checkpoint import replaced
    from dpcli.train.statement import statement

    private = {"private": "yes" if outcome.private else "NOT PRIVATE", "epsilon": repr(outcome.epsilon)}
    replaced(os.path.join(outcome.folder, MODEL), save(prepared.weights(), private))
    _log(
        outcome.folder,
        {"step": prepared.trainer.step, **outcome.metrics, "epsilon": outcome.epsilon, **private},
        prepared.trainer.ranks,
    )
    replaced(os.path.join(outcome.folder, STATEMENT), statement(outcome).encode())

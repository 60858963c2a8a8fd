"""A whole run: charge the ledger, train, leave a model, its metrics and a statement."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dpcli.errors import InputError
from dpcli.train.plan import Plan

if TYPE_CHECKING:
    from dpcli.ledger.ledger import Ledger
    from dpcli.train.adaptive import Quantile
    from dpcli.train.checkpoint import Checkpoint
    from dpcli.train.engine.clip import Clip
    from dpcli.train.loop import Trainer
    from dpcli.train.randomness import Streams

STATE, MODEL, METRICS, STATEMENT = "state.pt", "model.safetensors", "metrics.jsonl", "statement.md"
Report = Callable[[int, int, float | None], None]  # step, steps, epsilon so far


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run came to. repeated: steps that may have been done twice, and are charged twice. accuracy: on public data, if any."""

    plan: Plan
    folder: str
    run: str
    repeated: int
    private: bool
    accuracy: float | None

    @property
    def epsilon(self) -> float:
        """Of every step that drew noise, the repeated ones included; an upper bound."""
        from dpcli.accounting import account

        if not self.repeated:
            return self.plan.account.upper
        return account(self.plan.partial(self.plan.steps + self.repeated)).upper


def folder_of(plan: Plan) -> str:
    """Where a run leaves its files."""
    name = plan.train.output or os.path.join("runs", plan.pipeline.name or os.path.splitext(os.path.basename(plan.path))[0])
    return name if os.path.isabs(name) else os.path.join(os.getcwd(), name)


def train(
    plan: Plan,
    ledger: Ledger | None = None,
    resume: bool = False,
    insecure_seed: int | None = None,
    report: Report = lambda step, steps, epsilon: None,
) -> Outcome:
    """Do what the plan says.

    Args:
        ledger: charged in full before the first noise; a resumed run is charged again for the steps that it may repeat.
        insecure_seed: reproducible noise, which is no noise to whoever knows the seed: the statement says NOT PRIVATE, a ledger refuses.

    Raises:
        InputError: what the file asks for cannot be done. Denied: the ledger says no. LedgerError: it cannot be read.
    """
    from dpcli.train import checkpoint
    from dpcli.train.randomness import insecure_seed as seeded
    from dpcli.train.randomness import system_entropy

    if ledger is not None and insecure_seed is not None:
        raise InputError("--insecure-seed: expected no ledger beside it, found one: noise that can be repeated protects nobody")
    folder = folder_of(plan)
    state = os.path.join(folder, STATE)
    if not resume and os.path.lexists(state):
        raise InputError(f"{folder}: expected a new folder or --resume, found the state of a run that did not end")
    before = checkpoint.restored(state, plan.fingerprint()) if resume else None
    if before is not None:
        _refuse_other_books(before, ledger)
    os.makedirs(folder, exist_ok=True)
    done, run = (before.step, before.run) if before else (0, uuid.uuid4().hex)
    resumed = before.resumed + 1 if before else 0
    repeated = _charged(plan, ledger, run, done, resumed)
    streams = system_entropy() if insecure_seed is None else seeded(insecure_seed, done)
    trainer, evaluate, finish = _prepared(plan, streams, before, folder)

    def save(step: int) -> None:
        checkpoint.save(
            state,
            checkpoint.Checkpoint(
                step,
                plan.fingerprint(),
                run,
                resumed,
                trainer.gradients.clip.bound,
                ledger is not None,
                trainer.model.state_dict(),
                trainer.optimizer.state_dict(),
            ),
        )

    save(done)  # before the first noise: what is resumed after a crash is known to have begun

    def after(step: int) -> None:
        report(step, plan.steps, None)
        if step % plan.train.checkpoint_every == 0 and step < plan.steps:
            save(step)
            _log(folder, {"step": step, "accuracy": evaluate()})

    trainer.advance(plan.steps, after)
    outcome = Outcome(plan, folder, run, repeated, streams.private, evaluate())
    finish()
    _leave(outcome, trainer)
    if ledger is not None:
        ledger.commit(run)
    os.unlink(state)
    return outcome


def _refuse_other_books(before: Checkpoint, ledger: Ledger | None) -> None:
    """A resumed run goes on in the ledger that was charged for it: elsewhere only what it repeats would be charged, or nothing."""
    if before.charged != (ledger is not None):
        stated = (
            ("the --ledger that was charged for this run", "none") if before.charged else ("no --ledger, as at its start", "one")
        )
        raise InputError(f"--resume: expected {stated[0]}, found {stated[1]}")
    if ledger is not None:
        ledger.state().run(before.run)


def _charged(plan: Plan, ledger: Ledger | None, run: str, done: int, resumed: int) -> int:
    """Charge the run, or what a resumed one may do twice; returns how many steps that may be, in all.

    After a crash nobody knows how far the steps beyond the last state went: up to the next state they are charged again.
    """
    most = min(plan.train.checkpoint_every, plan.steps)
    if ledger is not None and resumed == 0:
        ledger.reserve(plan.pipeline, run, why=f"dpcli train {os.path.basename(plan.path)}")
        ledger.start(run)
    elif ledger is not None:
        again = min(most, plan.steps - done) or 1
        ledger.spend(
            plan.partial(again),
            f"{run} resumed {resumed}",
            why=f"steps that may have been done before the run was resumed at {done}",
        )
    return resumed * most


Prepared = tuple["Trainer", Callable[[], float | None], Callable[[], None]]


def _prepared(plan: Plan, streams: Streams, before: Checkpoint | None, folder: str) -> Prepared:
    """The trainer, what measures it on public data, and what an audit needs of its end."""
    import numpy as np
    import torch

    from dpcli.mechanisms.sampling import Unsampled
    from dpcli.train.adaptive import relative
    from dpcli.train.arrays import arrays
    from dpcli.train.canaries import drawn, kept, leave_scores
    from dpcli.train.clipping import clip_of
    from dpcli.train.engine.per_example import ClippedGradients
    from dpcli.train.loop import Trainer, accuracy, cross_entropy
    from dpcli.train.models import model_of
    from dpcli.train.noise_spec import noise_of
    from dpcli.train.sampling import sampler

    data = arrays(plan.train, plan.path)
    size = plan.pipeline.privacy.dataset_size
    if size is None or len(data.labels) + plan.canaries > size:
        beside = f" and {plan.canaries} canaries" if plan.canaries else ""
        raise InputError(
            f"{plan.path}: privacy.dataset_size: expected at least the number of private records{beside}, found {size}"
        )
    inserted = (
        kept(folder, drawn(plan.canaries, data.inputs.shape[1:], data.classes, streams.initialisation)) if plan.canaries else None
    )
    if inserted is not None:
        data = data.extended(inserted.inputs[inserted.member], inserted.labels[inserted.member])
    torch.manual_seed(
        int.from_bytes(streams.initialisation.words(1).tobytes()[:4], "little")
    )  # weights, which show nothing of the data
    model = model_of(plan.train, data.inputs.shape[1:], data.classes)
    clip = clip_of(plan.train.clipping, [name for name, p in model.named_parameters() if p.requires_grad])
    optimizer = _optimizer(plan, model)
    if before is not None:
        model.load_state_dict(before.model)
        optimizer.load_state_dict(before.optimizer)
    inputs, labels = torch.from_numpy(np.ascontiguousarray(data.inputs)), torch.from_numpy(np.ascontiguousarray(data.labels))
    gradients = ClippedGradients(model, cross_entropy, clip)
    quantile = _quantile(plan, clip, streams, before)
    spec, over = (plan.entry.spec, clip.bound) if quantile is None else (relative(plan.entry.spec, quantile.count_noise), 1.0)
    scheme = plan.entry.sampling or Unsampled("none")
    trainer = Trainer(
        model,
        gradients,
        optimizer,
        noise_of(spec, over, streams.noise),
        sampler(scheme, size, streams.sampling, len(data.labels)),
        inputs,
        labels,
        plan.expected_batch,
        plan.train.physical_batch_size,
        before.step if before else 0,
        quantile,
    )
    finish = (lambda: None) if inserted is None else (lambda: leave_scores(folder, model, inserted))
    if data.public_inputs is None or data.public_labels is None:
        return trainer, lambda: None, finish
    public = torch.from_numpy(np.ascontiguousarray(data.public_inputs)), torch.from_numpy(np.ascontiguousarray(data.public_labels))
    return trainer, lambda: accuracy(model, *public), finish


def _quantile(plan: Plan, clip: Clip, streams: Streams, before: Checkpoint | None) -> Quantile | None:
    """What moves C, under adaptive clipping alone."""
    from dpcli.train.adaptive import Quantile
    from dpcli.train.engine.clip import Adaptive

    noise = plan.train.clipping.quantile_noise
    if not isinstance(clip, Adaptive) or noise is None:
        return None
    if before is not None:
        clip.norm = before.bound
    return Quantile(clip, noise, plan.expected_batch, streams.noise)


def _optimizer(plan: Plan, model: Any) -> Any:
    import torch

    chosen, parameters = plan.train, [p for p in model.parameters() if p.requires_grad]
    if chosen.optimizer == "adam":
        return torch.optim.Adam(parameters, lr=chosen.learning_rate, weight_decay=chosen.weight_decay)
    return torch.optim.SGD(parameters, lr=chosen.learning_rate, momentum=chosen.momentum, weight_decay=chosen.weight_decay)


def _log(folder: str, record: Mapping[str, Any]) -> None:
    with open(os.path.join(folder, METRICS), "a", encoding="utf-8") as file:
        file.write(json.dumps(record) + "\n")


def _leave(outcome: Outcome, trainer: Trainer) -> None:
    """The model and the statement, each in one piece."""
    from safetensors.torch import save

    from dpcli.train.checkpoint import replaced
    from dpcli.train.statement import statement

    private = {"private": "yes" if outcome.private else "NOT PRIVATE", "epsilon": repr(outcome.epsilon)}
    weights = {name: tensor.contiguous() for name, tensor in trainer.model.state_dict().items()}
    replaced(os.path.join(outcome.folder, MODEL), save(weights, private))
    _log(outcome.folder, {"step": trainer.step, "accuracy": outcome.accuracy, "epsilon": outcome.epsilon, **private})
    replaced(os.path.join(outcome.folder, STATEMENT), statement(outcome).encode())

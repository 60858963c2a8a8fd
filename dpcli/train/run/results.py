"""The files that a run writes: metrics while it runs, and the model, a statement and a description at its end.

run/outcome.py has their names. The description (run/description.py) names the files of the model and the statement with their SHA-256, so
that the model can be used, and checked, without the training file. Only the first of several processes writes. The order at the end
matters: the files come before the commit in the ledger, so that a crash leaves a charged run that can be finished, and never a committed
one without a model. Metrics on public data may fail without losing the model.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import shutil
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from dpcli import __version__
from dpcli.base.errors import InputError
from dpcli.ledger.blocks.family import window_spelling
from dpcli.sessions.folder import replace_file
from dpcli.train.run.description import SCHEMA, digest_of, guarantee, is_run_file
from dpcli.train.run.outcome import ADAPTER, ATTESTATION, CANARIES, DESCRIPTION, METRICS, MODEL, PIPELINE, STATE, STATEMENT, Outcome
from dpcli.train.run.processes import stoppable

if TYPE_CHECKING:
    from dpcli.ledger.ledger import Ledger
    from dpcli.ledger.state import LedgerState
    from dpcli.train.run.ranks import Ranks
    from dpcli.train.run.saved_state import Checkpoint
    from dpcli.train.step.prepare import Prepared
    from dpcli.train.tasks.learning import Learning, Metrics


def write_description(outcome: Outcome, problem: Learning, ledger: Ledger | None) -> None:
    """Write the description of a run. The files that it names must exist, because it contains their SHA-256.

    With the description, the model can be used without the training file and its folder.
    """
    content = json.dumps(_description(outcome, problem, ledger), indent=1, sort_keys=True)
    replace_file(os.path.join(outcome.folder, DESCRIPTION), f"{content}\n".encode())


def _description(outcome: Outcome, problem: Learning, ledger: Ledger | None) -> dict[str, Any]:
    """Return the description of a run as JSON values."""
    from dpcli.train.trained.weights import frozen_digest

    plan, folder = outcome.plan, outcome.folder
    model = {
        "task": plan.train.task,
        "source": plan.train.model,
        **problem.facts,
        "frozen_sha256": frozen_digest(problem.model),
    }
    files = (MODEL, STATEMENT, PIPELINE, *_adapter_files(folder))
    return {
        "schema": SCHEMA,
        "dpcli": __version__,
        "run": outcome.run,
        "model": model,
        "files": {name: digest_of(os.path.join(folder, name)) for name in files},
        "guarantee": guarantee(plan, outcome.repeated, outcome.private),
        "repeated": [list(portion) for portion in outcome.repeated],
        "ledger": None if ledger is None else _ledger_position(ledger, outcome.run),
        "metrics": dict(outcome.metrics),
        "origin": os.path.relpath(os.path.dirname(os.path.abspath(plan.path)), folder),
    }


def _adapter_files(folder: str) -> list[str]:
    """Return the files of the run's adapter, relative to the folder of the run; empty if there is no adapter."""
    adapter = os.path.join(folder, ADAPTER)
    names = sorted(os.listdir(adapter)) if os.path.isdir(adapter) else []
    return [f"{ADAPTER}/{name}" for name in names if is_run_file(f"{ADAPTER}/{name}")]


def _ledger_position(ledger: Ledger, run: str) -> dict[str, Any]:
    """Return the present head of the ledger, the status of the run's charge, and the blocks that were charged.

    The head is the number and the hash of the ledger's last entry.
    """
    state = ledger.state()
    blocks = state.open_terms().family  # how the dataset is divided into blocks; None if it is not
    charged, head = state.run(run), state.head
    position: dict[str, Any] = {
        "dataset": ledger.dataset,
        "run": run,
        "status": charged.status,
        "seq": head.seq,
        "head": head.hash,
    }
    if blocks is not None:
        position["window"] = list(window_spelling(blocks, charged.window))
    return position


def finish_run(prepared: Prepared, folder: str, initial: Checkpoint, ledger: Ledger | None, unchecked: tuple[str, ...]) -> Outcome:
    """Write the files of a run that has ended, commit it in the ledger, and return its outcome. Only the first process writes.

    Args:
        unchecked: Paragraphs for the statement about the user's own loop; empty if dpcli took the steps.

    Raises:
        InputError: A file cannot be written.
        LedgerError: The run cannot be committed.
    """
    outcome = _outcome(prepared, folder, initial, unchecked)
    if not prepared.trainer.ranks.first:
        return outcome
    if prepared.canaries is not None:
        prepared.canaries.write_scores(folder, prepared.problem)
    try:
        _write_model(outcome, prepared)
        write_description(outcome, prepared.problem, ledger)
    except OSError as error:
        raise InputError(
            f"{folder}: the model cannot be written ({error.strerror}): make room; --resume (resume=True) then continues from the last "
            "state, and only writes the model if no step is left"
        ) from None
    with stoppable():  # without this, Ctrl-C after the commit would leave the state of a run that has ended
        if ledger is not None:
            outcome = replace(outcome, charged=_charged_words(ledger.commit(initial.run).state, initial.run))
            write_description(outcome, prepared.problem, ledger)  # again, because the commit has moved the ledger's head
        remove_state(folder)
    return outcome


def remove_state(folder: str) -> None:
    """Remove the files that a run stores for --resume."""
    for name in (STATE, CANARIES):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(folder, name))


def _charged_words(state: LedgerState, key: str) -> str:
    """Return the charges of a run in words, including those of repeated steps."""
    from dpcli.ledger import amounts
    from dpcli.ledger.denial import cost_words

    total: amounts.Amounts = {}
    for run in state.runs.values():
        if run.key == key or run.key.startswith(f"{key} resumed "):  # keys of repeated steps (`reserve_charge` in charged_run.py)
            total = amounts.add(total, run.cost)
    return cost_words(total)


def _outcome(prepared: Prepared, folder: str, initial: Checkpoint, unchecked: tuple[str, ...]) -> Outcome:
    """Return the outcome of a run that has ended. This measures the final metrics."""
    plan, streams = prepared.plan, prepared.streams
    measurement = try_to_measure(prepared)
    return Outcome(
        plan=plan,
        folder=folder,
        run=initial.run,
        repeated=tuple(plan.repeated_portions(initial.resumed)),  # steps after each number of steps at which the run was resumed
        private=streams.private and initial.private,
        metrics=measurement.metrics,
        method=prepared.trainer.gradients.describe(),
        noise=prepared.noise_source(),
        earlier=os.path.exists(os.path.join(folder, MODEL)),  # the model of an earlier run, which is about to be replaced
        taken=prepared.trainer.step,
        unchecked=unchecked,
        constants=tuple(prepared.constants),
        unmeasured=measurement.error,
    )


class Measurement(NamedTuple):
    """Metrics on public data.

    Attributes:
        metrics: Metrics by name; empty if there are none.
        error: Message of the error that measuring raised; None if it raised none.
    """

    metrics: Metrics
    error: str | None = None


def try_to_measure(prepared: Prepared) -> Measurement:
    """Measure on public data. An InputError is not passed on, because a model that has been charged would then be lost."""
    try:
        return Measurement(prepared.measure())
    except InputError as error:
        return Measurement({}, str(error))


def append_metrics(folder: str, record: Mapping[str, Any], ranks: Ranks) -> None:
    """Append a line to the file of metrics. Only the first process writes it. JSON has no infinity or NaN, so null replaces them."""
    if ranks.first:
        line = json.dumps({name: _finite(value) for name, value in record.items()})
        with open(os.path.join(folder, METRICS), "a", encoding="utf-8") as file:
            file.write(f"{line}\n")


def _finite(value: Any) -> Any:
    """Return None for a number that is not finite, and other values unchanged."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _write_model(outcome: Outcome, prepared: Prepared) -> None:
    """Write the model, the statement and the copy of the training file, each atomically. Then write the adapter and the last metrics.

    The files of an earlier run in the folder are removed first.
    """
    from safetensors.torch import save

    from dpcli.train.documents.run_statement import statement

    stamp = {"private": "yes" if outcome.private else "NOT PRIVATE", "epsilon": repr(outcome.epsilon)}
    weights, text = save(prepared.weights(), stamp), statement(outcome).encode()  # before earlier files are removed
    for name in (DESCRIPTION, ATTESTATION, STATEMENT, MODEL, PIPELINE):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(outcome.folder, name))
    adapter = os.path.join(outcome.folder, ADAPTER)
    shutil.rmtree(adapter, ignore_errors=True)
    replace_file(os.path.join(outcome.folder, PIPELINE), outcome.plan.source)
    replace_file(os.path.join(outcome.folder, STATEMENT), text)
    replace_file(os.path.join(outcome.folder, MODEL), weights)
    if outcome.plan.train.adapts:
        from dpcli.train.tasks.lm_models import save_adapter

        save_adapter(prepared.problem.model, outcome.plan.train.model, adapter)
    last_record = {"step": prepared.trainer.step, **outcome.metrics, "epsilon": outcome.epsilon, **stamp}
    append_metrics(outcome.folder, last_record, prepared.trainer.ranks)

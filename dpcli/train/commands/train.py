"""The command `dpcli train`: train a model privately, and show the progress.

On a terminal one line is rewritten; elsewhere a line is printed from time to time.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING

import click

from dpcli.cli.options import emit, output_options
from dpcli.ledger.commands.budget import opened_ledger
from dpcli.sessions.commands.predicting import charged_ledger
from dpcli.train.run.outcome import DESCRIPTION, STATE

if TYPE_CHECKING:
    from dpcli.train.plan.plan import TrainingPlan
    from dpcli.train.run.outcome import Outcome
    from dpcli.train.run.training_run import Report


@click.command(short_help="Train a model privately, as a file declares it.")
@click.argument("file")
@click.option("--dry-run", is_flag=True, help="Print what it would do, cost and take: one step is timed, and thrown away.")
@click.option("--resume", is_flag=True, help="Go on from the last state of a run that did not end.")
@charged_ledger("Charge this ledger before the first noise.")
@click.option("--insecure-seed", type=click.IntRange(min=0), help="Reproducible noise, for debugging: NOT PRIVATE.")
@output_options("text", "total")
def command(
    file: str,
    dry_run: bool,
    resume: bool,
    ledger: str | None,
    dataset: str | None,
    window: tuple[str, ...],
    insecure_seed: int | None,
    format_: str,
    outputs: tuple[str, ...],
) -> int:
    """Train the model of [train] in FILE with the mechanism that the file declares (DP-SGD), and leave a model, metrics and a statement.

    Exit code 1 where the budget or the ledger says no, 2 where the file asks for what cannot be honoured, 130 where the run was
    interrupted: --resume goes on from its last state, with fresh noise.
    """
    from dpcli.train.documents.training import outcome, planned
    from dpcli.train.plan.plan import plan_of
    from dpcli.train.run.processes import first_process

    plan = plan_of(file)
    if dry_run:
        from dpcli.ledger.documents.ledger_answers import with_quote
        from dpcli.sessions.commands.predicting import windowed

        plan = windowed(plan, ledger, dataset, window)
        return emit(with_quote(planned(plan), None if resume else ledger, dataset, plan.pipeline), format_, outputs)
    result = run_with_progress(plan, ledger, dataset, window, resume, insecure_seed)
    return emit(outcome(result), format_, outputs) if first_process() else 0


TERMINAL_PAUSE = 0.5  # seconds between two lines on a terminal
FILE_PAUSE, FILE_SHARE = 10.0, 0.1  # elsewhere: least seconds between two lines, and least share of the run's time so far


def run_with_progress(
    plan: TrainingPlan, ledger: str | None, dataset: str | None, window: Sequence[str], resume: bool, seed: int | None
) -> Outcome:
    """Train, with progress on standard error."""
    from dpcli.sessions.commands.predicting import on_window
    from dpcli.train.run.processes import first_process
    from dpcli.train.run.training_run import train

    first = first_process()
    logging.getLogger("dpcli").setLevel(logging.ERROR if click.get_current_context().obj.quiet else logging.WARNING)
    with opened_ledger(ledger, dataset) if ledger is not None and first else nullcontext() as books:
        if first:
            plan = on_window(plan, books, window)  # the other processes charge and state nothing
        try:
            return train(plan, books, resume, seed, _progress(plan))
        except KeyboardInterrupt:
            if first:
                click.echo(f"\ndpcli: stopped; {_interrupted(plan.folder)}", err=True)
            raise
        finally:
            if sys.stderr.isatty() and first:
                click.echo(err=True)


def _interrupted(folder: str) -> str:
    """Return what an interrupted run left in its folder."""
    if os.path.exists(os.path.join(folder, STATE)):
        return "its state is kept, and --resume goes on from there"
    if os.path.exists(os.path.join(folder, DESCRIPTION)):
        return f"it left no state to go on from; {folder} has the model of a run that has ended"
    return "it left no state to go on from"


def _progress(plan: TrainingPlan) -> Report:
    """Return a function that prints the steps done, their epsilon, the last metrics and the time that is left."""
    from dpcli.analysis.account import account
    from dpcli.base.rounding import up
    from dpcli.train.documents.run_statement import metrics_words
    from dpcli.train.run.processes import first_process

    begun = last = time.monotonic()
    first, measured = -1, ""  # the clock runs from the first step that is reported on: the time before it is no measure of steps

    def report(step: int, metrics: Mapping[str, float] | None) -> None:
        nonlocal begun, last, first, measured
        now = time.monotonic()
        if first < 0:
            begun, last, first = now, now, step
        measured = f", {metrics_words(metrics)}" if metrics else measured
        if not first_process() or click.get_current_context().obj.quiet or not _due(now - last, now - begun, step == plan.steps):
            return
        last = now
        spent = up(account(plan.costs([(0, step)]), ["exact", "rdp"]).upper, 3)
        bar = "#" * round(30 * step / plan.steps)
        left = (plan.steps - step) * (now - begun) / max(1, step - first)
        line = f"step {step:,} of {plan.steps:,}, epsilon so far {spent}{measured}, {left:,.0f} s left"
        moving = sys.stderr.isatty()
        click.echo(f"\r[{bar:.<30}] {line}  " if moving else line, nl=not moving, err=True)

    return report


def _due(since: float, running: float, ended: bool) -> bool:
    """Return whether a line is due, `since` seconds after the last; a run of a day writes fewer than a hundred lines to a file."""
    if sys.stderr.isatty():
        return ended or since >= TERMINAL_PAUSE
    return not ended and since >= max(FILE_PAUSE, FILE_SHARE * running)

"""The command `dpcli train`, which trains a model privately and shows the progress.

On a terminal, one line is rewritten. In other outputs, a line is printed from time to time.
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
@click.option(
    "--dry-run",
    is_flag=True,
    help="Print the steps, the cost and an estimate of the time without training. The estimate comes from a step on synthetic records.",
)
@click.option(
    "--explain-step",
    is_flag=True,
    help="Print what one step computes, in order, with shapes, clipping, noise and divisor, without training.",
)
@click.option("--resume", is_flag=True, help="Continue an unfinished run from its last saved state.")
@charged_ledger("Charge this ledger before the first step.")
@click.option(
    "--insecure-seed",
    type=click.IntRange(min=0),
    help="Draw reproducible noise from this seed, for debugging. The run is NOT PRIVATE.",
)
@output_options("text", "total")
def command(
    file: str,
    dry_run: bool,
    explain_step: bool,
    resume: bool,
    ledger: str | None,
    dataset: str | None,
    window: tuple[str, ...],
    insecure_seed: int | None,
    format_: str,
    outputs: tuple[str, ...],
) -> int:
    """Train the model of [train] in FILE with the mechanism that the file declares (DP-SGD). Write a model, metrics and a statement.

    The exit code is 1 if the budget or the ledger refuses the run, 2 if the file declares a run that dpcli cannot train, and 130 if the run
    was interrupted. --resume then continues from its last saved state, with fresh noise.
    """
    from dpcli.train.documents.training import outcome, planned
    from dpcli.train.plan.plan import plan_of
    from dpcli.train.run.processes import first_process

    plan = plan_of(file)
    if explain_step:
        from dpcli.train.documents.step import step_document

        return emit(step_document(plan), format_, outputs)
    if dry_run:
        from dpcli.ledger.documents.ledger_answers import with_quote
        from dpcli.sessions.commands.predicting import windowed

        plan = windowed(plan, ledger, dataset, window)
        return emit(with_quote(planned(plan), None if resume else ledger, dataset, plan.pipeline), format_, outputs)
    result = run_with_progress(plan, ledger, dataset, window, resume, insecure_seed)
    return emit(outcome(result), format_, outputs) if first_process() else 0


BAR_WIDTH = 30  # characters of the bar on a terminal
TERMINAL_PAUSE = 0.5  # smallest time between two lines on a terminal, in seconds
# In other outputs, the smallest time between two lines in seconds, and as a share of the run's duration so far. With the share, a run
# of a day prints fewer than a hundred lines.
FILE_PAUSE, FILE_SHARE = 10.0, 0.1


def run_with_progress(
    plan: TrainingPlan, ledger: str | None, dataset: str | None, window: Sequence[str], resume: bool, seed: int | None
) -> Outcome:
    """Train with progress on standard error, and return the outcome. The arguments are those of the command."""
    from dpcli.sessions.commands.predicting import on_window
    from dpcli.train.run.processes import first_process
    from dpcli.train.run.training_run import train

    is_first = first_process()  # only the first process charges and prints
    quiet = click.get_current_context().obj.quiet
    logging.getLogger("dpcli").setLevel(logging.ERROR if quiet else logging.WARNING)
    with opened_ledger(ledger, dataset) if ledger is not None and is_first else nullcontext() as books:
        if is_first:
            plan = on_window(plan, books, window)
        try:
            return train(plan, books, resume, seed, _progress(plan))
        except KeyboardInterrupt:
            if is_first:
                click.echo(f"\ndpcli: stopped; {_interrupted(plan.folder)}", err=True)
            raise
        finally:
            if sys.stderr.isatty() and is_first:
                click.echo(err=True)


def _interrupted(folder: str) -> str:
    """Return in words whether an interrupted run can be resumed."""
    if os.path.exists(os.path.join(folder, STATE)):
        return "its state is saved; continue it with --resume"
    if os.path.exists(os.path.join(folder, DESCRIPTION)):
        return f"no state was saved, so it cannot be resumed; {folder} has the model of a run that has ended"
    return "no state was saved, so it cannot be resumed"


def _progress(plan: TrainingPlan) -> Report:
    """Return a function that prints the number of steps taken, their epsilon, the last metrics and the remaining time."""
    from dpcli.analysis.account import account
    from dpcli.base.rounding import up
    from dpcli.train.documents.run_statement import metrics_words
    from dpcli.train.run.processes import first_process

    # The remaining time is computed from the first report on, because the time before includes other work.
    first_step, first_time, last_line, measured = -1, 0.0, 0.0, ""

    def report(step: int, metrics: Mapping[str, float] | None) -> None:
        nonlocal first_step, first_time, last_line, measured
        now = time.monotonic()
        if first_step < 0:
            first_step, first_time, last_line = step, now, now
        if metrics:
            measured = f", {metrics_words(metrics)}"
        silent = not first_process() or click.get_current_context().obj.quiet
        if silent or not _due(now - last_line, now - first_time, step == plan.steps):
            return
        last_line = now
        spent = up(account(plan.costs([(0, step)]), ["exact", "rdp"]).upper, 3)
        seconds_per_step = (now - first_time) / max(1, step - first_step)
        seconds_left = (plan.steps - step) * seconds_per_step
        line = f"step {step:,} of {plan.steps:,}, epsilon so far {spent}{measured}, {seconds_left:,.0f} s left"
        if sys.stderr.isatty():
            bar = "#" * round(BAR_WIDTH * step / plan.steps)
            click.echo(f"\r[{bar:.<{BAR_WIDTH}}] {line}  ", nl=False, err=True)
        else:
            click.echo(line, err=True)

    return report


def _due(since: float, running: float, ended: bool) -> bool:
    """Return whether to print a line.

    Args:
        since: Seconds since the last line.
        running: Seconds since the first step.
        ended: Whether the last step was taken.
    """
    if sys.stderr.isatty():
        return ended or since >= TERMINAL_PAUSE
    return not ended and since >= max(FILE_PAUSE, FILE_SHARE * running)

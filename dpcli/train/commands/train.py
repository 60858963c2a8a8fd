"""The command `dpcli train`, which trains a model privately, as a file declares it, and shows the progress.

The command turns the file into a plan (train/plan/plan.py). --explain-step and --dry-run only print what the plan would do. Otherwise the
command trains (train/run/training_run.py), with the progress on standard error and the outcome on standard output. The *ledger* holds what
each release has cost, and `window` names the parts of its dataset (blocks, such as days) that the run reads. If torchrun starts several
processes, each of them runs this command, but only the first one opens the ledger and prints the progress and the outcome.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from dpcli.cli.options import emit, output_options
from dpcli.ledger.commands.budget import opened_ledger
from dpcli.sessions.commands.ledger_options import charging_options
from dpcli.train.run.outcome import DESCRIPTION, STATE

if TYPE_CHECKING:
    from dpcli.train.plan.plan import TrainingPlan
    from dpcli.train.run.outcome import Outcome

BAR_WIDTH = 30  # characters of the bar on a terminal; arbitrary
# Shortest time between two updates of the line on a terminal, in seconds; each computes epsilon again. Arbitrary.
TERMINAL_PAUSE = 0.5
# Shortest time between two lines if standard error is a file or a pipe, in seconds, and as a share of the run so far. A run of a day prints
# fewer than a hundred lines.
FILE_PAUSE, FILE_SHARE = 10.0, 0.1


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
@charging_options("Charge this ledger before the first step.")
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
    from dpcli.train.documents.training import outcome_document, plan_document
    from dpcli.train.plan.plan import plan_of
    from dpcli.train.run.processes import first_process

    plan = plan_of(file)
    if explain_step:
        from dpcli.train.documents.step import step_document

        return emit(step_document(plan), format_, outputs)
    if dry_run:
        from dpcli.ledger.documents.ledger_answers import with_quote
        from dpcli.sessions.commands.ledger_options import restrict_dry_run

        plan = restrict_dry_run(plan, ledger, dataset, window)
        quoted_ledger = None if resume else ledger  # the ledger says whether the run would fit; a resumed run is charged already
        return emit(with_quote(plan_document(plan), quoted_ledger, dataset, plan.pipeline), format_, outputs)
    result = run_with_progress(plan, ledger, dataset, window, resume, insecure_seed)
    return emit(outcome_document(result), format_, outputs) if first_process() else 0


def run_with_progress(
    plan: TrainingPlan, ledger: str | None, dataset: str | None, window: Sequence[str], resume: bool, seed: int | None
) -> Outcome:
    """Train with progress on standard error, and return the outcome. The arguments are those of the command."""
    from dpcli.sessions.commands.ledger_options import restrict_run
    from dpcli.train.run.processes import first_process
    from dpcli.train.run.training_run import train

    is_first = first_process()
    quiet = click.get_current_context().obj.quiet
    logging.getLogger("dpcli").setLevel(logging.ERROR if quiet else logging.WARNING)
    with opened_ledger(ledger, dataset) if ledger is not None and is_first else nullcontext() as opened:
        if is_first:
            plan = restrict_run(plan, opened, window)
        try:
            return train(plan, opened, resume, seed, Progress(plan))
        except KeyboardInterrupt:
            if is_first:
                click.echo(f"\ndpcli: stopped; {_resumable(plan.folder)}", err=True)
            raise
        finally:
            if sys.stderr.isatty() and is_first:
                click.echo(err=True)


def _resumable(folder: str) -> str:
    """Return in words whether an interrupted run can be resumed."""
    if os.path.exists(os.path.join(folder, STATE)):
        return "its state is saved; continue it with --resume"
    if os.path.exists(os.path.join(folder, DESCRIPTION)):
        return f"no state was saved, so it cannot be resumed; {folder} has the model of a run that has ended"
    return "no state was saved, so it cannot be resumed"


@dataclass(slots=True)
class Progress:
    """The progress of a run on standard error. A terminal shows one line that is rewritten, and a file gets a line from time to time.

    Attributes:
        first_step: Number of the first reported step; None before it. The speed is measured from this step on, because the time before it
            includes the preparation of the run.
        first_time: Time of the first report, in seconds.
        last_time: Time of the last line, in seconds.
        metrics: Last metrics, as they follow the epsilon in the line, such as ", accuracy 0.9012".
    """

    plan: TrainingPlan
    first_step: int | None = None
    first_time: float = 0.0
    last_time: float = 0.0
    metrics: str = ""

    def __call__(self, step: int, metrics: Mapping[str, float] | None) -> None:
        """Report a step that was taken, and the metrics if they were measured after it."""
        from dpcli.train.documents.run_statement import metrics_words
        from dpcli.train.run.processes import first_process

        now = time.monotonic()
        if self.first_step is None:
            self.first_step, self.first_time, self.last_time = step, now, now
        if metrics:
            self.metrics = f", {metrics_words(metrics)}"
        is_silent = not first_process() or click.get_current_context().obj.quiet
        running = now - self.first_time
        if not is_silent and _due(now - self.last_time, running, step == self.plan.steps):
            self.last_time = now
            seconds_per_step = running / max(1, step - self.first_step)
            self.show(step, (self.plan.steps - step) * seconds_per_step)

    def show(self, step: int, seconds_left: float) -> None:
        """Print the number of steps taken, their epsilon, the last metrics and the remaining time."""
        from dpcli.analysis.account import account
        from dpcli.base.rounding import up

        steps = self.plan.steps
        accountants = ["exact", "rdp"]  # for a quick bound; the outcome uses all accountants
        epsilon = up(account(self.plan.costs([(0, step)]), accountants).upper, 3)
        line = f"step {step:,} of {steps:,}, epsilon so far {epsilon}{self.metrics}, {seconds_left:,.0f} s left"
        if sys.stderr.isatty():
            bar = "#" * round(BAR_WIDTH * step / steps)
            click.echo(f"\r[{bar:.<{BAR_WIDTH}}] {line}  ", nl=False, err=True)
        else:
            click.echo(line, err=True)


def _due(since: float, running: float, ended: bool) -> bool:
    """Return whether to print a line. The last step gets one on a terminal only; elsewhere the outcome follows at once.

    Args:
        since: Seconds since the last line.
        running: Seconds since the first step.
        ended: Whether the last step was taken.
    """
    if sys.stderr.isatty():
        return ended or since >= TERMINAL_PAUSE
    return not ended and since >= max(FILE_PAUSE, FILE_SHARE * running)

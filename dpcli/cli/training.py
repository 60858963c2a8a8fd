"""A training run on a terminal: a line that says how far it is, and what it has cost so far."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING

import click

from dpcli.cli.budget.options import opened

if TYPE_CHECKING:
    from dpcli.train.plan.plan import TrainingPlan
    from dpcli.train.run.outcome import Outcome
    from dpcli.train.run.run import Report

EVERY = 0.5  # seconds between two lines


def run_with_progress(plan: TrainingPlan, ledger: str | None, dataset: str | None, resume: bool, seed: int | None) -> Outcome:
    """Train, with progress on standard error where that is a terminal."""
    from dpcli.train.run.processes import first_process
    from dpcli.train.run.run import train

    first = first_process()
    with opened(ledger, dataset) if ledger is not None and first else nullcontext() as found:
        try:
            return train(plan, found, resume, seed, _progress(plan))
        except KeyboardInterrupt:
            if first:
                click.echo("\ndpcli: stopped; its state is kept, and --resume goes on from there", err=True)
            raise
        finally:
            if sys.stderr.isatty() and first:
                click.echo(err=True)


def _progress(plan: TrainingPlan) -> Report:
    """A line: how far, what it has cost so far, the last metrics and the time that is left."""
    from dpcli.analysis.account import account
    from dpcli.present.run_statement import words
    from dpcli.rounding import up
    from dpcli.train.run.processes import first_process

    begun = last = time.monotonic()
    first, measured = -1, ""

    def report(step: int, metrics: Mapping[str, float] | None) -> None:
        nonlocal last, first, measured
        now, first = time.monotonic(), step - 1 if first < 0 else first
        measured = f", {words(metrics)}" if metrics else measured
        quiet = not sys.stderr.isatty() or not first_process() or click.get_current_context().obj.quiet
        if quiet or (now - last < EVERY and step < plan.steps):
            return
        last = now
        spent = up(account(plan.costs([(0, step)]), ["exact", "rdp"]).upper, 3)
        bar = "#" * round(30 * step / plan.steps)
        left = (plan.steps - step) * (now - begun) / (step - first)
        click.echo(
            f"\r[{bar:.<30}] step {step:,} of {plan.steps:,}, epsilon so far {spent}{measured}, {left:,.0f} s left  ",
            nl=False,
            err=True,
        )

    return report

"""A training run on a terminal: a line that says how far it is, and what it has cost so far."""

from __future__ import annotations

import sys
import time
from contextlib import nullcontext
from typing import TYPE_CHECKING

import click

from dpcli.cli.budget_options import opened

if TYPE_CHECKING:
    from dpcli.train.plan import Plan
    from dpcli.train.run import Outcome, Report

EVERY = 0.5  # seconds between two lines


def run_with_progress(plan: Plan, ledger: str | None, dataset: str | None, resume: bool, seed: int | None) -> Outcome:
    """Train, with progress on standard error where that is a terminal."""
    from dpcli.train.run import train

    with nullcontext() if ledger is None else opened(ledger, dataset) as found:
        try:
            return train(plan, found, resume, seed, _progress(plan))
        finally:
            if sys.stderr.isatty():
                click.echo(err=True)


def _progress(plan: Plan) -> Report:
    from dpcli.accounting import account
    from dpcli.rounding import up

    last = time.monotonic()

    def report(step: int, steps: int, epsilon: float | None) -> None:
        nonlocal last
        if not sys.stderr.isatty() or click.get_current_context().obj.quiet or (time.monotonic() - last < EVERY and step < steps):
            return
        last = time.monotonic()
        spent = up(account(plan.partial(step), ["exact", "rdp"]).upper, 3)
        bar = "#" * round(30 * step / steps)
        click.echo(f"\r[{bar:.<30}] step {step:,} of {steps:,}, epsilon so far {spent}", nl=False, err=True)

    return report

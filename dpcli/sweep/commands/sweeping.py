"""A sweep on a terminal: a line that says how far it is, what is left after an interruption, and its picture."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

import click

from dpcli.audit.commands.trials import progress
from dpcli.base.errors import InputError
from dpcli.base.extras import require
from dpcli.cli.picture import show
from dpcli.ledger.commands.budget import opened

if TYPE_CHECKING:
    from dpcli.document.document import Document
    from dpcli.sweep.plan import SweepPlan


def swept(
    plan: SweepPlan, jobs: int | None, ledger: str | None, dataset: str | None, window: Sequence[str], pictures: tuple[str, ...]
) -> Document:
    """Make the runs, draw the pictures asked for, and say what was found."""
    from dpcli.sessions.commands.predicting import on_window
    from dpcli.sweep.documents.frontier import chart
    from dpcli.sweep.documents.sweep import measured, selected
    from dpcli.sweep.run import measure
    from dpcli.sweep.select import search

    require("torch", "safetensors")
    processes = jobs or os.cpu_count() or 1
    with nullcontext() if ledger is None else opened(ledger, dataset) as books, _kept(plan):
        plan = on_window(plan, books, window)
        if plan.trials is not None:
            if pictures:
                raise InputError("--picture: expected a sweep with public tuning, found a private search: it releases one point")
            _say("a private search: how many trials it makes is a secret, and so is how long it takes")
            return selected(search(plan, processes, books))
        with progress() as report:
            found = measure(plan, processes, books, report)
    drawn = [chart(found)] if found.best else []
    if drawn and pictures:
        show(drawn[0], None, pictures)
    return measured(found, drawn)


def _say(words: str) -> None:
    if sys.stderr.isatty() and not click.get_current_context().obj.quiet:
        click.echo(f"dpcli: {words}", err=True)


@contextmanager
def _kept(plan: SweepPlan) -> Iterator[None]:
    """After Ctrl-C, a word about what is left of the runs."""
    try:
        yield
    except KeyboardInterrupt:
        click.echo(f"dpcli: the runs so far are in {plan.folder}; the same command goes on from there", err=True)
        raise

"""The command `dpcli sweep`: train on a grid of settings and compare accuracy with epsilon."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

import click

from dpcli.base.errors import InputError
from dpcli.base.extras import require
from dpcli.cli.options import emit, output_options
from dpcli.cli.picture import show
from dpcli.cli.printing import progress
from dpcli.ledger.commands.budget import opened_ledger
from dpcli.sessions.commands.predicting import charged_ledger

if TYPE_CHECKING:
    from dpcli.document.document import Document
    from dpcli.sweep.sweep_plan import SweepPlan


@click.command(short_help="Accuracy against epsilon: a grid of training runs.")
@click.argument("file")
@click.option("--dry-run", is_flag=True, help="Print the points, their noise and how many runs there would be, and do nothing.")
@click.option("--jobs", type=click.IntRange(1), help="Processes, each with one thread [default: one for each core].")
@charged_ledger("Charge this ledger: each run, or a private search as a whole.")
@click.option(
    "--picture",
    "pictures",
    multiple=True,
    metavar="PATH",
    help="Draw the frontier to PATH (.svg, .png, .csv, .vl.json); repeatable.",
)
@output_options("table", "records")
def command(
    file: str,
    dry_run: bool,
    jobs: int | None,
    ledger: str | None,
    dataset: str | None,
    window: tuple[str, ...],
    pictures: tuple[str, ...],
    format_: str,
    outputs: tuple[str, ...],
) -> int:
    """Train as [train] and [sweep] in FILE say: every setting at every epsilon, its noise solved for, several times each.

    The choice of the best of many runs is itself a use of the data. So [sweep] must say how it is accounted for: tuning = "public" prints
    the epsilon of one run and that this does not cover the search; "repeat-and-select" makes the search that the file's mechanism of that
    type accounts for, a secret random number of trials, and keeps the best alone.

    Each run is kept as it ends, by the content of its file and data: the same command goes on where it stopped, and after a change only
    the runs that the change concerns are made anew. A private search is refused a changed file. No run has a seed that anybody knows.

    Exit code 1 where the ledger says no, 2 where a run failed or the file asks for what cannot be honoured, 3 where an epsilon cannot be
    met, 130 where the sweep was interrupted.
    """
    from dpcli.sweep.documents.sweep import planned
    from dpcli.sweep.sweep_plan import plan_sweep

    plan = plan_sweep(file)
    if dry_run:
        if window:
            from dpcli.sessions.commands.predicting import windowed

            plan = windowed(plan, ledger, dataset, window)
        return emit(planned(plan), format_, outputs)
    return emit(swept(plan, jobs, ledger, dataset, window, pictures), format_, outputs)


def swept(
    plan: SweepPlan, jobs: int | None, ledger: str | None, dataset: str | None, window: Sequence[str], pictures: tuple[str, ...]
) -> Document:
    """Make the runs, draw the pictures that were asked for, and return the result."""
    from dpcli.sessions.commands.predicting import on_window
    from dpcli.sweep.documents.sweep import chart, measured, selected
    from dpcli.sweep.private_search import search
    from dpcli.sweep.sweep_runs import measure

    require("torch", "safetensors")
    processes = jobs or os.cpu_count() or 1
    with nullcontext() if ledger is None else opened_ledger(ledger, dataset) as books, _kept(plan):
        plan = on_window(plan, books, window)
        if plan.trials is not None:
            if pictures:
                raise InputError("--picture: expected a sweep with public tuning, found a private search: it releases one point")
            _say("a private search: how many trials it makes is a secret, and so is how long it takes")
            return selected(search(plan, processes, books))
        with progress("runs") as report:
            result = measure(plan, processes, books, report)
    drawn = [chart(result)] if result.best else []
    if drawn and pictures:
        show(drawn[0], None, pictures)
    return measured(result, drawn)


def _say(words: str) -> None:
    if sys.stderr.isatty() and not click.get_current_context().obj.quiet:
        click.echo(f"dpcli: {words}", err=True)


@contextmanager
def _kept(plan: SweepPlan) -> Iterator[None]:
    """After Ctrl-C, say where the runs so far are."""
    try:
        yield
    except KeyboardInterrupt:
        click.echo(f"dpcli: the runs so far are in {plan.folder}; the same command goes on from there", err=True)
        raise

"""The command `dpcli sweep`: train on a grid of settings and compare accuracy with epsilon, or search the settings privately.

With public tuning, every setting is run at every epsilon, and all results are shown (sweep_runs.py). A private search runs a random number
of trials, and shows the best alone (private_search.py). sweep_plan.py reads the file for both. --window restricts the runs to some blocks,
such as days, of the dataset that a ledger charges.
"""

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
from dpcli.sessions.commands.ledger_options import charging_options

if TYPE_CHECKING:
    from dpcli.document.document import Document
    from dpcli.sweep.sweep_plan import SweepPlan


@click.command(short_help="Train on a grid of settings, and compare accuracy with epsilon.")
@click.argument("file")
@click.option("--dry-run", is_flag=True, help="Print the points, their noise and the number of runs, without making a run.")
@click.option("--jobs", type=click.IntRange(1), help="Number of processes, each with one thread [default: one for each core].")
@charging_options("Charge this ledger: each run, or a private search as a whole.")
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
    """Train with every setting in [sweep] of FILE at every epsilon, several times each. The noise is calibrated to each epsilon.

    The choice of the best of many runs is itself a use of the data, so [sweep] must state how it is accounted for. With tuning = "public",
    the printed epsilon covers one run and not the search, and the output says so. With tuning = "repeat-and-select", the runs are a secret
    random number of trials, a mechanism of this type in the file accounts for the search, and only the best trial is kept.

    Each run is saved when it ends. If a sweep is interrupted, the same command continues it. After a change of the file or the data, only
    the affected runs are made again. A private search refuses a changed file. Nobody knows the seed of a run.

    Exit code 1: the ledger refused a run. 2: a run failed, or the file is invalid. 3: an epsilon cannot be met. 130: the sweep was
    interrupted.
    """
    from dpcli.sweep.documents.sweep import plan_document
    from dpcli.sweep.sweep_plan import plan_sweep

    plan = plan_sweep(file)
    if dry_run:
        if window:
            from dpcli.sessions.commands.ledger_options import restrict_dry_run

            plan = restrict_dry_run(plan, ledger, dataset, window)
        return emit(plan_document(plan), format_, outputs)
    return emit(run_sweep(plan, jobs, ledger, dataset, window, pictures), format_, outputs)


def run_sweep(
    plan: SweepPlan, jobs: int | None, ledger: str | None, dataset: str | None, window: Sequence[str], pictures: tuple[str, ...]
) -> Document:
    """Make the runs, draw the requested pictures, and return the document of the result."""
    from dpcli.sessions.commands.ledger_options import restrict_run
    from dpcli.sweep.documents.sweep import chart, result_document, search_document
    from dpcli.sweep.private_search import search
    from dpcli.sweep.sweep_runs import measure

    require("torch", "safetensors")
    processes = jobs or os.cpu_count() or 1
    with nullcontext() if ledger is None else opened_ledger(ledger, dataset) as opened, _hint_after_interrupt(plan):
        plan = restrict_run(plan, opened, window)
        if plan.trials is not None:
            if pictures:
                raise InputError("--picture: expected a sweep with public tuning, found a private search, which releases one point")
            _print_note("a private search; the number of trials and their duration are secret")
            return search_document(search(plan, processes, opened))
        with progress("runs") as report:
            result = measure(plan, processes, opened, report)
    charts = [chart(result)] if result.best else []  # without a run that has ended, there is nothing to draw
    if charts and pictures:
        show(charts[0], format_=None, outputs=pictures)
    return result_document(result, charts)


def _print_note(text: str) -> None:
    if sys.stderr.isatty() and not click.get_current_context().obj.quiet:
        click.echo(f"dpcli: {text}", err=True)


@contextmanager
def _hint_after_interrupt(plan: SweepPlan) -> Iterator[None]:
    """Print after Ctrl-C where the finished runs are."""
    try:
        yield
    except KeyboardInterrupt:
        click.echo(f"dpcli: the runs so far are in {plan.folder}; the same command continues from them", err=True)
        raise

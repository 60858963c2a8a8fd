"""dpcli sweep."""

from __future__ import annotations

import click

from dpcli.cli.options import emit, output_options
from dpcli.sessions.commands.predicting import charged_ledger


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
    from dpcli.sweep.commands.sweeping import swept
    from dpcli.sweep.documents.sweep import planned
    from dpcli.sweep.plan import plan_sweep

    plan = plan_sweep(file)
    if dry_run:
        if window:
            from dpcli.sessions.commands.predicting import windowed

            plan = windowed(plan, ledger, dataset, window)
        return emit(planned(plan), format_, outputs)
    return emit(swept(plan, jobs, ledger, dataset, window, pictures), format_, outputs)

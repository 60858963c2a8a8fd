"""dpcli pate label."""

from __future__ import annotations

import click

from dpcli.cli.options import emit, output_options
from dpcli.sessions.commands.predicting import charged_ledger


@click.command(short_help="Answer the queries with noise, and leave labels and a statement.")
@click.argument("file")
@charged_ledger("Charge this ledger before the first noise.")
@click.option("--moved", is_flag=True, help="The folder was moved here from another place, which is gone.")
@click.option("--insecure-seed", type=click.IntRange(min=0), help="Reproducible noise, for debugging: NOT PRIVATE.")
@output_options("text", "total")
def command(
    file: str,
    ledger: str | None,
    dataset: str | None,
    window: tuple[str, ...],
    moved: bool,
    insecure_seed: int | None,
    format_: str,
    outputs: tuple[str, ...],
) -> int:
    """Put the queries of FILE to the teachers, or to a file of their votes, and leave the labels that come out of the noise.

    Every query is charged before noise is drawn for it, answered or not, and none is put twice: a session that was interrupted goes on with
    the next one, a copy of its folder with none, and one that has ended gives the labels that it gave. It stops at the answers that the
    entry allows, or at as many as the budget does; both are fixed before a vote is seen.

    Exit code 1 where the budget or the ledger says no, 2 where there are no votes, 130 where it was interrupted.
    """
    from dpcli.predict.commands.pate_session import held_with_progress
    from dpcli.predict.documents.pate import labelled
    from dpcli.predict.pate.plan import plan_of

    return emit(labelled(held_with_progress(plan_of(file), ledger, dataset, window, moved, insecure_seed)), format_, outputs)

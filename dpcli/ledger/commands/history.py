"""dpcli budget import."""

from __future__ import annotations

import click

from dpcli.cli.options import emit, output_options
from dpcli.ledger.commands.options import dataset_option, ledger_argument, opened


@click.command(name="import", short_help="Charge what was spent before there was a ledger.")
@ledger_argument
@click.argument("history")
@dataset_option
@output_options("text", "total", "records")
def command(ledger: str, history: str, dataset: str | None, format_: str, outputs: tuple[str, ...]) -> int:
    """Charge the runs in HISTORY to LEDGER, all of them or none: a csv, or json lines where its name ends in .jsonl.

    Its columns are date and key; file (a pipeline, from the folder of HISTORY), or the guarantee that was stated for one unit: epsilon,
    with or without delta, or rho, and the unit and adjacency that it was stated for; who, note, and window (BLOCKS;BLOCKS) where the
    dataset has blocks. delta beside a file or a rho is where the run is described. Entries say when the run was made and by whom,
    beside who imported it.

    HISTORY has at most 1,000 runs. One that is in the ledger already, under its key and in the same words, is not charged again. What was
    spent is spent: a history that does not fit is refused as a whole, and the message says which cap holds it. dpcli budget amend sets
    that, with an approver.

    Exit code 0: done, or nothing to do. 1: it does not fit, and nothing was written. 2: a line is wrong. 4: a key is another run's.
    """
    from dpcli.ledger.documents.ledger_answers import imported
    from dpcli.ledger.history import charge_history, read_history

    with opened(ledger, dataset) as found:
        runs = read_history(history, found.now())
        return emit(imported(found, lambda: charge_history(found, runs)), format_, outputs)

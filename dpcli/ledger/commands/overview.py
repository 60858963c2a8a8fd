"""dpcli budget overview."""

from __future__ import annotations

import click

from dpcli.cli.options import emit, output_options


@click.command(short_help="All datasets of ledgers in one table, the fullest first.")
@click.argument("ledgers", nargs=-1, required=True, metavar="LEDGER...")
@output_options("text", "total", "records")
def command(ledgers: tuple[str, ...], format_: str, outputs: tuple[str, ...]) -> int:
    """List every dataset of each LEDGER: unit, adjacency, filter, cap, the share that is used (with blocks, of the fullest one), what is
    reserved, the last entry, and what somebody should look at. The fullest come first.

    Each is read from its last checkpoint on, whatever its history. A dataset or a ledger that cannot be read has a row that says so, before
    all others; the exit code is 4 then.
    """
    from dpcli.ledger.documents.ledger_overview import datasets
    from dpcli.ledger.overview import overview

    return emit(datasets(*overview(ledgers)), format_, outputs)

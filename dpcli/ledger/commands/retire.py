"""dpcli budget retire."""

from __future__ import annotations

import click

from dpcli.cli.options import emit, output_options
from dpcli.ledger.commands.options import dataset_option, ledger_argument, opened


@click.command(short_help="Close blocks for good.")
@ledger_argument
@click.argument("blocks", nargs=-1, required=True)
@dataset_option
@click.option("--reason", "why", required=True, metavar="TEXT", help="Why, as: the data were deleted.")
@output_options("text", "total", "records")
def command(ledger: str, blocks: tuple[str, ...], dataset: str | None, why: str, format_: str, outputs: tuple[str, ...]) -> int:
    """Close BLOCKS of LEDGER (2026-01-01, or 2026-01-01..2026-01-28): no further run reads them. What was charged stays charged."""
    from dpcli.ledger.documents.ledger_answers import receipt

    with opened(ledger, dataset) as found:
        return emit(receipt(found, lambda: found.retire(blocks, why)), format_, outputs)

"""dpcli budget anchor."""

from __future__ import annotations

import click

from dpcli.cli.options import emit
from dpcli.ledger.commands.options import opened, reading


@click.command(short_help="Print the head of the chain, to be kept elsewhere.")
@reading("json", kept=True)
def command(ledger: str, dataset: str | None, format_: str, outputs: tuple[str, ...]) -> int:
    """Print the number and hash of the last entry of LEDGER. Keep it where the ledger is not (the repository of the pipeline, say):
    no chain can tell by itself that it was restored from a backup, and `verify --anchor` can."""
    from dpcli.ledger.documents.ledger_entries import anchor

    with opened(ledger, dataset) as found:
        return emit(anchor(found), format_, outputs)

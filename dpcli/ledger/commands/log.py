"""dpcli budget log."""

from __future__ import annotations

import click

from dpcli.cli.options import emit
from dpcli.ledger.commands.options import opened, reading


@click.command(short_help="Every entry, in order.")
@reading("table", "records", kept=True)
def command(ledger: str, dataset: str | None, format_: str, outputs: tuple[str, ...]) -> int:
    """List every entry of LEDGER: what, which run, what it cost, who, when (by the writer's clock) and why."""
    from dpcli.ledger.documents.ledger_entries import log

    with opened(ledger, dataset) as found:
        return emit(log(found), format_, outputs)

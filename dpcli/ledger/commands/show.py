"""dpcli budget show."""

from __future__ import annotations

import click

from dpcli.cli.options import PICTURES
from dpcli.ledger.commands.options import emit_pictured, opened, reading, wants


@click.command(short_help="What is spent, by whom, and what still fits.")
@reading("text", "total", "records", PICTURES)
def command(ledger: str, dataset: str | None, format_: str, outputs: tuple[str, ...]) -> int:
    """Show what the dataset of LEDGER has spent: the bar, each run's share, how many more like the last fit.

    -o x.svg draws it (.png and .vl.json too): blocks by the share of their caps that is used, days as a calendar; without blocks, what each
    entry left of the cap. -o x.html is a page with both.
    """
    from dpcli.ledger.documents.ledger_balance import picture, shown

    with opened(ledger, dataset) as found:
        document = shown(found, wants("html", format_, outputs))
        return emit_pictured(document, lambda: picture(found), format_, outputs)

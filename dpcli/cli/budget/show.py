"""dpcli budget show."""

from __future__ import annotations

import click

from dpcli.cli.budget.options import opened, reading, wants
from dpcli.cli.options import emit


@click.command(short_help="What is spent, by whom, and what still fits.")
@reading("text", "total", "records")
def command(ledger: str, dataset: str | None, format_: str, outputs: tuple[str, ...]) -> int:
    """Show what the dataset of LEDGER has spent: the bar, each run's share, how many more like the last fit."""
    from dpcli.present.ledger_balance import shown

    with opened(ledger, dataset) as found:
        return emit(shown(found, wants("html", format_, outputs)), format_, outputs)

"""dpcli budget start."""

from __future__ import annotations

import click

from dpcli.cli.budget_options import moving, opened
from dpcli.cli.options import emit


@click.command(short_help="Note that a reserved run is about to draw noise.")
@moving()
def command(ledger: str, key: str, dataset: str | None, format_: str, outputs: tuple[str, ...]) -> int:
    """Note that the reserved run KEY is about to draw noise: from here on it cannot be voided."""
    from dpcli.report.budget_report import receipt

    with opened(ledger, dataset) as found:
        return emit(receipt(found, lambda: found.start(key)), format_, outputs)

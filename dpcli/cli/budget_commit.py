"""dpcli budget commit."""

from __future__ import annotations

import click

from dpcli.cli.budget_options import moving, opened
from dpcli.cli.options import emit


@click.command(short_help="Note that a reserved run has ended.")
@moving()
def command(ledger: str, key: str, dataset: str | None, format_: str, outputs: tuple[str, ...]) -> int:
    """Note that the reserved run KEY has ended. It was charged when it was reserved, and stays so."""
    from dpcli.report.budget_report import receipt

    with opened(ledger, dataset) as found:
        return emit(receipt(found, lambda: found.commit(key)), format_, outputs)

"""dpcli budget start."""

from __future__ import annotations

import click

from dpcli.cli.options import emit
from dpcli.ledger.commands.options import moving, opened, others_option


@click.command(short_help="Note that a reserved run is about to draw noise.")
@moving(others_option)
def command(ledger: str, key: str, dataset: str | None, why: str, format_: str, outputs: tuple[str, ...]) -> int:
    """Note that the reserved run KEY is about to draw noise: from here on it cannot be voided.

    Whoever made the reservation may; anybody else has to be an administrator and say why. In a database the login counts. A file cannot
    tell people apart: whoever may write it is its administrator, and the account that the process has is noted."""
    from dpcli.ledger.documents.ledger_answers import receipt

    with opened(ledger, dataset) as found:
        return emit(receipt(found, lambda: found.start(key, why)), format_, outputs)

"""dpcli budget commit."""

from __future__ import annotations

import click

from dpcli.cli.options import emit
from dpcli.ledger.commands.options import ending_option, moving, opened


@click.command(short_help="Note that a reserved run has ended.")
@moving(ending_option)
def command(ledger: str, key: str, dataset: str | None, why: str, format_: str, outputs: tuple[str, ...]) -> int:
    """Note that the reserved run KEY has ended. It was charged when it was reserved, and stays so.

    A run that was never started needs a --reason: a start comes before the first noise and is granted once, so that of two who hold one
    reservation only one draws noise.

    Whoever made the reservation may; anybody else has to be an administrator and say why. In a database the login counts. A file cannot
    tell people apart: whoever may write it is its administrator, and the account that the process has is noted."""
    from dpcli.ledger.documents.ledger_answers import receipt

    with opened(ledger, dataset) as found:
        return emit(receipt(found, lambda: found.commit(key, why)), format_, outputs)

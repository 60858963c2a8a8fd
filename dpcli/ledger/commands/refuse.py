"""dpcli budget refuse."""

from __future__ import annotations

import click

from dpcli.cli.options import emit
from dpcli.ledger.commands.options import answering, opened


@click.command(short_help="Refuse what was proposed, or withdraw it.")
@answering("Why it is refused or withdrawn.")
def command(ledger: str, entry: int, dataset: str | None, why: str, format_: str, outputs: tuple[str, ...]) -> int:
    """Close the proposal in entry ENTRY of LEDGER for good: nobody can approve it any more.

    Whoever proposed it withdraws it so. In a database anybody else needs the role dpcli_admin.
    """
    from dpcli.ledger.documents.ledger_answers import receipt

    with opened(ledger, dataset) as found:
        return emit(receipt(found, lambda: found.refuse(entry, why)), format_, outputs)

"""dpcli budget upgrade."""

from __future__ import annotations

import click

from dpcli.cli.options import emit, output_options
from dpcli.ledger.commands.options import ledger_argument


@click.command(short_help="Make a ledger's definitions again as this version has them.")
@ledger_argument
@output_options("text")
def command(ledger: str, format_: str, outputs: tuple[str, ...]) -> int:
    """Make what guards the entries of LEDGER again as this version of dpcli has it, and note it in the chain of every dataset.

    Entries stay as they are. From here on totals are noted beside them, and a request costs the same however many there are. A file is
    read and written by earlier versions as before. A database is upgraded by the owner of the schema, and refuses earlier versions from
    then on; datasets that are hidden from the owner are noted by an administrator of theirs, who runs it too.

    Exit code 0: done, or nothing to do. 4: the user may not, or the checks were changed by somebody else.
    """
    from dpcli.ledger.documents.ledger_entries import upgraded
    from dpcli.ledger.stores.places import upgrade

    return emit(upgraded(upgrade(ledger)), format_, outputs)

"""dpcli budget upgrade."""

from __future__ import annotations

import click

from dpcli.cli.budget.options import ledger_argument
from dpcli.cli.options import emit, output_options


@click.command(short_help="Make a database's checks again as this version has them.")
@ledger_argument
@output_options("text")
def command(ledger: str, format_: str, outputs: tuple[str, ...]) -> int:
    """Make the checks in the database of LEDGER again as this version of dpcli has them, and note it in the chain of every dataset.

    Entries stay as they are. The owner of the schema runs it. Datasets that are hidden from the owner are noted by an administrator of
    theirs, who runs it too. A ledger in a file has no checks of its own: nothing is done.

    Exit code 0: done, or nothing to do. 4: the user may not, or the checks were changed by somebody else.
    """
    from dpcli.ledger.stores.places import upgrade
    from dpcli.present.ledger_entries import upgraded

    return emit(upgraded(upgrade(ledger)), format_, outputs)

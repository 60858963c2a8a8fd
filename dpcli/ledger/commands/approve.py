"""dpcli budget approve."""

from __future__ import annotations

import click

from dpcli.cli.options import emit
from dpcli.ledger.commands.options import answering, opened, raising_options


@click.command(short_help="Approve what another person proposed.")
@answering("Why it is approved.")
@raising_options
def command(
    ledger: str,
    entry: int,
    dataset: str | None,
    why: str,
    acknowledge: bool,
    unseen: bool,
    format_: str,
    outputs: tuple[str, ...],
) -> int:
    """Make what entry ENTRY of LEDGER proposes effective, in a ledger that was opened with --two-person.

    Whoever proposed it cannot approve it, nor can somebody whose name looks like his. In a database the login counts, and it needs the role
    dpcli_admin. A file cannot tell people apart: there the name of the account is noted, and proves nothing.

    Whoever approves a cap above all that is guaranteed so far says with --no-output-seen that whoever decides it has seen no output, or
    with --acknowledge that no epsilon is guaranteed from then on: see `dpcli budget amend --help`.

    A proposal is approved once, and within its time. It ends when it is refused, and when what it is about has changed since: the cap was
    amended, the run was started, or somebody proposed anew. `dpcli budget show` lists those that are open.
    """
    from dpcli.ledger.documents.ledger_answers import receipt

    with opened(ledger, dataset) as found:
        return emit(receipt(found, lambda: found.approve(entry, why, unseen, acknowledge)), format_, outputs)

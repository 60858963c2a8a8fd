"""dpcli budget: a group, one file per subcommand."""

from __future__ import annotations

import click

from dpcli.cli.groups import LazyGroup

SUBCOMMANDS: dict[str, tuple[str, str]] = {
    "init": ("dpcli.ledger.commands.init:command", "Open the ledger of a dataset; its terms are fixed for good."),
    "show": ("dpcli.ledger.commands.show:command", "What is spent, by whom, and what still fits."),
    "spend": ("dpcli.ledger.commands.spend:command", "Charge a run that is made at once."),
    "reserve": ("dpcli.ledger.commands.reserve:command", "Charge a long run before it starts."),
    "start": ("dpcli.ledger.commands.start:command", "Note that a reserved run is about to draw noise."),
    "commit": ("dpcli.ledger.commands.commit:command", "Note that a reserved run has ended."),
    "void": ("dpcli.ledger.commands.void:command", "Give back a reservation before any noise was drawn."),
    "amend": ("dpcli.ledger.commands.amend:command", "Change the cap, with a reason and an approver."),
    "quota": ("dpcli.ledger.commands.quota:command", "Limit what a person or a team may charge."),
    "approve": ("dpcli.ledger.commands.approve:command", "Approve what another person proposed."),
    "refuse": ("dpcli.ledger.commands.refuse:command", "Refuse what was proposed, or withdraw it."),
    "windows": ("dpcli.ledger.commands.windows:command", "Which blocks still take a run."),
    "plan": ("dpcli.ledger.commands.plan:command", "Which runs of a schedule fit, before the first is made."),
    "overview": ("dpcli.ledger.commands.overview:command", "All datasets of ledgers in one table, the fullest first."),
    "retire": ("dpcli.ledger.commands.retire:command", "Close blocks for good."),
    "upgrade": ("dpcli.ledger.commands.upgrade:command", "Make a ledger's definitions again as this version has them."),
    "import": ("dpcli.ledger.commands.history:command", "Charge what was spent before there was a ledger."),
    "copy": ("dpcli.ledger.commands.copy:command", "Move datasets to another ledger, their chains as they are."),
    "log": ("dpcli.ledger.commands.log:command", "Every entry, in order."),
    "verify": ("dpcli.ledger.commands.verify:command", "Check the chain, its guards, every cost, and an anchor."),
    "anchor": ("dpcli.ledger.commands.anchor:command", "Print the head of the chain, to be kept elsewhere."),
    "export": ("dpcli.ledger.commands.export:command", "All entries as json, csv or markdown."),
}


@click.group(cls=LazyGroup, table=SUBCOMMANDS, short_help="The ledger: what a dataset has spent, and what still fits.")
def command() -> None:
    """Keep the budget of a dataset over many runs: LEDGER is a path, sqlite:///PATH or postgresql://HOST/DATABASE.

    A ledger holds the mechanisms of every run in a hash chain. A privacy filter, fixed by `init`, adds up what was chosen adaptively.

    Exit code 0: done (or done before, under the same key). 1: the budget says no, and nothing was written. 2: input error. 3: the run has
    no cost that could be charged. 4: the ledger is missing, locked, damaged, or holds something else under the same key.
    """

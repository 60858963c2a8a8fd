"""dpcli budget: a group, one file per subcommand."""

from __future__ import annotations

import click

from dpcli.cli.lazy import LazyGroup

SUBCOMMANDS: dict[str, tuple[str, str]] = {
    "init": ("dpcli.cli.budget.init:command", "Open the ledger of a dataset; its terms are fixed for good."),
    "show": ("dpcli.cli.budget.show:command", "What is spent, by whom, and what still fits."),
    "spend": ("dpcli.cli.budget.spend:command", "Charge a run that is made at once."),
    "reserve": ("dpcli.cli.budget.reserve:command", "Charge a long run before it starts."),
    "start": ("dpcli.cli.budget.start:command", "Note that a reserved run is about to draw noise."),
    "commit": ("dpcli.cli.budget.commit:command", "Note that a reserved run has ended."),
    "void": ("dpcli.cli.budget.void:command", "Give back a reservation before any noise was drawn."),
    "amend": ("dpcli.cli.budget.amend:command", "Change the cap, with a reason and an approver."),
    "quota": ("dpcli.cli.budget.quota:command", "Limit what a person or a team may charge."),
    "approve": ("dpcli.cli.budget.approve:command", "Approve what another person proposed."),
    "refuse": ("dpcli.cli.budget.refuse:command", "Refuse what was proposed, or withdraw it."),
    "windows": ("dpcli.cli.budget.windows:command", "Which blocks still take a run."),
    "plan": ("dpcli.cli.budget.plan:command", "Which runs of a schedule fit, before the first is made."),
    "overview": ("dpcli.cli.budget.overview:command", "All datasets of ledgers in one table, the fullest first."),
    "retire": ("dpcli.cli.budget.retire:command", "Close blocks for good."),
    "upgrade": ("dpcli.cli.budget.upgrade:command", "Make a ledger's definitions again as this version has them."),
    "import": ("dpcli.cli.budget.history:command", "Charge what was spent before there was a ledger."),
    "copy": ("dpcli.cli.budget.copy:command", "Move datasets to another ledger, their chains as they are."),
    "log": ("dpcli.cli.budget.log:command", "Every entry, in order."),
    "verify": ("dpcli.cli.budget.verify:command", "Check the chain, its guards, every cost, and an anchor."),
    "anchor": ("dpcli.cli.budget.anchor:command", "Print the head of the chain, to be kept elsewhere."),
    "export": ("dpcli.cli.budget.export:command", "All entries as json, csv or markdown."),
}


@click.group(cls=LazyGroup, table=SUBCOMMANDS, short_help="The ledger: what a dataset has spent, and what still fits.")
def command() -> None:
    """Keep the budget of a dataset over many runs: LEDGER is a path, sqlite:///PATH or postgresql://HOST/DATABASE.

    A ledger holds the mechanisms of every run in a hash chain. A privacy filter, fixed by `init`, adds up what was chosen adaptively.

    Exit code 0: done (or done before, under the same key). 1: the budget says no, and nothing was written. 2: input error. 3: the run has
    no cost that could be charged. 4: the ledger is missing, locked, damaged, or holds something else under the same key.
    """

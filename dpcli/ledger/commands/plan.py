"""dpcli budget plan."""

from __future__ import annotations

import click

from dpcli.cli.options import PICTURES, output_options, working
from dpcli.ledger.commands.options import dataset_option, emit_pictured, ledger_argument, opened, wants


@click.command(short_help="Which runs of a schedule fit, before the first is made.")
@ledger_argument
@click.argument("file", metavar="SCHEDULE")
@dataset_option
@output_options("text", "total", "records", PICTURES)
def command(ledger: str, file: str, dataset: str | None, format_: str, outputs: tuple[str, ...]) -> int:
    """Walk the runs of SCHEDULE through the calendar, from what LEDGER has spent by now, and say which fit. Nothing is written.

    SCHEDULE is a TOML file of [[run]] tables, in dpcli-schedule(5): which pipeline file, how often, from when to when, and which blocks
    it reads, as window = "last 28 days". Each file is priced once. A run that does not fit is left out, and the next ones are asked for
    all the same, as the ledger itself would do.

    Told are the first run that does not fit and by how much, what is used at the end, what would fit instead, and, where all fit, how long
    the budget lasts if the schedule goes on. -o x.svg draws the blocks at the end of the plan; without blocks, what each run leaves.

    Exit code 0 where all runs fit, 1 where one does not.
    """
    from dpcli.ledger.documents.ledger_plan import picture, planned
    from dpcli.ledger.planning.instead import instead_of
    from dpcli.ledger.planning.rehearse import outlook_of, plan_of
    from dpcli.ledger.planning.schedule_read import read_schedule

    schedule = read_schedule(file)
    with opened(ledger, dataset) as found, working():
        plan = plan_of(found, schedule)
        document = planned(plan, instead_of(found, plan), outlook_of(plan), wants("html", format_, outputs))
    return emit_pictured(document, lambda: picture(plan), format_, outputs)

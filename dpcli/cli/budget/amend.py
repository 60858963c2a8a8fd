"""dpcli budget amend."""

from __future__ import annotations

import click

from dpcli.cli.budget.options import dataset_option, ledger_argument, opened, proposing_option
from dpcli.cli.options import emit, output_options


@click.command(short_help="Change the cap, with a reason and an approver.")
@ledger_argument
@dataset_option
@click.option("--epsilon", type=float, required=True, help="The new cap on epsilon, at the ledger's delta.")
@click.option("--reason", "why", required=True, metavar="TEXT", help="Why the cap changes.")
@click.option("--approver", default="", metavar="NAME", help="Who allowed it; not in a ledger of two persons.")
@click.option("--acknowledge", is_flag=True, help="Lower the cap, although that guarantees nothing about runs that were made.")
@proposing_option
@output_options("text", "total", "records")
def command(
    ledger: str,
    dataset: str | None,
    epsilon: float,
    why: str,
    approver: str,
    acknowledge: bool,
    expires: str | None,
    format_: str,
    outputs: tuple[str, ...],
) -> int:
    """Change the cap of LEDGER upwards or downwards, by an entry in the chain. Unit, adjacency, delta and filter never change.

    A lower cap lets less through from here on. It does not mean that what was released satisfies the lower epsilon: whoever lowers it may
    have looked at the outputs, and only the cap that held while they were made is a bound. Hence --acknowledge.

    In a ledger that was opened with --two-person this proposes the change, and the cap stays as it is until another person approves it:
    `dpcli budget approve`.
    """
    from dpcli.present.ledger_answers import receipt

    with opened(ledger, dataset) as found:
        return emit(receipt(found, lambda: found.amend(epsilon, why, approver, acknowledge, expires)), format_, outputs)

"""dpcli budget amend."""

from __future__ import annotations

import click

from dpcli.cli.options import emit, output_options
from dpcli.ledger.commands.options import dataset_option, ledger_argument, opened, proposing_option, raising_options


@click.command(short_help="Change the cap, with a reason and an approver.")
@ledger_argument
@dataset_option
@click.option("--epsilon", type=float, required=True, help="The new cap on epsilon, at the ledger's delta.")
@click.option("--reason", "why", required=True, metavar="TEXT", help="Why the cap changes.")
@click.option("--approver", default="", metavar="NAME", help="Who is said to have allowed it; not in a ledger of two persons.")
@raising_options
@proposing_option
@output_options("text", "total", "records")
def command(
    ledger: str,
    dataset: str | None,
    epsilon: float,
    why: str,
    approver: str,
    acknowledge: bool,
    unseen: bool,
    expires: str | None,
    format_: str,
    outputs: tuple[str, ...],
) -> int:
    """Change the cap of LEDGER upwards or downwards, by an entry in the chain. Unit, adjacency, delta and filter never change.

    A lower cap lets less through from here on. It does not mean that what was released satisfies the lower epsilon: whoever lowers it may
    have looked at the outputs, and only the cap that held while they were made is a bound. Hence --acknowledge.

    A cap that is raised because of an output bounds nothing: more runs could have followed, so the old cap was never a bound, nor is the
    new one. What holds: up to the --ceiling of `init` the cap may be raised whatever was seen, and the ceiling is guaranteed. Above it,
    --no-output-seen is the approver's word, written into the log, that whoever decides this has seen no output of a run that was charged
    here; the new cap is then guaranteed on that word. Without it the cap is raised with --acknowledge alone, and from then on show, log and
    export say that no epsilon is guaranteed.

    The approver is another person than whoever asks; nobody checks who, so the log says "stated approver". In a ledger that was opened
    with --two-person this proposes the change, and the cap stays as it is until another person approves it: `dpcli budget approve`.
    """
    from dpcli.ledger.documents.ledger_answers import receipt

    with opened(ledger, dataset) as found:
        return emit(receipt(found, lambda: found.amend(epsilon, why, approver, acknowledge, expires, unseen)), format_, outputs)

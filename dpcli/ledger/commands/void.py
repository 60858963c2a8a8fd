"""dpcli budget void."""

from __future__ import annotations

import click

from dpcli.cli.options import emit
from dpcli.ledger.commands.options import moving, opened, proposing_option


@click.command(short_help="Give back a reservation before any noise was drawn.")
@moving(
    click.option("--reason", "why", required=True, metavar="TEXT", help="Why no noise was drawn."),
    click.option("--despite-clock", is_flag=True, help="Although a later entry is dated past its end, by a clock that was wrong."),
    proposing_option,
)
def command(
    ledger: str,
    key: str,
    dataset: str | None,
    why: str,
    despite_clock: bool,
    expires: str | None,
    format_: str,
    outputs: tuple[str, ...],
) -> int:
    """Give back the reservation KEY, of which no noise was drawn: the log keeps who said so, and why.

    Refused where the run was started, committed, or its reservation has expired: then it stays charged. Whoever made the reservation may
    void it, and an administrator. A database goes by its own clock. A file goes by this machine's and by its entries' times, so that
    setting back a clock brings nothing back; --despite-clock leaves the entries' times out, where one of them is wrong.

    In a ledger that was opened with --two-person this proposes it, and the run stays charged until another person approves:
    `dpcli budget approve`.
    """
    from dpcli.ledger.documents.ledger_answers import receipt

    with opened(ledger, dataset) as found:
        return emit(receipt(found, lambda: found.void(key, why, despite_clock, expires)), format_, outputs)

"""dpcli budget quota."""

from __future__ import annotations

import click

from dpcli.cli.options import emit, output_options
from dpcli.ledger.commands.options import dataset_option, ledger_argument, opened, proposing_option


@click.command(short_help="Limit what a person or a team may charge.")
@ledger_argument
@dataset_option
@click.option("--person", metavar="NAME", help="Whose charges: a login in a database, in a file the name of an account.")
@click.option("--team", metavar="NAME", help="The name of a team, whose members' charges are added up.")
@click.option("--member", "members", multiple=True, metavar="NAME", help="A member of the team; repeatable.")
@click.option("--share", required=True, metavar="SHARE", help="Of the cap, from 0 to 1; 1 lifts the quota.")
@click.option("--alert-at", default="0.8", show_default=True, metavar="SHARE", help="Of the quota: a charge beyond it is told.")
@click.option("--reason", "why", required=True, metavar="TEXT", help="Why.")
@proposing_option
@output_options("text", "total", "records")
def command(
    ledger: str,
    dataset: str | None,
    person: str | None,
    team: str | None,
    members: tuple[str, ...],
    share: str,
    alert_at: str,
    why: str,
    expires: str | None,
    format_: str,
    outputs: tuple[str, ...],
) -> int:
    """Let a person, or the members of a team together, charge no more than a share of LEDGER's cap: by an entry in the chain, which the
    next one for the same name replaces.

    Charges from before count, voided ones do not. Where the dataset is cut into blocks the share is of each block's cap. A charge over a
    quota is denied (exit code 1). One that takes a quota beyond --alert-at is granted, and standard error says so. A database holds people
    to it by their logins, and takes quotas from the role dpcli_admin; to whoever may write a file they are a reminder.

    In a ledger that was opened with --two-person this proposes it: `dpcli budget approve`.
    """
    from dpcli.ledger.documents.ledger_answers import receipt
    from dpcli.ledger.opening import stated_quota

    asked = stated_quota(person, team, members, share, alert_at)
    with opened(ledger, dataset) as found:
        return emit(receipt(found, lambda: found.quota(*asked, why=why, expires=expires)), format_, outputs)

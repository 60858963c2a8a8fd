"""The commands `dpcli budget amend`, quota, approve, refuse and retire: decide what runs may be charged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from dpcli.ledger.commands.budget import (
    answer,
    answer_options,
    dataset_option,
    ledger_argument,
    proposing_option,
    raising_options,
    reason_option,
    subcommand,
)


def answering(name: str, reason: str, *extra: Callable[..., Any]) -> Callable[..., Any]:
    """Return the decorator of a subcommand about a proposal: LEDGER ENTRY --reason ..."""
    entry = click.argument("entry", type=int)
    return subcommand(name, ledger_argument, entry, dataset_option, reason_option(reason, required=True), answer_options, *extra)


@subcommand(
    "amend",
    ledger_argument,
    dataset_option,
    click.option("--epsilon", type=float, required=True, help="The new cap on epsilon, at the ledger's delta."),
    reason_option("Why the cap changes.", required=True),
    click.option("--approver", default="", metavar="NAME", help="Who is said to have allowed it; not in a two-person ledger."),
    raising_options,
    proposing_option,
    answer_options,
)
def amend(
    ledger: str,
    dataset: str | None,
    epsilon: float,
    why: str,
    approver: str,
    acknowledge: bool,
    unseen: bool,
    expires: str | None,
    **output: Any,
) -> int:
    """Change the cap of LEDGER upwards or downwards, by an entry in the chain. Unit, adjacency, delta and filter never change.

    A lower cap lets less through from then on. It does not mean that what was released satisfies the lower epsilon: whoever lowers it may
    have looked at the outputs, and only the cap that held while they were made is a bound. Hence --acknowledge.

    A cap that is raised because of an output bounds nothing: more runs could have followed, so the old cap was never a bound, nor is the
    new one. What holds: up to the --ceiling of `init` the cap may be raised whatever was seen, and the ceiling is guaranteed. Above it,
    --no-output-seen is the approver's word, written into the log, that whoever decides this has seen no output of a run that was charged
    to this ledger; the new cap is then guaranteed on that word. Without it the cap is raised with --acknowledge alone, and from then on
    show, log and export say that no epsilon is guaranteed.

    The approver is another person than whoever asks; nobody checks who, so the log says "stated approver". In a ledger that was opened
    with --two-person this proposes the change, and the cap stays as it is until another person approves it: `dpcli budget approve`.
    """
    return answer(ledger, dataset, lambda book: book.amend(epsilon, why, approver, acknowledge, expires, unseen), **output)


@subcommand(
    "quota",
    ledger_argument,
    dataset_option,
    click.option("--person", metavar="NAME", help="Whose charges: a login in a database, in a file the name of an account."),
    click.option("--team", metavar="NAME", help="The name of a team, whose members' charges are added up."),
    click.option("--member", "members", multiple=True, metavar="NAME", help="A member of the team; repeatable."),
    click.option("--share", required=True, metavar="SHARE", help="Share of the cap, 0 to 1; 1 removes the quota."),
    click.option(
        "--alert-at", default="0.8", show_default=True, metavar="SHARE", help="Share of the quota from which charges warn."
    ),
    reason_option("Why.", required=True),
    proposing_option,
    answer_options,
)
def quota(
    ledger: str,
    dataset: str | None,
    person: str | None,
    team: str | None,
    members: tuple[str, ...],
    share: str,
    alert_at: str,
    why: str,
    expires: str | None,
    **output: Any,
) -> int:
    """Let a person, or the members of a team together, charge no more than a share of LEDGER's cap: by an entry in the chain, which the
    next one for the same name replaces.

    Charges from before count, voided ones do not. Where the dataset is cut into blocks the share is of each block's cap. A charge over a
    quota is denied (exit code 1). One that takes a quota beyond --alert-at is granted, and standard error says so. A database holds people
    to it by their logins, and takes quotas from the role dpcli_admin; to whoever may write a file they are a reminder.

    In a ledger that was opened with --two-person this proposes it: `dpcli budget approve`.
    """
    from dpcli.ledger.opening import quota_from_flags

    terms = quota_from_flags(person, team, members, share, alert_at)
    return answer(ledger, dataset, lambda book: book.quota(*terms, why=why, expires=expires), **output)


@answering("approve", "Why it is approved.", raising_options)
def approve(ledger: str, entry: int, dataset: str | None, why: str, acknowledge: bool, unseen: bool, **output: Any) -> int:
    """Make what entry ENTRY of LEDGER proposes effective, in a ledger that was opened with --two-person.

    Whoever proposed it cannot approve it, nor can somebody whose name looks like his. In a database the login counts, and it needs the role
    dpcli_admin. A file cannot tell people apart: the name of the account is noted, and proves nothing.

    Whoever approves a cap above all that is guaranteed so far says with --no-output-seen that whoever decides it has seen no output, or
    with --acknowledge that no epsilon is guaranteed from then on: see `dpcli budget amend --help`.

    A proposal is approved once, and within its time. It ends when it is refused, and when what it is about has changed since: the cap was
    amended, the run was started, or somebody proposed anew. `dpcli budget show` lists those that are open.
    """
    return answer(ledger, dataset, lambda book: book.approve(entry, why, unseen, acknowledge), **output)


@answering("refuse", "Why it is refused or withdrawn.")
def refuse(ledger: str, entry: int, dataset: str | None, why: str, **output: Any) -> int:
    """Close the proposal in entry ENTRY of LEDGER for good: nobody can approve it any more.

    Whoever proposed it withdraws it so. In a database anybody else needs the role dpcli_admin.
    """
    return answer(ledger, dataset, lambda book: book.refuse(entry, why), **output)


@subcommand(
    "retire",
    ledger_argument,
    click.argument("blocks", nargs=-1, required=True),
    dataset_option,
    reason_option("Why, as: the data were deleted.", required=True),
    answer_options,
)
def retire(ledger: str, blocks: tuple[str, ...], dataset: str | None, why: str, **output: Any) -> int:
    """Close BLOCKS of LEDGER (2026-01-01, or 2026-01-01..2026-01-28): no further run reads them. What was charged stays charged."""
    return answer(ledger, dataset, lambda book: book.retire(blocks, why), **output)

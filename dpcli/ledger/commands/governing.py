"""The commands `dpcli budget amend`, quota, rate, approve, refuse, retire, correct and acknowledge, which decide what may be charged.

Each takes a reason, because the log should tell later why the rules of a ledger changed. A *quota* limits what a person or a team may
charge, and a *block* is a part of the dataset with a cap of its own. In a two-person ledger amend, quota, rate and acknowledge only make a
*proposal*, which changes nothing until another person approves it (dpcli/ledger/governance/proposals.py). The docstring of a command is its
help; dpcli/ledger/ledger.py does what it says. `ledger` is the text of the argument LEDGER, and `book` the open `Ledger`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from dpcli.ledger.commands.budget import (
    answer,
    answer_options,
    dataset_option,
    delta_option,
    ledger_argument,
    opened_ledger,
    proposing_option,
    raising_options,
    reason_option,
    subcommand,
    with_delta_findings,
)


def proposal_subcommand(name: str, reason: str, *extra: Callable[..., Any]) -> Callable[..., Any]:
    """Return the decorator of a subcommand about a proposal: LEDGER ENTRY --reason ..."""
    entry = click.argument("entry", type=int)
    return subcommand(name, ledger_argument, entry, dataset_option, reason_option(reason, required=True), answer_options, *extra)


@subcommand(
    "amend",
    ledger_argument,
    dataset_option,
    click.option("--epsilon", type=float, required=True, help="The new cap on epsilon, at the ledger's delta."),
    reason_option("Reason for the change.", required=True),
    click.option("--approver", default="", metavar="NAME", help="Person who approved the change; not in a two-person ledger."),
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
    """Raise or lower the cap of LEDGER, by an entry in the chain. Unit, adjacency, delta and filter never change.

    A lower cap stops further runs earlier. It does not mean that the released outputs satisfy the lower epsilon. The person who lowers it
    may have looked at the outputs, so only the cap that was valid while they were made is a bound. Hence --acknowledge is required.

    If a cap is raised because of an output, neither the old nor the new cap is a bound. Two ways keep a guarantee. Up to the --ceiling of
    `init` the cap may be raised for any reason, and the ceiling is guaranteed. Above the ceiling, --no-output-seen states that nobody who
    decides on the cap has seen an output of a run that was charged to this ledger. The new cap is then guaranteed on the word of the
    approver, which the log records. Without this statement the cap is raised only with --acknowledge, and from then on show, log and export
    state that no epsilon is guaranteed.

    The approver must be another person than the one who requests the change. As nobody checks this, the log says "stated approver". In a
    ledger that was opened with --two-person the command proposes the change. The cap stays as it is until another person approves the
    proposal with `dpcli budget approve`.
    """
    return answer(
        ledger,
        dataset,
        lambda book: book.amend(epsilon, why, approver, acknowledged=acknowledge, expires=expires, unseen=unseen),
        **output,
    )


@subcommand(
    "quota",
    ledger_argument,
    dataset_option,
    click.option(
        "--person", metavar="NAME", help="Person whose charges count: a login of the database, or an account name for a file."
    ),
    click.option("--team", metavar="NAME", help="Name of the team whose members' charges are added up."),
    click.option("--member", "members", multiple=True, metavar="NAME", help="A member of the team; repeatable."),
    click.option("--share", required=True, metavar="SHARE", help="Share of the cap, 0 to 1; 1 removes the quota."),
    click.option(
        "--alert-at", default="0.8", show_default=True, metavar="SHARE", help="Share of the quota from which on a warning is shown."
    ),
    reason_option("Reason for the quota.", required=True),
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
    """Limit the charges of a person, or of all members of a team together, to a share of LEDGER's cap.

    The quota is an entry in the chain. A later quota for the same name replaces it. Charges from before the quota count, and voided charges
    do not. If the dataset is cut into blocks, the quota is a share of each block's cap. A charge that exceeds a quota is denied (exit code
    1). If a charge reaches --alert-at, it is granted, and standard error shows a warning. A database enforces quotas by logins, and only
    the role dpcli_admin may set them. In a file, quotas are only a reminder, as anybody who can write the file can use another name.

    In a ledger that was opened with --two-person the command proposes the quota; another person approves it with `dpcli budget approve`.
    """
    from dpcli.ledger.opening import quota_from_flags

    terms = quota_from_flags(person, team, members, share, alert_at)
    return answer(ledger, dataset, lambda book: book.quota(**terms._asdict(), why=why, expires=expires), **output)


@subcommand(
    "rate",
    ledger_argument,
    dataset_option,
    click.option(
        "--per-day",
        type=click.IntRange(min=1),
        required=True,
        metavar="COUNT",
        help="Largest number of such entries of one login in a day (UTC); 10,000 where no rate was set.",
    ),
    reason_option("Reason for the rate.", required=True),
    proposing_option,
    answer_options,
)
def rate(ledger: str, dataset: str | None, per_day: int, why: str, expires: str | None, **output: Any) -> int:
    """Limit how many entries without a cost each login may append to LEDGER in a day, so that nobody fills the log for the others.

    These entries count: charges below 1e-6 in every amount, cancelled reservations, counts of answers, proposals and withdrawals. What
    costs more is never limited, nor are the start and the commit of a reserved run. A request that was denied leaves no entry and does not
    count. A request beyond the rate is refused (exit code 4).

    Only a database has a rate, and only the role dpcli_admin may set it. A file cannot tell logins apart.

    In a ledger that was opened with --two-person the command proposes the rate; another person approves it with `dpcli budget approve`.
    """
    return answer(ledger, dataset, lambda book: book.rate(per_day, why, expires), **output)


@proposal_subcommand("approve", "Reason for the approval.", raising_options)
def approve(ledger: str, entry: int, dataset: str | None, why: str, acknowledge: bool, unseen: bool, **output: Any) -> int:
    """Approve the proposal in entry ENTRY of LEDGER, which makes it effective. Only for a ledger that was opened with --two-person.

    The proposer cannot approve the proposal, nor can a person whose name looks like the proposer's. In a database the login counts, and it
    needs the role dpcli_admin. A file cannot distinguish people: the name of the account is recorded, and proves nothing.

    If a proposal raises the cap above the guaranteed epsilon, the approver needs one of two flags. --no-output-seen states that nobody who
    decides on the cap has seen an output. --acknowledge accepts that no epsilon is guaranteed from then on (`dpcli budget amend --help`).

    A proposal can be approved once, and only until it expires. It is closed when it is refused or when its subject changes: the cap was
    amended, the run was started, or somebody made a new proposal. `dpcli budget show` lists the open proposals.
    """
    return answer(ledger, dataset, lambda book: book.approve(entry, why, unseen=unseen, acknowledged=acknowledge), **output)


@proposal_subcommand("refuse", "Reason for the refusal or withdrawal.")
def refuse(ledger: str, entry: int, dataset: str | None, why: str, **output: Any) -> int:
    """Close the proposal in entry ENTRY of LEDGER, so that nobody can approve it any more.

    The proposer withdraws the proposal with this command. In a database, any other person needs the role dpcli_admin.
    """
    return answer(ledger, dataset, lambda book: book.refuse(entry, why), **output)


@subcommand(
    "acknowledge",
    ledger_argument,
    click.argument("finding"),
    dataset_option,
    reason_option("Reason why the finding is accepted.", required=True),
    proposing_option,
    answer_options,
)
def acknowledge(ledger: str, finding: str, dataset: str | None, why: str, expires: str | None, **output: Any) -> int:
    """Answer FINDING, a line of `dpcli budget verify` about LEDGER, so that `verify` ends with exit code 0 again.

    FINDING is compared word for word with what `verify` finds now, which takes as long as `verify`. The entry in the chain states who
    answered it and why. It changes no charge: what was spent beyond the entries stays spent, and the guarantee is not what the cap says.
    `verify` still prints the finding, and says how many are answered. If another version of dpcli words the finding differently, or
    finds another number, it counts again. In a database this needs the role dpcli_admin.

    In a ledger that was opened with --two-person the command proposes the answer; another person approves it with `dpcli budget approve`.
    """
    from dpcli.cli.printing import progress
    from dpcli.ledger.verify import acknowledge

    with progress() as report:
        return answer(ledger, dataset, lambda book: acknowledge(book, finding, why, report, expires), **output)


@subcommand(
    "correct",
    ledger_argument,
    click.argument("key"),
    click.argument("file"),
    dataset_option,
    delta_option,
    reason_option("Reason why the price was wrong.", required=True),
    answer_options,
)
def correct(ledger: str, key: str, file: str, dataset: str | None, delta: float | None, why: str, **output: Any) -> int:
    """Charge what is missing from the price of the run KEY, which in truth was the pipeline FILE, or was charged less than FILE costs.

    The entry is a charge under the key "correction of entry N", which can be corrected itself. It costs the difference, on the same blocks,
    and counts towards the quota of whoever makes it. `verify` then checks the price of FILE against both charges. It permits no further
    noise: a run that draws noise again is charged by `spend` under a key of its own. A price is never lowered, because nobody can check
    afterwards that the run was the cheaper one. If the difference does not fit, nothing is written, and the exit code is 1: amend the cap
    first.

    The run must have been started. In a database this needs the role dpcli_admin.
    """
    from dpcli.cli.options import emit
    from dpcli.file.pipeline.read import load
    from dpcli.ledger.documents.ledger_answers import receipt

    pipeline = load(file)
    with opened_ledger(ledger, dataset) as book:
        document = receipt(book, lambda: book.correct(book.key_of_run(key), pipeline, why, delta))
        return emit(with_delta_findings(document, book, pipeline, file, delta), **output)


@subcommand(
    "retire",
    ledger_argument,
    click.argument("blocks", nargs=-1, required=True),
    dataset_option,
    reason_option("Reason, for example: the data were deleted.", required=True),
    answer_options,
)
def retire(ledger: str, blocks: tuple[str, ...], dataset: str | None, why: str, **output: Any) -> int:
    """Close BLOCKS of LEDGER (2026-01-01, or 2026-01-01..2026-01-28) for further runs. Earlier charges remain."""
    return answer(ledger, dataset, lambda book: book.retire(blocks, why), **output)

"""The commands `dpcli budget spend`, reserve, start, commit and void: charge a run and record its progress."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from dpcli.cli.options import emit
from dpcli.ledger.commands.budget import (
    answer,
    answer_options,
    dataset_option,
    delta_option,
    ledger_argument,
    opened,
    proposing_option,
    reason_option,
    subcommand,
    window_option,
    with_delta_judged,
)


def charging(name: str, *extra: Callable[..., Any]) -> Callable[..., Any]:
    """Return the decorator of a subcommand that charges a file: LEDGER FILE --key ..."""
    return subcommand(
        name,
        ledger_argument,
        click.argument("file"),
        click.option("--key", required=True, metavar="NAME", help="The run's name: a retry under it is not charged again."),
        dataset_option,
        delta_option,
        reason_option("Why, for those who read the log."),
        window_option,
        click.option("--anchor", metavar="PATH", help="Read all entries, and refuse where they no longer lead to this anchor."),
        *extra,
        answer_options,
    )


def moving(name: str, *extra: Callable[..., Any]) -> Callable[..., Any]:
    """Return the decorator of a subcommand about a reserved run: LEDGER KEY ..."""
    return subcommand(name, ledger_argument, click.argument("key"), dataset_option, *extra, answer_options)


@charging("spend", click.option("--once", is_flag=True, help="Refuse (exit code 4) a key that was charged before."))
def spend(
    ledger: str, file: str, key: str, dataset: str | None, delta: float | None, why: str, window: tuple[str, ...], **options: Any
) -> int:
    """Charge one run of the pipeline FILE to LEDGER, before its noise is drawn.

    When the command returns 0 the charge is on disk. Where it does not fit nothing is written, and the exit code is 1.

    A key that was charged before is not charged again: the exit code is 0, as after a connection that broke, and standard error says that
    this is no new run. A script that draws noise next asks with --once. The file's [budget] is not looked at: `dpcli gate` judges it.
    """
    from dpcli.file.pipeline.read import load
    from dpcli.ledger.documents.ledger_answers import receipt
    from dpcli.ledger.ledger import Receipt, require_first_charge

    anchor, once, pipeline = options.pop("anchor"), options.pop("once"), load(file)
    with opened(ledger, dataset, anchor) as book:

        def ask() -> Receipt:
            charged = book.spend(pipeline, key, delta, why, window)
            return require_first_charge(charged, key) if once else charged

        return emit(with_delta_judged(receipt(book, ask), book, pipeline, file, delta), **options)


@charging(
    "reserve",
    click.option("--expires", metavar="TIME", help="ISO time (UTC) or days (14d) after which it can no longer be voided."),
)
def reserve(
    ledger: str, file: str, key: str, dataset: str | None, delta: float | None, why: str, window: tuple[str, ...], **options: Any
) -> int:
    """Charge one run of the pipeline FILE to LEDGER in full, before it starts.

    Then `start` it before the first noise, and `commit` it at its end. It can be voided only before it was started. A reservation that
    nobody comes back to stays charged: past --expires it cannot even be voided. Reserved again under its key before it was started, it is
    the same reservation with its first --expires, and standard error says so.
    """
    from dpcli.file.pipeline.read import load
    from dpcli.ledger.chain import expiry_time
    from dpcli.ledger.documents.ledger_answers import receipt

    anchor, expires, pipeline = options.pop("anchor"), options.pop("expires"), load(file)
    with opened(ledger, dataset, anchor) as book:
        until = expiry_time(expires, book.now())
        document = receipt(book, lambda: book.reserve(pipeline, key, delta, why, until, window))
        return emit(with_delta_judged(document, book, pipeline, file, delta), **options)


@moving("start", reason_option("Why: needed where somebody else made the reservation."))
def start(ledger: str, key: str, dataset: str | None, why: str, **output: Any) -> int:
    """Note that the reserved run KEY is about to draw noise: from then on it cannot be voided.

    Whoever made the reservation may; anybody else has to be an administrator and say why. In a database the login counts. A file cannot
    tell people apart: whoever may write it is its administrator, and the account that the process has is noted."""
    return answer(ledger, dataset, lambda book: book.start(key, why), **output)


@moving("commit", reason_option("Why: needed where somebody else made the reservation, or nobody started it."))
def commit(ledger: str, key: str, dataset: str | None, why: str, **output: Any) -> int:
    """Note that the reserved run KEY has ended. It was charged when it was reserved, and stays so.

    A run that was never started needs a --reason: a start comes before the first noise and is granted once, so that of two who hold one
    reservation only one draws noise.

    Whoever made the reservation may; anybody else has to be an administrator and say why. In a database the login counts. A file cannot
    tell people apart: whoever may write it is its administrator, and the account that the process has is noted."""
    return answer(ledger, dataset, lambda book: book.commit(key, why), **output)


@moving("void", reason_option("Why no noise was drawn.", required=True), proposing_option)
def void(ledger: str, key: str, dataset: str | None, why: str, expires: str | None, **output: Any) -> int:
    """Give back the reservation KEY, of which no noise was drawn: the log keeps who said so, and why.

    Refused where the run was started, committed, or its reservation has expired: then it stays charged. Whoever made the reservation may
    void it, and an administrator. A database goes by its own clock, a file by this machine's.

    In a ledger that was opened with --two-person this proposes it, and the run stays charged until another person approves:
    `dpcli budget approve`.
    """
    return answer(ledger, dataset, lambda book: book.void(key, why, expires), **output)

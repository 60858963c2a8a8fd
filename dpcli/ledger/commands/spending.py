"""The commands `dpcli budget spend`, reserve, start, commit and void, which charge a run and record its progress.

They are for programs that do not use dpcli's Python interface: a script calls `spend` before it draws noise, or `reserve`, `start` and
`commit` around a long run. The *key* of a run is its name. An *anchor* is an earlier entry that someone keeps elsewhere, and a *receipt*
the answer of the ledger to a granted request. The docstring of a command is its help. `ledger` is the text of the argument LEDGER, and
`book` the open `Ledger`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from dpcli.cli.options import emit
from dpcli.ledger.commands.budget import (
    answer,
    answer_options,
    dataset_option,
    delta_option,
    ledger_argument,
    opened_ledger,
    proposing_option,
    reason_option,
    subcommand,
    window_option,
    with_delta_findings,
)

if TYPE_CHECKING:
    from dpcli.file.pipeline.model import Pipeline


def charging_subcommand(name: str, *extra: Callable[..., Any]) -> Callable[..., Any]:
    """Return the decorator of a subcommand that charges a file: LEDGER FILE --key ..."""
    return subcommand(
        name,
        ledger_argument,
        click.argument("file"),
        click.option("--key", required=True, metavar="NAME", help="Name of the run; a retry under this name is not charged again."),
        dataset_option,
        delta_option,
        reason_option("Reason, for the log."),
        window_option,
        click.option("--anchor", metavar="PATH", help="Refuse if the entries do not contain this anchor."),
        click.option("--certificate", metavar="PATH", help="Name the certificate of FILE at PATH (dpcli certify) in the entry."),
        *extra,
        answer_options,
    )


def run_subcommand(name: str, *extra: Callable[..., Any]) -> Callable[..., Any]:
    """Return the decorator of a subcommand about a reserved run: LEDGER KEY ..."""
    return subcommand(name, ledger_argument, click.argument("key"), dataset_option, *extra, answer_options)


def certificate_digest(path: str | None, pipeline: Pipeline, delta: float | None) -> str:
    """Check the certificate at a path, and return its SHA-256 for the entry of the charge; "" without a path.

    A certificate is a proof of an epsilon that a small program can check (dpcli certify). Raises CannotCertify if it does not prove the
    epsilon that `dpcli account` prints for the pipeline at `delta`, by default the file's.
    """
    if path is None:
        return ""
    from dpcli.analysis.account import account
    from dpcli.certify.named_certificate import named_proof

    stated = pipeline.privacy.delta if delta is None else delta
    result = account(pipeline, delta=0.0 if stated is None else stated)  # the delta at which the ledger describes the run
    return named_proof(path, pipeline, result.upper, result.at).digest


@charging_subcommand("spend", click.option("--once", is_flag=True, help="Refuse a key that was charged before (exit code 4)."))
def spend(
    ledger: str, file: str, key: str, dataset: str | None, delta: float | None, why: str, window: tuple[str, ...], **options: Any
) -> int:
    """Charge one run of the pipeline FILE to LEDGER, before its noise is drawn.

    When the command returns 0, the charge is durable. If the run does not fit, nothing is written, and the exit code is 1.

    A key that was charged before is not charged again. The exit code is 0, so that a request can be repeated after a lost connection, and
    standard error states that nothing is charged now. A script that draws noise afterwards should use --once. This command ignores the
    [budget] of the file, which `dpcli gate` judges.

    With --certificate, the certificate is checked: it must prove the epsilon of this file at --delta. The entry names it by its
    SHA-256. It changes no cost.
    """
    from dpcli.file.pipeline.read import load
    from dpcli.ledger.documents.ledger_answers import receipt
    from dpcli.ledger.entry_log import Receipt
    from dpcli.ledger.ledger import require_first_charge

    anchor, once, pipeline = options.pop("anchor"), options.pop("once"), load(file)
    certificate = certificate_digest(options.pop("certificate"), pipeline, delta)
    with opened_ledger(ledger, dataset, anchor) as book:

        def ask() -> Receipt:
            charged = book.spend(pipeline, book.own_key(key), delta, why, window, certificate)
            return require_first_charge(charged, key) if once else charged

        return emit(with_delta_findings(receipt(book, ask), book, pipeline, file, delta), **options)


@charging_subcommand(
    "reserve",
    click.option("--expires", metavar="TIME", help="ISO time (UTC) or days (14d) after which the run cannot be voided."),
)
def reserve(
    ledger: str, file: str, key: str, dataset: str | None, delta: float | None, why: str, window: tuple[str, ...], **options: Any
) -> int:
    """Charge one run of the pipeline FILE to LEDGER in full, before it starts.

    Then call `start` before the first noise is drawn, and `commit` at the end of the run. A reservation can be voided only before it is
    started, and only until --expires. An abandoned reservation stays charged. If the command is repeated with this key before the start,
    the reservation and its first --expires remain, and standard error states this. --certificate is as in `spend`.
    """
    from dpcli.file.pipeline.read import load
    from dpcli.ledger.chain import expiry_time
    from dpcli.ledger.documents.ledger_answers import receipt

    anchor, expires, pipeline = options.pop("anchor"), options.pop("expires"), load(file)
    certificate = certificate_digest(options.pop("certificate"), pipeline, delta)
    with opened_ledger(ledger, dataset, anchor) as book:
        until = expiry_time(expires, book.now())
        document = receipt(book, lambda: book.reserve(pipeline, book.own_key(key), delta, why, until, window, certificate))
        return emit(with_delta_findings(document, book, pipeline, file, delta), **options)


@run_subcommand("start", reason_option("Reason; required if another person made the reservation."))
def start(ledger: str, key: str, dataset: str | None, why: str, **output: Any) -> int:
    """Record that the reserved run KEY is about to draw noise. From then on it cannot be voided.

    The person who made the reservation may do this. Any other person has to be an administrator and state a reason. In a database the login
    counts. A file cannot distinguish people: everybody who can write it counts as an administrator, and the name of the account is
    recorded.
    """
    return answer(ledger, dataset, lambda book: book.start(book.key_of_run(key), why), **output)


@run_subcommand(
    "commit", reason_option("Reason; required if another person made the reservation, or if the run was never started.")
)
def commit(ledger: str, key: str, dataset: str | None, why: str, **output: Any) -> int:
    """Record that the reserved run KEY has ended. It stays charged.

    A run that was never started needs a --reason. Every run should be started before its first noise is drawn. As a start is granted only
    once, two people who share a reservation cannot both draw noise.

    The person who made the reservation may do this. Any other person has to be an administrator and state a reason. In a database the login
    counts. A file cannot distinguish people: everybody who can write it counts as an administrator, and the name of the account is
    recorded.
    """
    return answer(ledger, dataset, lambda book: book.commit(book.key_of_run(key), why), **output)


@run_subcommand("void", reason_option("Reason why no noise was drawn.", required=True), proposing_option)
def void(ledger: str, key: str, dataset: str | None, why: str, expires: str | None, **output: Any) -> int:
    """Cancel the reservation KEY, for which no noise was drawn. The log records who stated this, and why.

    If the run was started or committed, or if the reservation has expired, it cannot be voided and stays charged. The person who made the
    reservation may void it, and so may an administrator. A database uses its own clock, a file the clock of this machine.

    In a ledger that was opened with --two-person the command only makes a proposal. The run stays charged until another person approves it
    with `dpcli budget approve`.
    """
    return answer(ledger, dataset, lambda book: book.void(book.key_of_run(key), why, expires), **output)

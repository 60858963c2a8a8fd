"""The options, the dry run and the session that `dpcli generate` and `dpcli prompt` share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click

from dpcli.cli.options import composed, emit, output_options
from dpcli.sessions.commands.predicting import charged_ledger


def session_options(resume: str) -> Callable[..., Any]:
    """Return the options of a session.

    Args:
        resume: Help of --resume.
    """
    return composed(
        click.argument("file"),
        click.option("--dry-run", is_flag=True, help="Print what it would do and cost, and whether --ledger has room for it."),
        click.option("--resume", is_flag=True, help=resume),
        click.option("--moved", is_flag=True, help="The folder was moved here from another place, which is gone."),
        charged_ledger("Charge this ledger before the first noise."),
        output_options("text", "total"),
    )


def run_session(
    plan: Any,
    planned: Callable[[Any], Any],
    work: Callable[..., Any],
    outcome: Callable[[Any], Any],
    dry_run: bool,
    resume: bool,
    ledger: str | None,
    dataset: str | None,
    window: Sequence[str],
    format_: str,
    outputs: tuple[str, ...],
) -> int:
    """Print a plan, or hold its session and print its outcome.

    Args:
        work: (plan, ledger, resume, report) -> what `outcome` documents.
    """
    from dpcli.cli.picture import progress
    from dpcli.sessions.commands.predicting import charged_to, on_window, windowed

    if dry_run:
        from dpcli.ledger.documents.ledger_answers import quoted

        plan = windowed(plan, ledger, dataset, window)
        return emit(quoted(planned(plan), None if resume else ledger, dataset, plan.pipeline), format_, outputs)
    with charged_to(ledger, dataset) as books, progress("text") as report:
        done = work(on_window(plan, books, window), books, resume, report)
    return emit(outcome(done), format_, outputs)

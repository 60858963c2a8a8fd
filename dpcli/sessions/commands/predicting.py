"""The ledger and the progress line of a private-prediction session on a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import click

from dpcli.cli.options import composed
from dpcli.cli.printing import complain
from dpcli.ledger.commands.budget import opened, window_option

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from dpcli.ledger.ledger import Ledger
    from dpcli.sessions.window import Plan


UNCHARGED = "charged to no ledger: other runs on the same data add up (--ledger)"
EVERY = 0.5  # seconds between two lines


def charged_to(ledger: str | None, dataset: str | None) -> AbstractContextManager[Ledger | None]:
    """Yield the open ledger; None, with a line on standard error, if none is named."""
    if ledger is None and not click.get_current_context().obj.quiet:
        complain(UNCHARGED)
    return opened_or_none(ledger, dataset)


def opened_or_none(ledger: str | None, dataset: str | None) -> AbstractContextManager[Ledger | None]:
    """Yield the open ledger; None if none is named."""
    return nullcontext() if ledger is None else opened(ledger, dataset)


def windowed(plan: Plan, ledger: str | None, dataset: str | None, window: Sequence[str]) -> Plan:
    """Return the plan restricted to the blocks of a dry run."""
    from dpcli.sessions.window import over_window

    with opened_or_none(ledger, dataset) as book:
        return over_window(plan, book, window)


def on_window(plan: Plan, ledger: Ledger | None, window: Sequence[str]) -> Plan:
    """Return the plan restricted to the blocks that it is charged on, and print on standard error which rows are read."""
    from dpcli.file.pipeline.datasets import UNCHECKED
    from dpcli.sessions.window import over_window

    plan = over_window(plan, ledger, window)
    blocks = plan.pipeline.privacy.window
    if blocks is not None and not click.get_current_context().obj.quiet:
        if any(text.startswith("last ") for text in window):
            complain(f"--window: {', '.join(blocks)}")
        complain(UNCHECKED if plan.rows is None else plan.rows.words)
    return plan


def noted(ledger: Ledger | None, run: str) -> None:
    """Print a warning after a run: that no ledger records it, or that it used most of a ledger's delta."""
    if click.get_current_context().obj.quiet:
        return
    if ledger is None:
        complain(UNCHARGED)
        return
    from dpcli.ledger.documents.ledger_balance import delta_warning

    state = ledger.state()
    warning = delta_warning(state, state.run(run))
    if warning:
        complain(warning)


@contextmanager
def progress(what: str) -> Iterator[Callable[[int, int], None]]:
    """Yield a function that reports progress. After one second it prints a line on standard error, if that is a terminal."""
    begun = last = time.monotonic()
    quiet = not sys.stderr.isatty() or click.get_current_context().obj.quiet
    shown = False

    def report(done: int, all_: int) -> None:
        nonlocal last, shown
        now = time.monotonic()
        if quiet or now - begun < 1.0 or now - last < EVERY:
            return
        last, shown = now, True
        click.echo(f"\r[{'#' * round(30 * done / all_):.<30}] {what} {done:,} of {all_:,}  ", nl=False, err=True)

    try:
        yield report
    finally:
        if shown:
            click.echo(err=True)


def charged_ledger(what: str) -> Callable[..., Any]:
    """Return the options --ledger, with its help `what`, --dataset and --window."""
    return composed(
        click.option("--ledger", metavar="LEDGER", help=what),
        click.option("--dataset", metavar="NAME", help="The dataset of --ledger, where that holds several."),
        window_option,
    )

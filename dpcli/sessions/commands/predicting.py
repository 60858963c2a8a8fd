"""A session of private prediction on a terminal: the ledger that it is charged to, and a line that says how far it is."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

import click

from dpcli.cli.printing import complain
from dpcli.ledger.commands.options import opened

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from dpcli.ledger.ledger import Ledger
    from dpcli.sessions.window import Plan

UNCHARGED = "charged to no ledger: other runs on the same data add up (--ledger)"
EVERY = 0.5  # seconds between two lines


def charged_to(ledger: str | None, dataset: str | None) -> AbstractContextManager[Ledger | None]:
    """The ledger, closed at the end; None where none is named, and a line on standard error that says so."""
    if ledger is None and not click.get_current_context().obj.quiet:
        complain(UNCHARGED)
    return opened_or_none(ledger, dataset)


def opened_or_none(ledger: str | None, dataset: str | None) -> AbstractContextManager[Ledger | None]:
    """The ledger, closed at the end; None where none is named."""
    return nullcontext() if ledger is None else opened(ledger, dataset)


def windowed(plan: Plan, ledger: str | None, dataset: str | None, window: Sequence[str]) -> Plan:
    """The plan on the blocks that a dry run is asked about."""
    from dpcli.sessions.window import over_window

    with opened_or_none(ledger, dataset) as found:
        return over_window(plan, found, window)


def on_window(plan: Plan, ledger: Ledger | None, window: Sequence[str]) -> Plan:
    """The plan on the blocks that it is charged on, and a line on standard error that says which rows are read."""
    from dpcli.file.pipeline.datasets import UNCHECKED
    from dpcli.sessions.window import over_window

    found = over_window(plan, ledger, window)
    read = found.pipeline.privacy.window
    if read is not None and any(text.startswith("last ") for text in window) and not click.get_current_context().obj.quiet:
        complain(f"--window: {', '.join(read)}")
    if found.pipeline.privacy.window is not None and not click.get_current_context().obj.quiet:
        complain(UNCHECKED if found.rows is None else found.rows.words)
    return found


def noted(ledger: Ledger | None, run: str) -> None:
    """What is to be known of a run whose noise was drawn: that no ledger knows of it, or that it took most of a ledger's delta."""
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
    """What is told how much is done, and says so on standard error where that is a terminal, once it takes over a second."""
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

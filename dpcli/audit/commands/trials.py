"""The progress of an audit's trials on a terminal, and a note after an interruption."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator

import click

from dpcli.cli.options import Settings

PATIENCE = 1.0  # seconds without a word
EVERY = 0.2  # seconds between two words


@contextlib.contextmanager
def progress(things: str = "runs") -> Iterator[Callable[[int, int], None]]:
    """A function to report trials, or other things, to: one line on standard error after a second, where that is a terminal."""
    start, settings = time.monotonic(), click.get_current_context().obj
    assert isinstance(settings, Settings)
    last, first = start + PATIENCE - EVERY, -1

    def report(done: int, total: int) -> None:
        nonlocal last, first
        now = time.monotonic()
        first = done if first < 0 else first
        if now - last > EVERY and sys.stderr.isatty() and not settings.quiet:
            left = (now - start) * (total - done) / max(done - first, 1)
            click.echo(f"\rdpcli: {done:,} of {total:,} {things}, about {left:,.0f} s left ", nl=False, err=True)
            last = now

    try:
        yield report
    finally:
        if last > start + PATIENCE:
            click.echo("\r" + " " * 60 + "\r", nl=False, err=True)


@contextlib.contextmanager
def hint_after_interrupt(path: str | None) -> Iterator[None]:
    """Say after Ctrl-C where the trials so far are kept."""
    try:
        yield
    except KeyboardInterrupt:
        words = (
            f"the trials so far are in {path}; the same command goes on from there"
            if path
            else "--scores PATH would have kept them"
        )
        click.echo(f"dpcli: {words}", err=True)
        raise

"""Printing of results to standard output and of messages to standard error, and the global options that control it.

Results are what a command was asked for; messages are errors, notices and progress. If the program that reads a stream has ended, as `head`
does, the output is discarded and the exit code does not change. Messages may quote an untrusted file, so control characters and passwords
are removed (`message_of`).
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import click

from dpcli.base.values import dataclass

PROGRESS_AFTER, PROGRESS_EVERY = 1.0, 0.2  # seconds before the first report of progress, and between two reports; arbitrary
LINE_WIDTH = 60  # characters of the line of progress that are erased at the end
ASCII_SIGNS = str.maketrans({"─": "-", "│": "|", "█": "#"})  # replacements for encodings without these characters


@dataclass(frozen=True, slots=True)
class Settings:
    """The values of the global options.

    Attributes:
        quiet: Whether -q is given.
        verbose: Number of -v before and after the command.
        color: Value of --color: "auto", "always" or "never".
    """

    quiet: bool = False
    verbose: int = 0
    color: str = "auto"


class Invocation(NamedTuple):
    """The names by which an error or a verdict appears in a report: the command, such as "dpcli account", and its first file or its ledger.

    `path` is "" if the command has neither.
    """

    words: str
    path: str


def open_closed_streams() -> None:
    """Replace a standard output or standard error that was closed before the process began by one that discards what is printed."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 (open until the process ends)


def show(text: str | bytes) -> None:
    """Print a result, in characters that standard output can encode."""
    show_each((text,))


def show_each(pieces: Iterable[str | bytes]) -> None:
    """Print the pieces of a result. Bytes are written as they are. If the reader leaves, the remaining pieces are not computed."""
    try:
        for text in pieces:
            # color=True: Click would remove the color codes of --color always if the output is not a terminal
            click.echo(_encodable(text) if isinstance(text, str) else text, nl=False, color=True)
        sys.stdout.flush()
    except BrokenPipeError:
        discard()


def on_one_terminal() -> bool:
    """Return whether results and messages are shown on a terminal, where a message that the result contains would be read twice."""
    return sys.stdout.isatty() and sys.stderr.isatty()


def complain(why: str) -> None:
    """Print a message to standard error, after standard output is flushed."""
    show("")
    with standard_error():
        click.echo(f"dpcli: {why}", err=True)


def message_of(error: Exception) -> str:
    """Return the message of an error without control characters and passwords. It may quote an untrusted file."""
    from dpcli.document.document import visible
    from dpcli.file.toml.shown import without_passwords

    return "\n".join(map(visible, without_passwords(str(error)).split("\n")))


@contextmanager
def standard_error() -> Iterator[None]:
    """Discard the messages that are printed inside if the reader of standard error has left."""
    try:
        yield
    except BrokenPipeError:
        discard(2)


def discard(stream: int = 1) -> None:
    """Discard buffered and all later output to standard output (1) or standard error (2)."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream)


def _encodable(text: str) -> str:
    """Return the text with replacements for characters that standard output cannot encode.

    For an ASCII stream the text stays unchanged, because Click then prints UTF-8.
    """
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    if encoding.lower() in ("ascii", "us-ascii", "ansi_x3.4-1968"):  # names of ASCII
        return text
    try:
        text.encode(encoding, "surrogateescape")
        return text
    except UnicodeEncodeError:
        return text.translate(ASCII_SIGNS).encode(encoding, "backslashreplace").decode(encoding)


@contextmanager
def progress(noun: str = "points") -> Iterator[Callable[[int, int], None]]:
    """Yield a function to which the work inside reports its progress, as (number done, total number).

    From PROGRESS_AFTER on, the function keeps one line on standard error up to date, unless -q is given or standard error is no terminal.
    The line is erased at the end. Its estimate of the remaining time assumes a constant speed since the start.

    Args:
        noun: The counted things, in the plural.
    """
    start = last = time.monotonic()
    silent = not sys.stderr.isatty() or click.get_current_context().obj.quiet
    first: int | None = None  # number done at the first report, such as the part that an earlier run has done
    shown = False

    def report(done: int, total: int) -> None:
        nonlocal first, last, shown
        now = time.monotonic()
        first = done if first is None else first
        if silent or now - start < PROGRESS_AFTER or now - last < PROGRESS_EVERY:
            return
        remaining = (now - start) * (total - done) / max(done - first, 1)
        click.echo(f"\rdpcli: {done:,} of {total:,} {noun}, about {remaining:,.0f} s left ", nl=False, err=True)
        last, shown = now, True

    try:
        yield report
    finally:
        if shown:
            click.echo("\r" + " " * LINE_WIDTH + "\r", nl=False, err=True)

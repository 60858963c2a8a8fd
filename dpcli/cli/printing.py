"""Results on standard output, whatever became of that: the exit code is the verdict's and not the reader's."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import click

PLAIN = str.maketrans({"─": "-", "│": "|", "█": "#"})  # where the output's encoding has no such characters


def prepare() -> None:
    """Let nothing depend on a stream that was closed before we began."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 (for as long as the process lives)


def show(text: str | bytes) -> None:
    """Print a result, in characters that standard output can take; nothing where whoever read it has left."""
    show_each((text,))


def show_each(pieces: Iterable[str | bytes]) -> None:
    """Print pieces of a result; none is asked for once nobody reads them."""
    try:
        for text in pieces:
            click.echo(_encodable(text) if isinstance(text, str) else text, nl=False, color=True)
        sys.stdout.flush()
    except BrokenPipeError:
        leave()


def complain(why: str) -> None:
    """Print one line to standard error, after everything on standard output."""
    show("")
    with heard():
        click.echo(f"dpcli: {why}", err=True)


def message_of(error: Exception) -> str:
    """A message, which may quote a ledger or a file of somebody else, without what a terminal acts on, and without passwords."""
    from dpcli.document.document import visible
    from dpcli.file.toml.shown import without_passwords

    return "\n".join(map(visible, without_passwords(str(error)).split("\n")))


@contextmanager
def heard() -> Iterator[None]:
    """Standard error; what is said there goes nowhere where nobody reads it, and the exit code stays what it is."""
    try:
        yield
    except BrokenPipeError:
        leave(2)


def leave(stream: int = 1) -> None:
    """Nobody reads standard output (1) or error (2) any more: what is left in it, or comes later, goes nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream)


def _encodable(text: str) -> str:
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    if encoding.lower() in ("ascii", "us-ascii", "ansi_x3.4-1968"):  # which click prints UTF-8 to
        return text
    try:
        text.encode(encoding, "surrogateescape")
        return text
    except UnicodeEncodeError:
        return text.translate(PLAIN).encode(encoding, "backslashreplace").decode(encoding)

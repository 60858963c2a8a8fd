"""Files that a command makes: written where nothing is yet, or printed."""

from __future__ import annotations

import os

import click

from dpcli.cli.printing import heard, show
from dpcli.errors import InputError

new_file_option = click.option(
    "-o", "--output", metavar="PATH", help="Write to PATH, which must not exist; standard output where absent."
)


def leave(path: str | None, text: str, data: bytes | None = None, then: str = "") -> None:
    """Print a text where there is no path; else write it, or other `data`, to a file that does not exist yet. then: what to do with it.

    Raises InputError where there is a file, or it cannot be written.
    """
    if path is None:
        show(text)
        return
    try:
        with open(path, "xb") as file:
            file.write(text.encode() if data is None else data)
    except FileExistsError:
        what = "a directory" if os.path.isdir(path) else "a file"
        raise InputError(f"{path}: expected a path that does not exist yet, found {what}") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}") from None
    with heard():
        click.echo(f"wrote {path}{then}", err=True)


def leave_pipeline(path: str | None, text: str) -> None:
    """`leave`, of a pipeline file."""
    leave(path, text, then=f"; next: dpcli account {path}")

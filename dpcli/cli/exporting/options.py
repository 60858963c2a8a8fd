"""Where an export goes."""

from __future__ import annotations

import click

from dpcli.cli.printing import heard
from dpcli.errors import InputError


def write_new_bytes(path: str, data: bytes) -> None:
    """Write a file that does not exist yet. Raises InputError where there is one, or it cannot be written."""
    try:
        with open(path, "xb") as file:
            file.write(data)
    except FileExistsError:
        from dpcli.templates import taken

        raise taken(path) from None
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}") from None
    with heard():
        click.echo(f"wrote {path}", err=True)

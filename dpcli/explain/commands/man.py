"""dpcli man."""

from __future__ import annotations

import click

from dpcli.base.errors import InputError


@click.command(short_help="Write the manual pages.")
@click.argument("directory")
def command(directory: str) -> None:
    """Write the manual pages into DIRECTORY: dpcli.1, one page for each command, dpcli-pipeline.5, dpcli-policy.5 and dpcli-schedule.5,
    and the pages of section 7 (dpcli-tutorial.7 and others)."""
    import os

    from dpcli.cli.options import write
    from dpcli.explain.commands.manual import pages

    if not directory:
        raise InputError("DIRECTORY: expected a folder, found an empty name; . is the current folder")
    found = pages()
    try:
        os.makedirs(directory, exist_ok=True)
    except OSError as error:
        raise InputError(f"{directory}: cannot be made: {error.strerror}") from None
    for name, text in found.items():
        write(f"{directory}/{name}", text)
    click.echo(f"wrote {len(found)} pages to {directory}", err=True)

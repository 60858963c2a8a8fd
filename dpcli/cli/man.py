"""dpcli man."""

from __future__ import annotations

import click


@click.command(short_help="Write the manual pages.")
@click.argument("directory")
def command(directory: str) -> None:
    """Write the manual pages into DIRECTORY, which must exist: dpcli.1, one page for each command, dpcli-pipeline.5 and dpcli-policy.5, and
    the pages of section 7 (dpcli-tutorial.7 and others)."""
    from dpcli.cli.manual import pages
    from dpcli.cli.options import write

    found = pages()
    for name, text in found.items():
        write(f"{directory}/{name}", text)
    click.echo(f"wrote {len(found)} pages to {directory}", err=True)

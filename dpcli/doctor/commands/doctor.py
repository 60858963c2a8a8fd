"""dpcli doctor."""

from __future__ import annotations

import click

from dpcli.cli.options import emit, output_options


@click.command(short_help="Whether this machine has what dpcli needs.")
@click.option("--ledger", metavar="PATH", help="Look at the place of this ledger instead of the current directory.")
@output_options("text")
def command(ledger: str | None, format_: str, outputs: tuple[str, ...]) -> int:
    """Versions, extras, SQLite, the file system under a ledger, random numbers, clock and git: what is there, and what to do.

    Exit code 1 where something that dpcli needs is broken; warnings and absent extras leave it at 0.
    """
    from dpcli.doctor.documents.doctor import document
    from dpcli.doctor.examine import examine

    return emit(document(examine(ledger)), format_, outputs)

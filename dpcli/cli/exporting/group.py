"""dpcli export: a group, one file per library."""

from __future__ import annotations

import click

from dpcli.cli.lazy import LazyGroup

SUBCOMMANDS: dict[str, tuple[str, str]] = {
    "opacus": ("dpcli.cli.exporting.opacus:command", "The state of an Opacus accountant."),
    "dp-accounting": ("dpcli.cli.exporting.dp_accounting:command", "A DpEvent of dp-accounting, as JSON."),
}


@click.group(cls=LazyGroup, table=SUBCOMMANDS, short_help="Write a pipeline as another library keeps it.")
def command() -> None:
    """Write a pipeline as another library keeps it, for its accountants to check the number.

    What that library cannot say is refused by its name. The file holds [privacy] and the mechanisms as well, so that dpcli import
    gives back a pipeline of the same cost. Its name, its budget, comments and the tables of other commands are not kept.
    """

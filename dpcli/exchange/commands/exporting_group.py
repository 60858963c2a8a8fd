"""dpcli export: a group, one file per library."""

from __future__ import annotations

import click

from dpcli.cli.groups import LazyGroup

SUBCOMMANDS: dict[str, tuple[str, str]] = {
    "opacus": ("dpcli.exchange.commands.exporting_opacus:command", "The state of an Opacus accountant."),
    "dp-accounting": ("dpcli.exchange.commands.exporting_dp_accounting:command", "A DpEvent of dp-accounting, as JSON."),
    "tumult": ("dpcli.exchange.commands.exporting_tumult:command", "The budget of a Tumult Analytics Session, as JSON."),
    "hugging-face": ("dpcli.exchange.commands.exporting_hugging_face:command", "A trained model with its model card."),
}


@click.group(cls=LazyGroup, table=SUBCOMMANDS, short_help="Write a pipeline, or a trained model, as another library keeps it.")
def command() -> None:
    """Write a pipeline as another library keeps it, for its accountants to check the number, or a trained model with its model card.

    What that library cannot say is refused by its name. A pipeline's file holds [privacy] and the mechanisms as well, so that dpcli import
    gives back a pipeline of the same cost. Its name, its budget, comments and the tables of other commands are not kept.
    """

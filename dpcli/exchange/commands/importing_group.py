"""dpcli import: a group, one file per library."""

from __future__ import annotations

import click

from dpcli.cli.groups import LazyGroup

SUBCOMMANDS: dict[str, tuple[str, str]] = {
    "opacus": ("dpcli.exchange.commands.importing_opacus:command", "The history of an Opacus accountant, from a checkpoint."),
    "dp-accounting": ("dpcli.exchange.commands.importing_dp_accounting:command", "A DpEvent of dp-accounting, from JSON."),
    "tf-privacy": ("dpcli.exchange.commands.importing_tf_privacy:command", "Flags of tensorflow-privacy's compute_dp_sgd_privacy."),
    "jax-privacy": ("dpcli.exchange.commands.importing_jax_privacy:command", "A DPKerasConfig of jax-privacy, from JSON."),
    "opendp": ("dpcli.exchange.commands.importing_opendp:command", "The budget of an OpenDP Context, as OpenDP serialises it."),
    "tumult": ("dpcli.exchange.commands.importing_tumult:command", "The budget of a Tumult Analytics Session, from JSON."),
    "schedule": ("dpcli.exchange.commands.importing_schedule:command", "The noise of each step, from a csv."),
}


@click.group(cls=LazyGroup, table=SUBCOMMANDS, short_help="Make a pipeline file of what others keep.")
def command() -> None:
    """Make a pipeline file of what another library keeps of a private run.

    What the library does not say is not made up: it is asked for by a flag, or left as a comment where it belongs. What the format
    cannot express is refused, and named in the error.
    """

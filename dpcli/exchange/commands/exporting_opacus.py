"""dpcli export opacus."""

from __future__ import annotations

import click

from dpcli.cli.outputs import leave, path_or_stdout


@click.command(short_help="The state of an Opacus accountant.")
@click.argument("file")
@click.option(
    "--accountant",
    type=click.Choice(["prv", "rdp", "gdp"]),
    default="prv",
    show_default=True,
    help="Accountant of Opacus that will read it.",
)
@click.option(
    "-o",
    "--output",
    metavar="PATH",
    callback=path_or_stdout,
    help="Write to PATH, which must not exist: JSON where it ends in .json, else a file of torch. Without it, or for -, JSON on standard "
    "output.",
)
def command(file: str, accountant: str, output: str | None) -> None:
    """Write the pipeline in FILE ("-" for standard input) as the state_dict of an Opacus accountant: its history of noise multipliers,
    sampling rates and steps. torch.load reads it, also with weights_only, and load_state_dict of the accountant takes it.

    Opacus counts Gaussian noise over one record's contribution on Poisson samples, under add-remove; everything else is refused.
    """
    from dpcli.exchange.opacus.exporting import json_text, state_of, torch_bytes
    from dpcli.file.pipeline.read import load

    state = state_of(load(file), accountant)
    leave(output, json_text(state), None if output is None or output.endswith(".json") else torch_bytes(state))

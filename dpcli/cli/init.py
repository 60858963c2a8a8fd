"""dpcli init."""

from __future__ import annotations

import click

from dpcli.cli.new_file import leave_pipeline, new_file_option


@click.command(short_help="Write a pipeline file to start from.")
@click.argument(
    "template",
    type=click.Choice(["dp-sgd", "train", "federated", "query", "pate", "pmixed", "prompt", "generate", "release"]),
    default="dp-sgd",
)
@new_file_option
def command(template: str, output: str | None) -> None:
    """Print a commented pipeline file: dp-sgd (the accounting of private training), train (the training too), federated (rounds of a server
    and its clients), query (noisy statistics), pate (labels by votes of teachers), pmixed (text from models on shards), prompt (a prompt by
    votes), generate (texts like private ones) or release (noisy answers about a table)."""
    from dpcli.templates import read_template

    leave_pipeline(output, read_template(template))

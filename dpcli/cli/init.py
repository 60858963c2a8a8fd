"""dpcli init."""

from __future__ import annotations

import click

from dpcli.cli.printing import show


@click.command(short_help="Write a pipeline file to start from.")
@click.argument(
    "template", type=click.Choice(["dp-sgd", "train", "query", "pate", "pmixed", "prompt", "generate", "release"]), default="dp-sgd"
)
@click.option("-o", "--output", metavar="PATH", help="Write to PATH, which must not exist; standard output where absent.")
def command(template: str, output: str | None) -> None:
    """Print a commented pipeline file: dp-sgd (the accounting of private training), train (the training too), query (noisy statistics),
    pate (labels by votes of teachers), pmixed (text from models on shards), prompt (a prompt by votes), generate (texts like private
    ones) or release (noisy answers about a table)."""
    from dpcli.templates import read_template, write_new

    text = read_template(template)
    if output is None:
        show(text)
    else:
        write_new(output, text)
        click.echo(f"wrote {output}; next: dpcli account {output}", err=True)

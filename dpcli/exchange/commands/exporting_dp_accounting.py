"""dpcli export dp-accounting."""

from __future__ import annotations

import click

from dpcli.cli.outputs import leave, new_file_option


@click.command(short_help="A DpEvent of dp-accounting, as JSON.")
@click.argument("file")
@new_file_option
def command(file: str, output: str | None) -> None:
    """Write the pipeline in FILE ("-" for standard input) as a DpEvent: JSON with the names of classes and fields that
    dp_accounting.dp_event has, and the neighbouring relation that its accountant is to be given. In Python, to_dp_event makes the event.

    One record per unit alone. Under replace-one, PLDAccountant counts what the event says; RdpAccountant counts half the sensitivity.
    """
    from dpcli.cli.printing import heard
    from dpcli.exchange.events.files import event_json
    from dpcli.file.pipeline.read import load

    pipeline = load(file)
    leave(output, event_json(pipeline))
    with heard():
        if pipeline.privacy.adjacency.value == "replace-one":
            click.echo("dpcli: check it with PLDAccountant: under replace-one RdpAccountant counts half the sensitivity", err=True)

"""dpcli export dp-accounting."""

from __future__ import annotations

import click


@click.command(short_help="A DpEvent of dp-accounting, as JSON.")
@click.argument("file")
@click.option("-o", "--output", metavar="PATH", help="Write to PATH, which must not exist; standard output where absent.")
def command(file: str, output: str | None) -> None:
    """Write the pipeline in FILE ("-" for standard input) as a DpEvent: JSON with the names of classes and fields that
    dp_accounting.dp_event has, and the neighbouring relation that its accountant is to be given. In Python, to_dp_event makes the event.

    One record per unit alone. Under replace-one, PLDAccountant counts what the event says; RdpAccountant counts half the sensitivity.
    """
    from dpcli.cli.exporting.options import write_new_bytes
    from dpcli.cli.printing import heard, show
    from dpcli.exchange.events.files import event_json
    from dpcli.pipeline.read import load

    pipeline = load(file)
    text = event_json(pipeline)
    if output is None:
        show(text)
    else:
        write_new_bytes(output, text.encode())
    with heard():
        if pipeline.privacy.adjacency.value == "replace-one":
            click.echo("dpcli: check it with PLDAccountant: under replace-one RdpAccountant counts half the sensitivity", err=True)

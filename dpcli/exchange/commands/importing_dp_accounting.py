"""dpcli import dp-accounting."""

from __future__ import annotations

from typing import Any

import click

from dpcli.exchange.commands.importing_options import asserted_options, leave_made


@click.command(short_help="A DpEvent of dp-accounting, from JSON.")
@click.argument("file")
@asserted_options
def command(file: str, output: str | None, **given: Any) -> None:
    """Make a pipeline file of the DpEvent in FILE ("-" for standard input), as json.dump(event.to_named_tuple(), file) writes it.

    An event may also be a table of JSON with the names of its class and of its fields: { "type": "PoissonSampledDpEvent",
    "sampling_probability": 0.01, "event": { "type": "GaussianDpEvent", "noise_multiplier": 1.1 } }. What dpcli export has written is read
    as well. A field that nobody knows is refused. In Python, from_dp_event takes the event itself.

    The event does not say its neighbouring relation, which is the accountant's: state --adjacency. Under replace-one a record moves a sum
    by twice the bound that noise_multiplier is relative to, as PLDAccountant counts it; RdpAccountant counts half of that.
    """
    from dpcli.exchange.events.files import MOST, file_of_json
    from dpcli.file.toml.limits import read_head

    data = read_head(file, MOST, "a DpEvent")
    leave_made(output, file, given, lambda asserted, place: file_of_json(data, asserted, place))

"""dpcli import tumult."""

from __future__ import annotations

from typing import Any

import click

from dpcli.exchange.commands.importing_options import asserted_options, ignored_option, leave_made


@click.command(short_help="The budget of a Tumult Analytics Session, from JSON.")
@click.argument("file")
@ignored_option("FIELD")
@asserted_options
def command(file: str, ignored: tuple[str, ...], output: str | None, **given: Any) -> None:
    """Make a pipeline file of the budget of a Session and of what it protects, as JSON ("-" for standard input): { "privacy_budget":
    { "type": "ApproxDPBudget", "epsilon": 1, "delta": 1e-9 }, "protected_changes": { "visits": { "type": "AddMaxRows", "max_rows": 3 } } },
    with the names of classes and of their fields. A Session itself keeps no file.

    The file states one guarantee for the whole budget, whatever was spent. A unit may change all tables at once, each by as many rows, or
    by the rows of one identifier.
    """
    from dpcli.exchange.foreign import MOST
    from dpcli.exchange.tumult import file_of_session
    from dpcli.file.toml.limits import read_head

    data = read_head(file, MOST, "a Session")
    leave_made(output, file, given, lambda asserted, place: file_of_session(data, asserted, ignored, place))

"""dpcli export tumult."""

from __future__ import annotations

import click

from dpcli.cli.outputs import leave, new_file_option


@click.command(short_help="The budget of a Tumult Analytics Session, as JSON.")
@click.argument("file")
@click.option("--table", default="data", show_default=True, metavar="NAME", help="The table of the Session that holds the records.")
@new_file_option
def command(file: str, table: str, output: str | None) -> None:
    """Write the guarantee that the pipeline in FILE ("-" for standard input) states as the privacy budget of a Session, with the change
    that it protects: the fields of Session.from_dataframe, as dpcli import tumult reads them.

    A Session has one budget, of pure epsilon, of epsilon and delta, or of rho, for a unit of at most max_contributions rows; a file of
    noise, of samples or of several mechanisms is refused.
    """
    from dpcli.exchange.tumult_export import session_of
    from dpcli.file.pipeline.read import load

    leave(output, session_of(load(file), table))

"""dpcli import opendp."""

from __future__ import annotations

from typing import Any

import click

from dpcli.exchange.commands.importing_options import asserted_options, ignored_option, leave_made


@click.command(short_help="The budget of an OpenDP Context, as OpenDP serialises it.")
@click.argument("file")
@ignored_option("ARGUMENT")
@asserted_options
def command(file: str, ignored: tuple[str, ...], output: str | None, **given: Any) -> None:
    """Make a pipeline file of the budget of an OpenDP Context: FILE holds what opendp.prelude.serialize(context.accountant) gives
    ("-" for standard input). Nothing of it is run.

    The file states a guarantee for each part of the budget, or one for all of it where queries share it, whatever was spent. Whom it
    protects, the accountant says: its distance between data sets, and d_in.
    """
    from dpcli.exchange.foreign import MOST
    from dpcli.exchange.opendp import file_of_accountant
    from dpcli.file.toml.limits import read_head

    data = read_head(file, MOST, "an accountant of OpenDP")
    leave_made(output, file, given, lambda asserted, place: file_of_accountant(data, asserted, ignored, place))

"""Reports about errors that no command could report, for example because Click refused the command line and called no command.

The error replaces a report of an earlier run, which a CI system would trust. main.py calls `report_unread` for errors that a command
has not reported itself.
"""

from __future__ import annotations

from collections.abc import Sequence

import click

from dpcli.base.errors import InputError
from dpcli.base.registry import FORMATS
from dpcli.cli.error_reports import REPORTED, report_error
from dpcli.cli.options import EVERYTHING, DocumentFormat, named_output
from dpcli.cli.printing import Invocation

# The options of most commands that name reports. As Click refused the whole command line, it is parsed again for these two alone.
REPORTS = (click.Option(["-o", "--output", "outputs"], multiple=True), click.Option(["-f", "--format", "format_"]))


def report_unread(error: BaseException, arguments: Sequence[str]) -> None:
    """Write the error into each report that a refused command line asks for, in the formats that CI systems evaluate.

    The error is also printed if -f names such a format. A file is not overwritten if another word of the command line may name it. Nothing
    is done if the error was already written into the reports.
    """
    if REPORTED in getattr(error, "__notes__", ()):
        return
    reader = click.Command(None, params=[*REPORTS])
    context = click.Context(reader, resilient_parsing=True, ignore_unknown_options=True)
    values, others, _ = reader.make_parser(context).parse_args(list(arguments))
    outputs = [report for output in values.get("outputs") or () if (report := _named(output)) is not None]
    format_ = str(values.get("format_"))
    inputs: list[str] = []
    for word in others:
        inputs += (
            word,
            word.partition("=")[2],
            word[2:],
        )  # word[2:] is the path in -fPATH, and the one after = that in --flag=PATH
    report_error(
        error, Invocation("dpcli", ""), format_ if format_ in FORMATS else "text", outputs, outlives_errors=True, inputs=inputs
    )


def _named(output: str) -> str | None:
    """Return an output as FORMAT=PATH; None if neither a format nor the ending of the path names a format of documents."""
    try:
        return named_output(output.removeprefix("="), DocumentFormat(EVERYTHING))
    except InputError:
        return None

"""Errors that no command has written into its reports, for example because Click refused the command line and called no command.

A *report* is a file that -o FORMAT=PATH asks for. A report of an earlier run must not stay, because a CI system would take it for the
result of this one. main.py calls `report_unreported` with an error and the arguments of the process, and this module reads -o and -f from
the arguments once more, since Click refused them as a whole. It is not a part of error_reports.py, because options.py imports that one.
"""

from __future__ import annotations

from collections.abc import Sequence

import click

from dpcli.base.errors import InputError
from dpcli.base.registry import FORMATS
from dpcli.cli.error_reports import REPORTED, report_error
from dpcli.cli.options import EVERYTHING, DocumentFormat, named_output
from dpcli.cli.printing import Invocation

# The options -o and -f, without the checks that they have in a command.
REPORT_OPTIONS = (click.Option(["-o", "--output", "outputs"], multiple=True), click.Option(["-f", "--format", "format_"]))


def report_unreported(error: BaseException, arguments: Sequence[str]) -> None:
    """Write the error into each report that the arguments ask for, if its format is one by which CI systems pass or fail.

    The error is also printed if -f names such a format. A file is not overwritten if another argument may name it as an input. Nothing is
    done if the command has written the error into its reports.
    """
    if REPORTED in getattr(error, "__notes__", ()):
        return
    command = click.Command(None, params=[*REPORT_OPTIONS])
    context = click.Context(command, resilient_parsing=True, ignore_unknown_options=True)
    options, other_arguments, _ = command.make_parser(context).parse_args(list(arguments))
    outputs = [report for output in options.get("outputs") or () if (report := _as_document_output(output)) is not None]
    format_ = str(options.get("format_"))
    possible_inputs: list[str] = []
    for argument in other_arguments:
        # FILE, or the path in --flag=FILE, or the path in -fFILE
        possible_inputs += (argument, argument.partition("=")[2], argument[2:])
    report_error(
        error,
        Invocation(words="dpcli", path=""),
        format_ if format_ in FORMATS else "text",
        outputs,
        outlives_errors=True,  # reports in other formats stay
        inputs=possible_inputs,
    )


def _as_document_output(output: str) -> str | None:
    """Return an output as FORMAT=PATH; None if neither a format nor the ending of the path names a format of documents.

    For -o=PATH, Click passes on "=PATH".
    """
    try:
        return named_output(output.removeprefix("="), DocumentFormat(EVERYTHING))  # any format of documents
    except InputError:
        return None

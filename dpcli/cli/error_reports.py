"""Errors as reports. They replace the reports of an earlier run, which a CI system would otherwise trust.

A *report* is a file that -o FORMAT=PATH asks for. A *judged* format is one in which a CI system would read an empty report as a pass, such
as junit (`ci_reads_verdict`): an error is always written into it, as a failure. `reporting_errors` in options.py calls `report_error` for
the errors of a command, and unreported.py calls it for errors outside of commands, such as a command line that Click refused.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import click

from dpcli.base.errors import DpcliError, InputError
from dpcli.base.registry import FORMATS
from dpcli.cli.document_files import render, split_output, write
from dpcli.cli.printing import Invocation, show

if TYPE_CHECKING:
    from dpcli.document.document import Document

REPORTED = "reported"  # note that marks an error which was already written into the reports


def report_error(
    error: BaseException,
    invocation: Invocation,
    format_: str,
    outputs: Sequence[str],
    *,
    outlives_errors: bool,
    inputs: Sequence[str] | None = None,
    spares_data: bool = False,
) -> None:
    """Write an error into each report. Print it too if the printed format is judged.

    A report that cannot be written is skipped without a message, because the first error is the one to show.

    Args:
        format_: The format of what the command prints.
        outputs: The reports as FORMAT=PATH. If two reports have the same path, the first is written. Pictures are skipped.
        outlives_errors: Whether existing reports stay as they are, unless their format is judged. This is for commands such as
            `dpcli budget log`, whose old output is still valid.
        inputs: As in `write_each`.
        spares_data: Whether existing files that may be data stay unchanged, unless their format is judged.
    """
    from dpcli.cli.outputs import may_be_data
    from dpcli.document.formats.facts import ci_reads_verdict, is_appended

    document = _error_document(error, invocation)
    written: set[str] = set()
    for name, path in map(split_output, outputs):
        if name not in FORMATS:  # a picture, which cannot show an error
            continue
        stays = outlives_errors or (spares_data and may_be_data(path))
        place = os.path.realpath(path)
        # A judged report never stays, because a CI system would take its earlier verdict for that of this run.
        if place in written or (stays and not ci_reads_verdict(name)):
            continue
        written.add(place)
        with suppress(DpcliError):
            write(path, _error_text(document, name), is_appended(name), inputs)
    if ci_reads_verdict(format_):
        show(render(document, format_, settings=None))


def _error_document(error: BaseException, invocation: Invocation) -> Document:
    """Return the document of an error, with the exit code that `dpcli.cli.main` gives it."""
    from dpcli.document.document import error_document
    from dpcli.file.toml.findings import InvalidFile
    from dpcli.lint.documents.diagnostics import finding

    message, code = str(error), 70  # the exit code of a bug in dpcli, for any other error
    if isinstance(error, KeyboardInterrupt | click.Abort):
        message, code = "interrupted", 130
    elif isinstance(error, click.ClickException):
        message, code = error.message, error.exit_code
    elif isinstance(error, DpcliError):
        code = error.exit_code
    elif isinstance(error, OSError):
        code = 2
    places = tuple(map(finding, error.diagnostics)) if isinstance(error, InvalidFile) else ()
    return error_document(*invocation, message or type(error).__name__, code, places)


def _error_text(document: Document, name: str) -> str:
    """Return the document of an error in a format; its headline if the format cannot show the document."""
    try:
        return render(document, name, settings=None)
    except InputError:
        return f"{document.headline}\n"

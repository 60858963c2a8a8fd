"""Options that commands of many kinds share, and `emit`, which prints the document of a command and writes it to files.

A *document* is the result of a command before a format such as json or table renders it (dpcli/document). A command with the decorator
`output_options` gets -f FORMAT for what is printed and -o FORMAT=PATH for files, and returns `emit(document, ...)`. An *output* is one -o,
and a *report* is an output that a program such as a CI system reads. With `pictures`, -o may also name a chart, which picture.py writes.

Two rules depend on this file. A command that fails replaces the report of an earlier run by its error, because CI would otherwise read the
old one as a pass. And an output never replaces an input, which could be the only copy (outputs.py). Every command imports this file when it
starts, so slow packages are imported inside functions.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from dpcli import __version__
from dpcli.base.errors import InputError
from dpcli.base.extras import unavailable
from dpcli.base.registry import FORMATS
from dpcli.cli.printing import Invocation, Settings, complain, on_one_terminal, show_each

if TYPE_CHECKING:
    from dpcli.document.document import Document

    TextChoice = click.Choice[str]
else:
    TextChoice = click.Choice  # generic since click 8.2 only

# Kinds of content of a document, which decide which formats can show it. PICTURES stands for the charts of a command, and EVERYTHING for
# all kinds that the formats of documents may need.
PICTURES = "pictures"
EVERYTHING = ("findings", "checks", "total", "records")
NOTICE_AFTER = 1.0  # seconds of work after which a notice is printed; arbitrary: shorter work seems immediate


def _store(context: click.Context, option: click.Parameter, value: Any) -> None:
    """Store a given global option in the context. The numbers of -v before and after the command are added.

    An option that is not given has a false value, which must not replace a value given before the command.
    """
    settings = context.obj or Settings()
    if option.name == "verbose":
        value += settings.verbose
    context.obj = replace(settings, **{str(option.name): value}) if value else settings


class RealRange(click.FloatRange):
    """A range of numbers that refuses NaN, which no comparison with a bound would refuse."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        result: float = super().convert(value, param, ctx)
        if math.isnan(result):
            self.fail(f"expected a number, found {value!r}", param, ctx)
        return result


def composed(*options: Callable[..., Any]) -> Callable[..., Any]:
    """Return a decorator that adds all of these options. The help lists them in this order."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


global_options = composed(
    click.option("-q", "--quiet", is_flag=True, expose_value=False, callback=_store, help="Print results only, no notes."),
    click.option(
        "-v",
        "--verbose",
        count=True,
        expose_value=False,
        callback=_store,
        help="Cite the source of every bound; given twice, show the trace of an internal error.",
    ),
    click.option(
        "--color",
        type=click.Choice(["auto", "always", "never"]),
        expose_value=False,
        callback=_store,
        help="Color the table [default: auto].",
    ),
    click.version_option(__version__, "-V", "--version", prog_name="dpcli", message="%(prog)s %(version)s"),
)


class DocumentFormat(TextChoice):
    """A choice among the output formats that can show the documents of a command. A known format is accepted without importing the others.

    Attributes:
        holds: Kinds of content of the documents, such as "total".
        allows_pictures: Whether -o may also name a picture.
    """

    def __init__(self, holds: tuple[str, ...]) -> None:  # without that of click, which would set `choices`
        self.holds = holds
        self.allows_pictures = PICTURES in holds
        self.case_sensitive = True

    @property
    def choices(self) -> tuple[str, ...]:  # type: ignore[override]
        from dpcli.document.formats.facts import renderable

        return renderable(self.holds)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from dpcli.document.formats.facts import renders

        return value if value in FORMATS and renders(value, self.holds) else super().convert(value, param, ctx)


def output_options(default: str, *holds: str, outlives_errors: bool = False, spares_data: bool = False) -> Callable[..., Any]:
    """Return a decorator that adds the options -f FORMAT and -o FORMAT=PATH, and writes an error of the command into its reports.

    The decorated function takes `format_` and `outputs`, and returns the exit code.

    Args:
        default: The default of -f.
        holds: Kinds of content of the command's documents, such as "total". They decide which formats are offered.
        outlives_errors: Whether outputs of an earlier run stay if the command fails, since they may be the only copy of a result, such as
            the export of a ledger. Otherwise the error replaces them.
        spares_data: Whether the command declares files that no output may replace (`protect`). After an error before this declaration, no
            file that may be data is overwritten.
    """
    formats = DocumentFormat(holds)
    return composed(
        click.option(
            "-f", "--format", "format_", type=formats, default=default, show_default=True, help="Format of the printed result."
        ),
        click.option(
            "-o",
            "--output",
            "outputs",
            multiple=True,
            metavar="FORMAT=PATH",
            callback=lambda _, __, given: _checked_outputs(given, formats),
            help="Also write FORMAT to PATH; repeatable. FORMAT= may be left out if the ending of PATH names the format (x.html).",
        ),
        lambda function: reporting_errors(function, outlives_errors=outlives_errors, spares_data=spares_data),
    )


def _checked_outputs(given: tuple[str, ...], formats: DocumentFormat) -> tuple[str, ...]:
    """Return each output as FORMAT=PATH. Raises InputError for a format that is not offered, the path "-", or a repeated path."""
    named_outputs = tuple(named_output(output, formats) for output in given)
    paths = [output.partition("=")[2] for output in named_outputs]
    if "-" in paths:
        from dpcli.cli.document_files import DASH_REFUSAL

        raise InputError(f"--output: {DASH_REFUSAL}")
    each_once(paths)
    return named_outputs


def each_once(paths: Sequence[str]) -> None:
    """Raise InputError if two outputs are the same file after links are followed. A device may receive several outputs."""
    places = [os.path.realpath(path) for path in paths]
    for path, place in zip(paths, places, strict=True):
        if places.count(place) > 1 and (os.path.isfile(place) or not os.path.exists(place)):
            raise InputError(f"--output: expected each path once, found {path!r} twice")


def named_output(output: str, formats: DocumentFormat) -> str:
    """Return an output as FORMAT=PATH. If it names no format, the ending of the path decides.

    Raises InputError for a format that the command does not offer, and for an ending that names no format.
    """
    from dpcli.document.formats.facts import format_of_path, renders

    name, equals, path = output.partition("=")
    if path and name in FORMATS and renders(name, formats.holds):
        return output
    if formats.allows_pictures:  # before the ending is looked up, as .vl.json, the ending of a picture, also ends in .json
        from dpcli.cli.outputs import as_picture

        picture = as_picture(output)
        if picture is not None:
            return picture
    format_of_ending = None if equals else format_of_path(output, formats.choices)
    if format_of_ending is not None:
        return f"{format_of_ending}={output}"
    ending = os.path.splitext(output)[1]
    why = f", whose ending {ending} names no format" if ending and not equals else ""
    raise InputError(f"--output: expected FORMAT=PATH with a format among {', '.join(formats.choices)}, found {output!r}{why}")


def reporting_errors(function: Callable[..., int], *, outlives_errors: bool, spares_data: bool) -> Callable[..., int]:
    """Return a function that runs the command, and writes an error into the reports before it raises the error.

    If a package is missing that an extra of dpcli installs, `Unavailable` is raised in place of the import error. An ordinary exit, or a
    closed pipe behind standard output, is no error. The other parameters are those of `output_options`.
    """

    @wraps(function)
    def run(*args: Any, format_: str, outputs: tuple[str, ...], **given: Any) -> int:
        try:
            _require_no_inputs(outputs)
            _require_written_alone(outputs, given.get("write"))
            return function(*args, format_=format_, outputs=outputs, **given)
        except (click.exceptions.Exit, BrokenPipeError):
            raise
        except (Exception, KeyboardInterrupt) as error:
            from dpcli.cli.error_reports import REPORTED, report_error
            from dpcli.cli.outputs import has_protected

            missing_package = unavailable(error)
            reported = missing_package or error
            reported.add_note(REPORTED)  # so that main.py does not report it again
            data_are_unknown = spares_data and not has_protected()
            report_error(reported, _invocation(), format_, outputs, outlives_errors=outlives_errors, spares_data=data_are_unknown)
            if missing_package is not None:
                raise missing_package from error
            raise

    return run


def _require_no_inputs(outputs: Sequence[str]) -> None:
    """Raise InputError if an output would replace an input. `write` checks this too; here it is checked before the computation."""
    if not outputs:
        return
    from dpcli.cli.document_files import split_output
    from dpcli.cli.outputs import possible_inputs, require_no_input, require_unprotected

    for _, path in map(split_output, outputs):
        require_no_input(path, possible_inputs())
        require_unprotected(path)


def _require_written_alone(outputs: Sequence[str], write: str | None) -> None:
    """Raise InputError if --write, which is None if it is not given, and an output name the same file."""
    if write is not None:
        from dpcli.cli.document_files import split_output

        each_once([write, *(path for _, path in map(split_output, outputs))])


def _invocation() -> Invocation:
    """Return the words of the running command, and its first file or its ledger, by which a report names the command."""
    context = click.get_current_context()
    files = context.params.get("files")
    first = files[0] if files else context.params.get("file") or context.params.get("ledger") or ""
    return Invocation(context.command_path, str(first))


def refuse_flags(other: str, **given: object) -> None:
    """Raise InputError if a flag is given together with an option or argument that makes it meaningless.

    Args:
        other: The option or argument, for the message.
        given: Values of the flags by name; None for a flag that is not given.
    """
    for name, value in given.items():
        if value is not None:
            raise InputError(f"--{name.replace('_', '-')} cannot be combined with {other}")


@contextmanager
def working() -> Iterator[None]:
    """Print a notice to standard error if the work inside takes more than a second, standard error is a terminal, and -q is not given."""
    settings: Settings = click.get_current_context().obj
    if settings.quiet or not sys.stderr.isatty():
        yield
        return
    import threading

    message = "dpcli: still composing (Ctrl-C stops; nothing is written before the end)"
    notice = threading.Timer(NOTICE_AFTER, click.echo, (message,), {"err": True})
    notice.daemon = True
    notice.start()
    try:
        yield
    finally:
        notice.cancel()


def emit(document: Document, format_: str, outputs: tuple[str, ...]) -> int:
    """Write a document to files, print it, and return its exit code.

    Alerts go to standard error, and so does the reason of an exit code other than 0, unless a terminal shows both streams and the printed
    document has the reason. With -q the document is printed without its notes.

    Args:
        outputs: The files as FORMAT=PATH.

    Raises:
        InputError: A report for a CI system would contain no check, or a file cannot be written.
    """
    from dpcli.cli.document_files import pieces_of, split_output, write_each
    from dpcli.document.document import reason, shows_reason, with_verdict
    from dpcli.document.formats.facts import ci_reads_verdict, is_appended

    settings: Settings = click.get_current_context().obj
    failure = reason(document) if document.exit_code else ""
    named_outputs = [split_output(output) for output in outputs]
    formats = [format_, *(name for name, _ in named_outputs)]
    if any(map(ci_reads_verdict, formats)):
        document = with_verdict(document, *_invocation())
    printed = replace(document, notes=()) if settings.quiet else document
    # All formats are rendered before the first file is written.
    written_pieces = [pieces_of(document, name, settings=None) for name, _ in named_outputs]
    printed_pieces = pieces_of(printed, format_, settings)
    for (name, path), pieces in zip(named_outputs, written_pieces, strict=True):
        write_each(path, pieces, is_appended(name))
    if failure and on_one_terminal():
        printed_pieces = tuple(printed_pieces)  # they may come from a generator, and are read twice
        if shows_reason("".join(printed_pieces), document):
            failure = ""
    show_each(printed_pieces)
    for line in document.alerts:
        complain(line)
    if failure:
        complain(failure)
    return document.exit_code

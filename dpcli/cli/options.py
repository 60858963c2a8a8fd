"""Options that several commands share, and the output of documents to the terminal and to files."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from dpcli import __version__
from dpcli.base.errors import DpcliError, InputError
from dpcli.base.extras import unavailable
from dpcli.base.lazy import load
from dpcli.base.registry import ACCOUNTANTS, FORMATS
from dpcli.base.values import dataclass
from dpcli.cli.completion import complete_accountant
from dpcli.cli.printing import complain, show, show_each

if TYPE_CHECKING:
    from dpcli.document.document import Document

    TextChoice = click.Choice[str]
else:
    TextChoice = click.Choice  # generic since click 8.2 only

REPORTED = "reported"  # note that marks an error which was already written into the reports
# Kinds of content of a document. They decide which formats can show it.
PICTURES = "pictures"
EVERYTHING = ("findings", "checks", "total", "records")
ALL = "all"  # value of --accountant that selects every accountant
NOTICE_AFTER = 1.0  # seconds of work after which a notice is printed
DEFAULT_WIDTH, SMALLEST_WIDTH = 110, 40  # width of a text if the output is no terminal, and the smallest width, in characters
DASH_REFUSAL = "expected FORMAT=PATH, found -: standard output has the format of -f (write ./- for a file of this name)"


@dataclass(frozen=True, slots=True)
class Settings:
    """The global options."""

    quiet: bool = False
    verbose: int = 0
    color: str = "auto"


def _store(context: click.Context, option: click.Parameter, value: Any) -> None:
    """Store a global option in the context. The numbers of -v before and after the command are added."""
    settings = context.obj or Settings()
    if option.name == "verbose":
        value += settings.verbose
    context.obj = replace(settings, **{str(option.name): value}) if value else settings


class RealRange(click.FloatRange):
    """A range of numbers without NaN."""

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


def _checked_new_path(_context: click.Context, _option: click.Parameter, path: str | None) -> str | None:
    """Return the path of --write. Raises InputError, before anything is computed, if no new file can be created there."""
    if path == "-":
        raise InputError("--write: expected a path, found -: standard output has the result (write ./- for a file of this name)")
    if path is not None and os.path.lexists(path):
        raise InputError(f"--write: expected a path that does not exist yet, found {path}")
    if path is not None and not os.path.isdir(os.path.dirname(path) or "."):
        raise InputError(f"--write: expected a path in a folder that exists, found {path}")
    return path


def write_option(what: str) -> Callable[..., Any]:
    """Return the option --write PATH. what: completes its help."""
    return click.option(
        "--write", metavar="PATH", callback=_checked_new_path, help=f"Also write {what} to PATH, which must not exist."
    )


class DocumentFormat(TextChoice):
    """A choice among the output formats that can show the documents of a command. Modules of other formats are not imported.

    Attributes:
        holds: As in `output_options`.
    """

    def __init__(self, holds: tuple[str, ...]) -> None:
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
    """Return the options -f FORMAT and -o FORMAT=PATH.

    Args:
        default: The default of -f.
        holds: Kinds of content of the command's documents, such as "total". They decide which formats are offered.
        outlives_errors: Whether outputs of an earlier run stay if the command fails. They may be the only copy of a result. Otherwise the
            error replaces them.
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
        lambda function: reporting_errors(function, outlives_errors, spares_data),
    )


def _checked_outputs(given: tuple[str, ...], formats: DocumentFormat) -> tuple[str, ...]:
    """Return each output as FORMAT=PATH. Raises InputError for a format that -f refuses, or a repeated path."""
    result = tuple(named_output(output, formats) for output in given)
    paths = [output.partition("=")[2] for output in result]
    if "-" in paths:
        raise InputError(f"--output: {DASH_REFUSAL}")
    each_once(paths)
    return result


def each_once(paths: Sequence[str]) -> None:
    """Raise InputError if two outputs are the same file after links are followed. A device may receive several outputs."""
    places = [os.path.realpath(path) for path in paths]
    for path, place in zip(paths, places, strict=True):
        if places.count(place) > 1 and (os.path.isfile(place) or not os.path.exists(place)):
            raise InputError(f"--output: expected each path once, found {path!r} twice")


def named_output(output: str, formats: DocumentFormat) -> str:
    """Return an output as FORMAT=PATH. If it names no format, the ending of the path decides.

    Raises InputError for a format that the command does not offer.
    """
    from dpcli.document.formats.facts import format_of_path, renders

    name, equals, path = output.partition("=")
    if path and name in FORMATS and renders(name, formats.holds):
        return output
    if formats.allows_pictures:
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


def reporting_errors(function: Callable[..., int], outlives_errors: bool, spares_data: bool = False) -> Callable[..., int]:
    """Return a function that runs the command and, on an error, writes the error into the reports, so that no earlier report remains.

    The other parameters are those of `output_options`.
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
            from dpcli.cli.outputs import has_protected

            missing_package = unavailable(error)
            reported = missing_package or error
            reported.add_note(REPORTED)
            data_are_unknown = spares_data and not has_protected()
            report_error(reported, _invocation(), format_, outputs, outlives_errors, spares_data=data_are_unknown)
            if missing_package is not None:
                raise missing_package from error
            raise

    return run


def _require_no_inputs(outputs: Sequence[str]) -> None:
    """Raise InputError if an output would replace an input. `write` checks this too; here it is checked before the computation."""
    for _, path in map(_split, outputs):
        from dpcli.cli.outputs import inputs, require_free, require_no_input

        require_no_input(path, inputs())
        require_free(path)


def _require_written_alone(outputs: Sequence[str], write: str | None) -> None:
    """Raise InputError if --write and an output name the same file."""
    if write is not None:
        each_once([write, *(path for _, path in map(_split, outputs))])


def require_one_unit(write: str | None, group_size: int) -> None:
    """Raise InputError if --write asks for a pipeline file of a group, which no pipeline file can state."""
    if write is not None and group_size != 1:
        raise InputError(
            f"--group-size: expected no such flag with --write, found {group_size}: a file describes the cost of one unit; "
            f"dpcli account {write} --group-size {group_size} computes that of a group"
        )


def report_error(
    error: BaseException,
    invocation: tuple[str, str],
    format_: str,
    outputs: Sequence[str],
    outlives_errors: bool,
    inputs: Sequence[str] | None = None,
    spares_data: bool = False,
) -> None:
    """Write an error into each report. Print it too if CI systems evaluate the printed format.

    Args:
        error: The error.
        invocation: The command as the user typed it, and its first file.
        format_: The printed format.
        outputs: The reports as FORMAT=PATH. If two reports have the same path, the first is written.
        outlives_errors: Whether reports that no CI system evaluates stay unchanged.
        inputs: As in `write_each`.
        spares_data: Whether existing files that may be data stay unchanged.
    """
    from dpcli.cli.outputs import may_be_data
    from dpcli.document.formats.facts import appended, judges

    document = _error_document(error, *invocation)
    written: set[str] = set()
    for name, path in map(_split, outputs):
        if name not in FORMATS:  # a picture, which cannot show an error
            continue
        stays = outlives_errors or (spares_data and may_be_data(path))
        place = os.path.realpath(path)
        if place in written or (stays and not judges(name)):
            continue
        written.add(place)
        with suppress(DpcliError):  # the first error is shown, not this one
            write(path, _error_text(document, name), appended(name), inputs)
    if judges(format_):
        show(_render(document, format_, None))


def _error_document(error: BaseException, words: str, path: str) -> Document:
    """Return the document of an error. `words` is the command as the user typed it, and `path` its first file."""
    from dpcli.document.document import error_document
    from dpcli.file.toml.findings import InvalidFile
    from dpcli.lint.documents.diagnostics import finding

    message, code = str(error), 70  # the exit codes are those of `main`
    if isinstance(error, KeyboardInterrupt | click.Abort):
        message, code = "interrupted", 130
    elif isinstance(error, click.ClickException):
        message, code = error.message, error.exit_code
    elif isinstance(error, DpcliError):
        code = error.exit_code
    elif isinstance(error, OSError):
        code = 2
    places = tuple(map(finding, error.diagnostics)) if isinstance(error, InvalidFile) else ()
    return error_document(words, path, message or type(error).__name__, code, places)


def _error_text(document: Document, name: str) -> str:
    """Return the document of an error in a format; its headline if the format cannot show the document."""
    try:
        return _render(document, name, None)
    except InputError:
        return f"{document.headline}\n"


def _invocation() -> tuple[str, str]:
    """Return the command as the user typed it, and its first file."""
    context = click.get_current_context()
    files = context.params.get("files")
    first = files[0] if files else context.params.get("file") or context.params.get("ledger") or ""
    return context.command_path, str(first)


def adjacency_option(what: str) -> Callable[..., Any]:
    """Return the option --adjacency. what: completes its help."""
    return click.option(
        "--adjacency", type=click.Choice(["add-remove", "replace-one", "zero-out"]), help=f"Neighbouring relation {what}."
    )


dataset_size_option = click.option("--dataset-size", type=int, help="Number of records, declared public.")


run_options = composed(
    click.option("--sampling-rate", type=float, help="Probability that a record is in the batch of a step  [default: 1]."),
    click.option("--batch-size", type=int, help="Expected number of records in a batch; needs --dataset-size."),
    dataset_size_option,
    click.option(
        "--steps",
        type=int,
        help="Number of steps (without FILE); 1 by default, required with --sampling-rate or --batch-size.",
    ),
    click.option("--epochs", type=float, help="Number of passes over the data, instead of --steps."),
    adjacency_option("(without FILE)  [default: add-remove]"),
)


accounting_options = composed(
    click.option(
        "-a",
        "--accountant",
        "accountants",
        multiple=True,
        metavar="NAME",
        shell_complete=complete_accountant,
        callback=lambda _, __, given: tuple(ACCOUNTANTS) if ALL in given else given,
        help=f"Use only this accountant; repeatable: {', '.join(ACCOUNTANTS)}; or {ALL}, including accountants that a certified interval "
        "makes needless.",
    ),
    click.option("--delta", type=float, help="Report epsilon at this delta instead of that of the file."),
    click.option("--group-size", type=int, default=1, show_default=True, help="Number of units of privacy that change together."),
)


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
    """Print a notice if the work inside takes more than a second and standard error is a terminal."""
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
    """Print a document, write its other formats, and return its exit code.

    Alerts go to standard error, and so does the reason of an exit code other than 0.

    Raises:
        InputError: A report for a CI system would contain no check.
    """
    from dpcli.document.document import reason, with_verdict
    from dpcli.document.formats.facts import appended, judges

    settings: Settings = click.get_current_context().obj
    failure = reason(document) if document.exit_code else ""
    named_outputs = [_split(output) for output in outputs]
    formats = [format_, *(name for name, _ in named_outputs)]
    if any(map(judges, formats)):
        document = with_verdict(document, *_invocation())
    printed = replace(document, notes=()) if settings.quiet else document
    # All formats are rendered before the first file is written.
    written_pieces = [_pieces(document, name, None) for name, _ in named_outputs]
    printed_pieces = _pieces(printed, format_, settings)
    for (name, path), pieces in zip(named_outputs, written_pieces, strict=True):
        write_each(path, pieces, appended(name))
    show_each(printed_pieces)
    for line in document.alerts:
        complain(line)
    if failure:
        complain(failure)
    return document.exit_code


def write(path: str, text: str | bytes, append: bool = False, inputs: Sequence[str] | None = None) -> None:
    """Write a text or bytes to a file. The other parameters are those of `write_each`."""
    write_each(path, (text.encode() if isinstance(text, str) else text,), append, inputs)


def write_each(path: str, pieces: Iterable[str | bytes], append: bool = False, inputs: Sequence[str] | None = None) -> None:
    """Write pieces to a file.

    Args:
        path: Path of the file.
        pieces: The content.
        append: Whether to add the content to the end of the file. Otherwise the file is replaced.
        inputs: Texts that may name input files, which must not be replaced; None for the arguments of the command.

    Raises:
        InputError: The file cannot be written, or is an input.
    """
    from dpcli.cli import outputs as protected

    if path == "-":
        raise InputError(DASH_REFUSAL)
    protected.require_no_input(path, protected.inputs() if inputs is None else inputs)
    protected.require_free(path)
    try:
        with open(path, "ab" if append else "wb") as file:
            for piece in pieces:
                file.write(piece.encode() if isinstance(piece, str) else piece)
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}") from None


def _split(output: str) -> tuple[str, str]:
    """Return the format and the path of an output FORMAT=PATH."""
    name, _, path = output.partition("=")
    return name, path


def _pieces(document: Document, name: str, settings: Settings | None) -> Iterable[str]:
    """Return the text of a document in pieces. A long document is rendered piece by piece while it is written."""
    from dpcli.document.formats.facts import streams

    stream = streams(name) if document.long else None
    if stream is None:
        return (_render(document, name, settings),)
    return stream(document, **_layout(name, settings))


def _render(document: Document, name: str, settings: Settings | None) -> str:
    """Return the document in a format as text."""
    render: Callable[..., str] = load(FORMATS[name])
    return render(document, **_layout(name, settings))


def _layout(name: str, settings: Settings | None) -> dict[str, Any]:
    """Return the width and the color setting for a format that is shown on a screen; an empty table for other formats."""
    from dpcli.document.formats.facts import for_screen

    if not for_screen(name):
        return {}
    color = settings is not None and wants_color(settings.color)
    if not sys.stdout.isatty() and not os.environ.get("COLUMNS"):
        return {"width": DEFAULT_WIDTH, "color": color}
    import shutil  # slow to import, and not needed to write files

    columns = shutil.get_terminal_size((DEFAULT_WIDTH, 24)).columns
    return {"width": max(SMALLEST_WIDTH, columns), "color": color}


def wants_color(choice: str) -> bool:
    """Return whether to use color. --color decides first, then NO_COLOR and FORCE_COLOR, then the kind of terminal."""
    if choice != "auto":
        return choice == "always"
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"

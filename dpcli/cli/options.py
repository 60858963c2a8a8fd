"""Options that several commands share, and how a document leaves the process."""

from __future__ import annotations

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

REPORTED = "reported"  # a note on an error that the reports asked for hold
PICTURES = "pictures"  # of what a document may hold
EVERYTHING = ("findings", "checks", "total", "records")  # what a document may hold
ALL = "all"  # of --accountant
NO_DASH = "expected FORMAT=PATH, found -: standard output has what -f names (./- is a file of that name)"


@dataclass(frozen=True, slots=True)
class Settings:
    """The global options."""

    quiet: bool = False
    verbose: int = 0
    color: str = "auto"


def _keep(context: click.Context, option: click.Parameter, value: Any) -> None:
    """Note what was given; levels of detail before and after the command add up."""
    settings = context.obj or Settings()
    if option.name == "verbose":
        value += settings.verbose
    context.obj = replace(settings, **{str(option.name): value}) if value else settings


class RealRange(click.FloatRange):
    """Numbers in a range, of which not-a-number is none."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        result: float = super().convert(value, param, ctx)
        if result != result:
            self.fail(f"expected a number, found {value!r}", param, ctx)
        return result


def composed(*options: Callable[..., Any]) -> Callable[..., Any]:
    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


global_options = composed(
    click.option("-q", "--quiet", is_flag=True, expose_value=False, callback=_keep, help="Print results only, no notes."),
    click.option(
        "-v",
        "--verbose",
        count=True,
        expose_value=False,
        callback=_keep,
        help="Cite the source of every bound; twice: show the trace of an internal error.",
    ),
    click.option(
        "--color",
        type=click.Choice(["auto", "always", "never"]),
        expose_value=False,
        callback=_keep,
        help="Color the table [default: auto].",
    ),
    click.version_option(__version__, "-V", "--version", prog_name="dpcli", message="%(prog)s %(version)s"),
)


def _new(_context: click.Context, _option: click.Parameter, path: str | None) -> str | None:
    """The path, before anything is computed."""
    if path == "-":
        raise InputError("--write: expected a path, found -: standard output has the result (./- is a file of that name)")
    if path is not None and os.path.lexists(path):
        raise InputError(f"--write: expected a path that does not exist yet, found {path}")
    if path is not None and not os.path.isdir(os.path.dirname(path) or "."):
        raise InputError(f"--write: expected a path in a folder that exists, found {path}")
    return path


def goal_options() -> Callable[..., Any]:
    """Return the options of the goals that noise may be solved for in place of an epsilon."""
    return composed(
        click.option("--target-rho", type=float, help="The rho (zCDP) to meet, in place of an epsilon."),
        click.option("--target-advantage", type=float, help="The most that true less false positives may be: delta at epsilon 0."),
        click.option("--target-tpr", type=float, help="The most true positives of any attack, with --at-fpr."),
        click.option("--at-fpr", type=float, help="The false positives at which --target-tpr holds."),
        click.option(
            "--target-mu", type=float, help="The mu (Gaussian DP) to meet: Gaussian noise on all records, and what is pure."
        ),
    )


def gate_options() -> Callable[..., Any]:
    """FILES and what they are held to, as `dpcli.gate.gate_terms.checked_terms` takes it."""
    return composed(
        click.argument("files", nargs=-1),
        click.option("--max-epsilon", type=float, help="Cap on epsilon; the smallest of this, a policy's and a file's holds."),
        click.option("--max-rho", type=float, help="Cap on rho (zCDP), beside the cap on epsilon; the smallest holds."),
        click.option(
            "--max-together", type=float, help="Cap on epsilon of each dataset: of all pipelines of the repository that name it."
        ),
        click.option("--delta", type=float, help="Delta of --max-epsilon; without that, no cap holds at a larger one."),
        click.option("--max-increase", type=float, help="Largest rise of epsilon over the base that passes; the smallest holds."),
        click.option(
            "--allow-statement-change",
            is_flag=True,
            help="Let a file change its unit, adjacency, delta, ... or loosen its own caps.",
        ),
        click.option("--base-ref", metavar="REF", help="Compare with the files as they stand at this git revision."),
        click.option("--baseline", metavar="JSON", help="Compare with what an earlier gate wrote with -f json."),
        click.option("--policy", metavar="FILE", help="Caps, requirements and waivers for all files; also REVISION:PATH."),
        click.option("--horizon", type=int, metavar="RUNS", help="Planned runs of each file, together within --horizon-epsilon."),
        click.option(
            "--horizon-epsilon", type=float, metavar="E", help="Cap on epsilon of all runs of --horizon, at the budget's delta."
        ),
        click.option(
            "--ledger", metavar="URL", help="Also ask this ledger whether the runs of all files together would still fit."
        ),
        click.option("--dataset", metavar="NAME", help="The dataset in the ledger; needed where it holds several."),
        click.option("--as-of", metavar="DATE", help="Judge waivers as of this day (2030-12-31) instead of today, UTC."),
    )


def write_option(what: str) -> Callable[..., Any]:
    """--write PATH."""
    return click.option("--write", metavar="PATH", callback=_new, help=f"Also write {what} to PATH, which must not exist.")


class DocumentFormat(TextChoice):
    """A format of documents that hold some things; the others are looked at only for help and complaints."""

    def __init__(self, holds: tuple[str, ...], kept: bool = False, careful: bool = False) -> None:
        self.holds = holds
        self.kept = kept
        self.careful = careful
        self.pictured = PICTURES in holds  # whether an output may be a picture as well
        self.case_sensitive = True

    @property
    def choices(self) -> tuple[str, ...]:  # type: ignore[override]
        from dpcli.document.formats.facts import renderable

        return renderable(self.holds)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from dpcli.document.formats.facts import renders

        return value if value in FORMATS and renders(value, self.holds) else super().convert(value, param, ctx)


def output_options(default: str, *holds: str, kept: bool = False, careful: bool = False) -> Callable[..., Any]:
    """-f FORMAT and -o FORMAT=PATH, both for whatever can be said of the command's documents, which hold some things ("total", ...).

    kept: whether an output outlives an error of the command, as a copy of what may be lost; else the error replaces it, as what it says
    may hold no longer. careful: whether the command says by `keep` what no output may replace; an error before that replaces no file that
    may be data.
    """
    formats = DocumentFormat(holds, kept, careful)
    return composed(
        click.option("-f", "--format", "format_", type=formats, default=default, show_default=True, help="What to print."),
        click.option(
            "-o",
            "--output",
            "outputs",
            multiple=True,
            metavar="FORMAT=PATH",
            callback=lambda _, __, given: _checked(given, formats),
            help="Also write FORMAT to PATH; repeatable. PATH alone where its ending says the format (x.html).",
        ),
        lambda function: reported(function, kept, careful),
    )


def _checked(given: tuple[str, ...], formats: DocumentFormat) -> tuple[str, ...]:
    """Each as FORMAT=PATH, before anything is computed. Raises InputError for a format that -f would refuse, or one path twice."""
    result = tuple(named_output(output, formats) for output in given)
    paths = [output.partition("=")[2] for output in result]
    if "-" in paths:
        raise InputError(f"--output: {NO_DASH}")
    each_once(paths)
    return result


def each_once(paths: Sequence[str]) -> None:
    """Raise InputError where two outputs are one file, however it is spelled; a device takes any number of them."""
    places = [os.path.realpath(path) for path in paths]
    for path, place in zip(paths, places, strict=True):
        if places.count(place) > 1 and (os.path.isfile(place) or not os.path.exists(place)):
            raise InputError(f"--output: expected each path once, found {path!r} twice")


def named_output(output: str, formats: DocumentFormat) -> str:
    """Return an output as FORMAT=PATH, by its ending if it is a path alone. Raises InputError for a format that the command does not
    offer."""
    name, equals, path = output.partition("=")
    from dpcli.document.formats.facts import meant_by, renders

    if path and name in FORMATS and renders(name, formats.holds):
        return output
    if formats.pictured:
        from dpcli.cli.outputs import pictured

        if picture := pictured(output):
            return picture
    if not equals and (meant := meant_by(output, formats.choices)):
        return f"{meant}={output}"
    ending = os.path.splitext(output)[1]
    why = f", whose ending {ending} names no format" if ending and not equals else ""
    raise InputError(f"--output: expected FORMAT=PATH with a format among {', '.join(formats.choices)}, found {output!r}{why}")


def reported(function: Callable[..., int], kept: bool, careful: bool = False) -> Callable[..., int]:
    """The command; where it ends by an error, the reports asked for hold that error: none is missing, empty or of an earlier pass."""

    @wraps(function)
    def run(*args: Any, format_: str, outputs: tuple[str, ...], **given: Any) -> int:
        try:
            _require_no_inputs(outputs)
            _require_kept(outputs, given.get("write"), given.get("group_size", 1))
            return function(*args, format_=format_, outputs=outputs, **given)
        except (click.exceptions.Exit, BrokenPipeError):
            raise
        except (Exception, KeyboardInterrupt) as error:
            lacking = unavailable(error)
            (lacking or error).add_note(REPORTED)
            from dpcli.cli.outputs import keeps

            tell(lacking or error, _invocation(), format_, outputs, kept, careful=careful and not keeps())
            if lacking is not None:
                raise lacking from error
            raise

    return run


def _require_no_inputs(outputs: Sequence[str]) -> None:
    """Refuse outputs as `write` does, before anything is computed."""
    for _, path in map(_split, outputs):
        from dpcli.cli.outputs import inputs, require_free, require_no_input

        require_no_input(path, inputs())
        require_free(path)


def _require_kept(outputs: Sequence[str], write: str | None, group_size: int) -> None:
    """Raise InputError where the file of --write would be an output too, or would not say what was asked."""
    if write is None:
        return
    each_once([write, *(path for _, path in map(_split, outputs))])
    if group_size != 1:
        raise InputError(
            f"--group-size: expected no such flag with --write, found {group_size}: a file says what one unit costs; "
            f"dpcli account {write} --group-size {group_size} asks of several"
        )


def tell(
    error: BaseException,
    invocation: tuple[str, str],
    format_: str,
    outputs: Sequence[str],
    kept: bool,
    inputs: Sequence[str] | None = None,
    careful: bool = False,
) -> None:
    """Leave an error in each of the reports asked for, as FORMAT=PATH, and in what is printed where CI systems judge that.

    kept: whether what only people and programs read stays as it is. inputs: as of `write`. careful: whether a file stays that may be
    data, as nobody has told yet which are. Of two reports for one file, the first is left.
    """
    from dpcli.cli.outputs import may_be_data
    from dpcli.document.formats.facts import appended, judges

    document, places = _stopped(error, *invocation), set()
    for name, path in map(_split, outputs):
        if name not in FORMATS:  # a picture, which has no words for an error
            continue
        stays = kept or (careful and may_be_data(path))
        if (judges(name) or not stays) and (place := os.path.realpath(path)) not in places:
            places.add(place)
            with suppress(DpcliError):  # the first error is the one to be told
                write(path, _error_text(document, name), appended(name), inputs)
    if judges(format_):
        show(_render(document, format_, None))


def _stopped(error: BaseException, words: str, path: str) -> Document:
    from dpcli.document.document import stopped
    from dpcli.file.toml.findings import InvalidFile
    from dpcli.lint.documents.diagnostics import finding

    interrupted = isinstance(error, KeyboardInterrupt | click.Abort)
    known = 130 if interrupted else 2 if isinstance(error, OSError) else 70  # as main ends
    code = error.exit_code if isinstance(error, DpcliError | click.ClickException) else known
    message = "interrupted" if interrupted else error.message if isinstance(error, click.ClickException) else str(error)
    places = tuple(map(finding, error.diagnostics)) if isinstance(error, InvalidFile) else ()
    return stopped(words, path, message or type(error).__name__, code, places)


def _error_text(document: Document, name: str) -> str:
    """An error in a format; in plain words where the format has none for it."""
    try:
        return _render(document, name, None)
    except InputError:
        return f"{document.headline}\n"


def _invocation() -> tuple[str, str]:
    """The command, as it is typed, and the first file that it was given."""
    context = click.get_current_context()
    files = context.params.get("files") or (context.params.get("file") or context.params.get("ledger") or "",)
    return context.command_path, str(files[0])


def adjacency_option(what: str) -> Callable[..., Any]:
    """--adjacency. what: completes its help."""
    return click.option(
        "--adjacency", type=click.Choice(["add-remove", "replace-one", "zero-out"]), help=f"Neighbouring relation {what}."
    )


dataset_size_option = click.option("--dataset-size", type=int, help="Number of records, declared public.")


# How often a mechanism runs, on samples of what.
run_options = composed(
    click.option("--sampling-rate", type=float, help="Chance that a record is in one step's batch  [default: 1]."),
    click.option("--batch-size", type=int, help="Records in a batch, on average; with --dataset-size."),
    dataset_size_option,
    click.option(
        "--steps",
        type=int,
        help="Number of steps (without FILE); 1 where absent, required with --sampling-rate or --batch-size.",
    ),
    click.option("--epochs", type=float, help="Passes over the data, in place of --steps."),
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
        help=f"Use only this one; repeatable: {', '.join(ACCOUNTANTS)}; or {ALL}, also those that a certified interval makes needless.",
    ),
    click.option("--delta", type=float, help="Report at this delta instead of the file's."),
    click.option("--group-size", type=int, default=1, show_default=True, help="Units of privacy that change together."),
)


def refuse(other: str, **given: object) -> None:
    """A usage error where a flag is given beside something that makes it meaningless."""
    for name, value in given.items():
        if value is not None:
            raise InputError(f"--{name.replace('_', '-')} cannot be combined with {other}")


@contextmanager
def working() -> Iterator[None]:
    """Print one line to a terminal's standard error after a second: a grid can take a while, and may be interrupted."""
    settings: Settings = click.get_current_context().obj
    if settings.quiet or not sys.stderr.isatty():
        yield
        return
    import threading

    notice = threading.Timer(
        1.0, click.echo, ("dpcli: still composing (Ctrl-C stops; nothing is written before the end)",), {"err": True}
    )
    notice.daemon = True
    notice.start()
    try:
        yield
    finally:
        notice.cancel()


def emit(document: Document, format_: str, outputs: tuple[str, ...]) -> int:
    """Print a document, write the other formats asked for, and return its exit code (which no format changes).

    Alerts, and why it is not 0, go to standard error. Raises InputError where a report to be judged would hold nothing that was checked.
    """
    from dpcli.document.document import judged, reason
    from dpcli.document.formats.facts import appended, judges

    settings: Settings = click.get_current_context().obj
    why = reason(document) if document.exit_code else ""
    writes = [_split(output) for output in outputs]
    if any(judges(name) for name in (format_, *(name for name, _ in writes))):
        document = judged(document, *_invocation())
    texts = [(path, _pieces(document, name, None), appended(name)) for name, path in writes]
    shown = _pieces(replace(document, notes=()) if settings.quiet else document, format_, settings)
    for path, text, after in texts:
        write_each(path, text, after)
    show_each(shown)
    for line in document.alerts:
        complain(line)
    if why:
        complain(why)
    return document.exit_code


def write(path: str, text: str | bytes, append: bool = False, inputs: Sequence[str] | None = None) -> None:
    """Write a file in one piece; else as `write_each`."""
    write_each(path, (text.encode() if isinstance(text, str) else text,), append, inputs)


def write_each(path: str, pieces: Iterable[str | bytes], append: bool = False, inputs: Sequence[str] | None = None) -> None:
    """Write a file, after what it holds where `append`, or say in one line why not.

    inputs: texts that may name files which must stay as they are; those that the command was given where there are none.
    """
    from dpcli.cli import outputs as protected

    if path == "-":
        raise InputError(NO_DASH)
    protected.require_no_input(path, protected.inputs() if inputs is None else inputs)
    protected.require_free(path)
    try:
        with open(path, "ab" if append else "wb") as file:
            for piece in pieces:
                file.write(piece.encode() if isinstance(piece, str) else piece)
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}") from None


def _split(output: str) -> tuple[str, str]:
    name, _, path = output.partition("=")
    return name, path


def _pieces(document: Document, name: str, settings: Settings | None) -> Iterable[str]:
    """The text, before anything of it is written; of a long document in pieces as they are read."""
    from dpcli.document.formats.facts import streams

    stream = streams(name) if document.long else None
    return (_render(document, name, settings),) if stream is None else stream(document, **_layout(name, settings))


def _render(document: Document, name: str, settings: Settings | None) -> str:
    render: Callable[..., str] = load(FORMATS[name])
    return render(document, **_layout(name, settings))


def _layout(name: str, settings: Settings | None) -> dict[str, Any]:
    from dpcli.document.formats.facts import for_screen

    if not for_screen(name):
        return {}
    color = settings is not None and wants_color(settings.color)
    fixed = not sys.stdout.isatty() and not os.environ.get("COLUMNS")
    return {"width": 110 if fixed else max(40, _screen()), "color": color}


def _screen() -> int:
    """Columns of the screen."""
    import shutil  # with the compressions that it knows, too much for whoever writes to a file

    return shutil.get_terminal_size((110, 24)).columns


def wants_color(choice: str) -> bool:
    """--color, then NO_COLOR, FORCE_COLOR, TERM=dumb, then whether standard output is a terminal."""
    if choice != "auto":
        return choice == "always"
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"

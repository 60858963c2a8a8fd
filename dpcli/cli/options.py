"""Options that several commands share, and how a document leaves the process."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from dpcli.errors import InputError
from dpcli.registry import ACCOUNTANTS, FORMATS, load

if TYPE_CHECKING:
    from dpcli.report.document import Document


APPENDED = frozenset({"summary"})  # formats of files that several steps of a job write to


@dataclass(frozen=True, slots=True)
class Settings:
    """The global options."""

    quiet: bool
    verbose: int
    color: str


def composed(*options: Callable[..., Any]) -> Callable[..., Any]:
    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


def output_options(*formats: str) -> Callable[..., Any]:
    """-f FORMAT and -o FORMAT=PATH, for the formats that a command has."""
    return composed(
        click.option(
            "-f", "--format", "format_", type=click.Choice(formats), default=formats[0], show_default=True, help="What to print."
        ),
        click.option(
            "-o", "--output", "outputs", multiple=True, metavar="FORMAT=PATH", help="Also write FORMAT to PATH; repeatable."
        ),
    )


accounting_options = composed(
    click.option(
        "-a",
        "--accountant",
        "accountants",
        multiple=True,
        metavar="NAME",
        help=f"Use only this one; repeatable: {', '.join(ACCOUNTANTS)}.",
    ),
    click.option("--delta", type=float, help="Report at this delta instead of the file's."),
    click.option("--group-size", type=int, default=1, show_default=True, help="Units of privacy that change together."),
)


def refuse(beside: str, **given: object) -> None:
    """A usage error where a flag is given beside something that makes it meaningless."""
    for name, value in given.items():
        if value is not None:
            raise InputError(f"--{name.replace('_', '-')}: expected no such flag beside {beside}, found {value}")


@contextmanager
def working() -> Iterator[None]:
    """One line on standard error after a second, where that is a terminal: a grid can take a while, and may be interrupted."""
    settings: Settings = click.get_current_context().obj
    if settings.quiet or not sys.stderr.isatty():
        yield
        return
    import threading

    said = threading.Timer(
        1.0, click.echo, ("dpcli: still composing (Ctrl-C stops; nothing is written before the end)",), {"err": True}
    )
    said.daemon = True
    said.start()
    try:
        yield
    finally:
        said.cancel()


def emit(document: Document, format_: str, outputs: tuple[str, ...]) -> int:
    """Print a document, write the other formats asked for, and return its exit code (which no format changes)."""
    writes = [_split(output) for output in outputs]
    texts = [(path, _render(document, name, None), name in APPENDED) for name, path in writes]
    settings: Settings = click.get_current_context().obj
    shown = _render(replace(document, notes=()) if settings.quiet else document, format_, settings)
    for path, text, appended in texts:
        write(path, text, appended)
    click.echo(shown, nl=False, color=True)
    return document.exit_code


def write(path: str, text: str | bytes, append: bool = False) -> None:
    """Write a file in one piece, after what it holds where `append`, or say in one line why not."""
    given = click.get_current_context().params
    inputs = [given.get("file"), *(given.get("files") or ())]
    if os.path.exists(path) and any(source and os.path.exists(source) and os.path.samefile(path, source) for source in inputs):
        raise InputError(f"{path}: expected another path for the output, found the input file")
    try:
        with open(path, "ab" if append else "wb") as file:
            file.write(text.encode() if isinstance(text, str) else text)
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}") from None


def _split(output: str) -> tuple[str, str]:
    name, equals, path = output.partition("=")
    if not equals or not path or name not in FORMATS:
        raise InputError(f"--output: expected FORMAT=PATH with a format among {', '.join(FORMATS)}, found {output!r}")
    return name, path


def _render(document: Document, name: str, settings: Settings | None) -> str:
    render: Callable[..., str] = load(FORMATS[name])
    if name != "table":
        return render(document)
    color = settings is not None and wants_color(settings.color)
    fixed = not sys.stdout.isatty() and not os.environ.get("COLUMNS")
    return render(document, width=110 if fixed else max(40, shutil.get_terminal_size((110, 24)).columns), color=color)


def wants_color(choice: str) -> bool:
    """--color, then NO_COLOR, FORCE_COLOR, TERM=dumb, then whether standard output is a terminal."""
    if choice != "auto":
        return choice == "always"
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"

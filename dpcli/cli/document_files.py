"""Documents as text and in files: how a document is rendered in a format, and how an output file is written (`write_each`).

A *document* is the result of a command before a format such as json or table renders it (dpcli/document). The options -f and -o choose the
formats, and `emit` in options.py calls this file for both. An *output* is one -o, FORMAT=PATH. It may replace an older file, but never an
input, a file that the command protects or a database: outputs.py checks this first. Files that must not exist before are written by
new_files.py.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from dpcli.base.errors import InputError
from dpcli.base.lazy import load
from dpcli.base.registry import FORMATS

if TYPE_CHECKING:
    from dpcli.cli.printing import Settings
    from dpcli.document.document import Document

# Width of a text if the output is not a terminal, and the smallest width, in characters; arbitrary.
DEFAULT_WIDTH, SMALLEST_WIDTH = 110, 40
DASH_REFUSAL = "expected FORMAT=PATH, found -: standard output has the format of -f (write ./- for a file of this name)"


def write(path: str, text: str | bytes, append: bool = False, inputs: Sequence[str] | None = None) -> None:
    """Write a text, as UTF-8, or bytes to a file. The other parameters and errors are those of `write_each`."""
    write_each(path, (text.encode() if isinstance(text, str) else text,), append, inputs)


def write_each(path: str, pieces: Iterable[str | bytes], append: bool = False, inputs: Sequence[str] | None = None) -> None:
    """Write pieces to a file.

    Args:
        pieces: The content. Texts are written as UTF-8.
        append: Whether to add the content to the end of the file, as the format `summary` asks, instead of replacing the file.
        inputs: Texts that may name input files, which must not be replaced; None for the arguments of the running command.

    Raises:
        InputError: The path is "-"; the file cannot be written; or it is an input, a protected file or an SQLite database.
    """
    from dpcli.cli.outputs import possible_inputs, require_no_input, require_unprotected

    if path == "-":
        raise InputError(DASH_REFUSAL)
    require_no_input(path, possible_inputs() if inputs is None else inputs)
    require_unprotected(path)
    try:
        with open(path, "ab" if append else "wb") as file:
            for piece in pieces:
                file.write(piece.encode() if isinstance(piece, str) else piece)
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}") from None


class Output(NamedTuple):
    """A file that -o asks for: its format, and its path."""

    format: str
    path: str


def split_output(output: str) -> Output:
    """Return an output FORMAT=PATH in its parts: `"json=a=b.json" -> ("json", "a=b.json")`."""
    name, _, path = output.partition("=")
    return Output(name, path)


def pieces_of(document: Document, name: str, settings: Settings | None) -> Iterable[str]:
    """Return the text of a document in a format, in pieces that are rendered while they are written if the document is long.

    A short document, or a format that cannot be streamed, gives one piece.
    """
    from dpcli.document.formats.facts import stream_function

    stream = stream_function(name) if document.long else None
    if stream is None:
        return (render(document, name, settings),)
    return stream(document, **_layout(name, settings))


def render(document: Document, name: str, settings: Settings | None) -> str:
    """Return the document in a format as text. `settings` are the global options; None for a file, which has no color."""
    renderer: Callable[..., str] = load(FORMATS[name])
    return renderer(document, **_layout(name, settings))


def _layout(name: str, settings: Settings | None) -> dict[str, Any]:
    """Return the arguments `width` (in characters) and `color` of a format that is shown on a screen; no arguments for other formats."""
    from dpcli.document.formats.facts import is_for_screen

    if not is_for_screen(name):
        return {}
    color = settings is not None and wants_color(settings.color)
    if not sys.stdout.isatty() and not os.environ.get("COLUMNS"):
        return {"width": DEFAULT_WIDTH, "color": color}
    import shutil  # slow to import, and not needed to write files

    columns = shutil.get_terminal_size(fallback=(DEFAULT_WIDTH, 24)).columns
    return {"width": max(SMALLEST_WIDTH, columns), "color": color}


def wants_color(choice: str) -> bool:
    """Return whether to use color, given the value of --color.

    If it is "auto", the first of these decides: NO_COLOR, FORCE_COLOR, and whether standard output is a terminal with colors.
    """
    if choice != "auto":
        return choice == "always"
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"

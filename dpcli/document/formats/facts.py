"""The properties of document formats, such as json or junit.

Commands ask here which formats they can offer, and which one a path selects. A *document* is the result of a command (document.py); a
*field* is one of its parts, such as `findings`. The module of each format has a function `render`, which returns the text of a document. It
also states these constants:

REQUIRED_FIELDS: fields that the documents of a command must have, so that the format has something to show; none if not stated.
COMPLETE_FIELDS: fields from which the format leaves nothing out; "failures" are the failed checks.
CI_READS_VERDICT: whether CI systems read the report as a verdict, so that an empty report would look like a pass.
PATH_ENDINGS: endings of paths, in lower case, that select the format if the user names none; no ending if not stated.
TAKES_WIDTH_AND_COLOR: whether `render` takes the width of the screen and a switch for colours; false if not stated.
IS_APPENDED: whether the text is appended to a file that may exist; false if not stated.

A module may also have a function `stream`, which yields the text of `render` in pieces. The functions below look these up by the name of a
format.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from importlib import import_module
from types import ModuleType

from dpcli.base.registry import FORMATS


def renders(name: str, fields: Collection[str]) -> bool:
    """Return whether a format can show documents that have these fields."""
    return set(getattr(_module(name), "REQUIRED_FIELDS", ())) <= set(fields)


def renderable(fields: Collection[str]) -> tuple[str, ...]:
    """Return the formats that can show documents with these fields, in the order of registration."""
    return tuple(name for name in FORMATS if renders(name, fields))


def ci_reads_verdict(name: str) -> bool:
    """Return whether CI systems would read an empty report in this format as a pass. An error is then written into it as a failure."""
    return bool(_module(name).CI_READS_VERDICT)


def format_of_path(path: str, names: Sequence[str]) -> str | None:
    """Return the first format among `names` that the ending of a path selects, in any case; None if it selects none."""
    for name in names:
        if path.lower().endswith(getattr(_module(name), "PATH_ENDINGS", ())):
            return name
    return None


def shows(name: str) -> tuple[str, ...]:
    """Return the fields of a document that a format shows completely."""
    return tuple(_module(name).COMPLETE_FIELDS)


def is_for_screen(name: str) -> bool:
    """Return whether the `render` of a format takes a width and a switch for colours."""
    return bool(getattr(_module(name), "TAKES_WIDTH_AND_COLOR", False))


def stream_function(name: str) -> Callable[..., Iterator[str]] | None:
    """Return the function that yields the text of a format in pieces; None if the format has no such function."""
    result: Callable[..., Iterator[str]] | None = getattr(_module(name), "stream", None)
    return result


def is_appended(name: str) -> bool:
    """Return whether the text of a format is appended to its file, and does not replace the content."""
    return bool(getattr(_module(name), "IS_APPENDED", False))


def _module(name: str) -> ModuleType:
    """Return the module of a format, which FORMATS names in front of the colon."""
    return import_module(FORMATS[name].partition(":")[0])

"""The properties of document formats. The module of each format states them as constants next to its function `render`.

NEEDS: fields that a document must have for this format.
SHOWS: fields that the format shows completely; "failures" are failed checks.
JUDGES: whether CI systems read a verdict from the format.
ENDINGS: endings of paths that select the format.
SCREEN: whether `render` takes a width and a switch for colours; by default false.
APPENDED: whether the text is appended to a file; by default false.

A module may also have a function `stream`, which yields the text of `render` in pieces.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from importlib import import_module
from types import ModuleType
from typing import Any

from dpcli.base.registry import FORMATS


def renders(name: str, fields: Collection[str]) -> bool:
    """Return whether a format can show documents that have these fields."""
    return set(_stated(name, "NEEDS")) <= set(fields)


def renderable(fields: Collection[str]) -> tuple[str, ...]:
    """Return the formats that can show documents with these fields, in the order of registration."""
    return tuple(name for name in FORMATS if renders(name, fields))


def judges(name: str) -> bool:
    """Return whether CI systems would read an empty report in this format as a pass."""
    return bool(_stated(name, "JUDGES"))


def format_of_path(path: str, names: Sequence[str]) -> str | None:
    """Return the format among `names` that the ending of a path selects; None if it selects none."""
    for name in names:
        if path.lower().endswith(tuple(_stated(name, "ENDINGS"))):
            return name
    return None


def shows(name: str) -> tuple[str, ...]:
    """Return the fields of a document that a format shows completely."""
    result: tuple[str, ...] = _stated(name, "SHOWS")
    return result


def for_screen(name: str) -> bool:
    """Return whether the `render` of a format takes a width and a switch for colours."""
    return bool(getattr(_module(name), "SCREEN", False))


def streams(name: str) -> Callable[..., Iterator[str]] | None:
    """Return the function that yields the text of a format in pieces; None if the format has no such function."""
    result: Callable[..., Iterator[str]] | None = getattr(_module(name), "stream", None)
    return result


def appended(name: str) -> bool:
    """Return whether the text of a format is appended to a file."""
    return bool(getattr(_module(name), "APPENDED", False))


def _stated(name: str, what: str) -> Any:
    return getattr(_module(name), what)


def _module(name: str) -> ModuleType:
    return import_module(FORMATS[name].partition(":")[0])

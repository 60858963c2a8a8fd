"""Facts that each format states next to its `render`.

NEEDS: what a document must hold (names of its fields) for the format to say anything of it. SHOWS: those of which it leaves nothing out;
"failures" are the checks that failed. JUDGES: CI systems read a verdict from it. ENDINGS: of paths that mean it. SCREEN: it is laid out
for a screen, with a width and colours. APPENDED: several steps of a job write to one file of it. The last two only where they are so.
Beside `render` it may have `stream`, whose pieces make up the same text.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from importlib import import_module
from types import ModuleType
from typing import Any

from dpcli.base.registry import FORMATS


def renders(name: str, holds: Collection[str]) -> bool:
    """Return whether a format can show documents that hold these fields."""
    return set(_stated(name, "NEEDS")) <= set(holds)


def renderable(holds: Collection[str]) -> tuple[str, ...]:
    """The formats of documents that hold that, as they are registered."""
    return tuple(name for name in FORMATS if renders(name, holds))


def judges(name: str) -> bool:
    """Return whether an empty report in this format would be read as a pass."""
    return bool(_stated(name, "JUDGES"))


def meant_by(path: str, names: Sequence[str]) -> str | None:
    """The one of some formats that a path's ending means; None where it means none of them."""
    endings = {ending: name for name in names for ending in _stated(name, "ENDINGS")}
    return next((name for ending, name in endings.items() if path.lower().endswith(ending)), None)


def shows(name: str) -> tuple[str, ...]:
    """The fields of a document of which it leaves nothing out."""
    result: tuple[str, ...] = _stated(name, "SHOWS")
    return result


def for_screen(name: str) -> bool:
    """Return whether its `render` takes a width and a switch for colours."""
    return bool(getattr(_module(name), "SCREEN", False))


def streams(name: str) -> Callable[..., Iterator[str]] | None:
    """Return the function that yields its text in pieces, for documents too long to hold; None if it needs the whole."""
    result: Callable[..., Iterator[str]] | None = getattr(_module(name), "stream", None)
    return result


def appended(name: str) -> bool:
    """Return whether its text is appended to a file."""
    return bool(getattr(_module(name), "APPENDED", False))


def _stated(name: str, what: str) -> Any:
    return getattr(_module(name), what)


def _module(name: str) -> ModuleType:
    return import_module(FORMATS[name].partition(":")[0])

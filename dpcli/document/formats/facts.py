"""The facts that the module of each format states beside its `render`, and the format that the ending of a path means.

NEEDS: fields that a document must have. SHOWS: fields of which the format leaves nothing out; "failures" are failed checks. JUDGES: whether
CI systems read a verdict from it. ENDINGS: of paths. SCREEN: whether `render` takes a width and colours. APPENDED: whether its text is
appended to a file. The last two are stated only where true. `stream`, where there is one, yields the text of `render` in pieces.
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
    """Return the formats that can show documents with these fields, in the order of registration."""
    return tuple(name for name in FORMATS if renders(name, holds))


def judges(name: str) -> bool:
    """Return whether an empty report in this format would be read as a pass."""
    return bool(_stated(name, "JUDGES"))


def meant_by(path: str, names: Sequence[str]) -> str | None:
    """Return the format, among these, that a path's ending means; None where it means none."""
    endings = {ending: name for name in names for ending in _stated(name, "ENDINGS")}
    return next((name for ending, name in endings.items() if path.lower().endswith(ending)), None)


def shows(name: str) -> tuple[str, ...]:
    """Return the fields of a document of which a format leaves nothing out."""
    result: tuple[str, ...] = _stated(name, "SHOWS")
    return result


def for_screen(name: str) -> bool:
    """Return whether its `render` takes a width and a switch for colours."""
    return bool(getattr(_module(name), "SCREEN", False))


def streams(name: str) -> Callable[..., Iterator[str]] | None:
    """Return the function that yields a format's text in pieces, None where there is none."""
    result: Callable[..., Iterator[str]] | None = getattr(_module(name), "stream", None)
    return result


def appended(name: str) -> bool:
    """Return whether its text is appended to a file."""
    return bool(getattr(_module(name), "APPENDED", False))


def _stated(name: str, what: str) -> Any:
    return getattr(_module(name), what)


def _module(name: str) -> ModuleType:
    return import_module(FORMATS[name].partition(":")[0])

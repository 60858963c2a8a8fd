"""What a format states about itself, beside its `render`.

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
    """Whether it can say anything of documents that hold that."""
    return set(_stated(name, "NEEDS")) <= set(holds)


def renderable(holds: Collection[str]) -> tuple[str, ...]:
    """The formats of documents that hold that, as they are registered."""
    return tuple(name for name in FORMATS if renders(name, holds))


def judges(name: str) -> bool:
    """Whether an empty report in this format would be read as a pass."""
    return bool(_stated(name, "JUDGES"))


def meant_by(path: str, names: Sequence[str]) -> str | None:
    """The one of some formats that a path's ending means; None where it means none of them."""
    endings = {ending: name for name in names for ending in _stated(name, "ENDINGS")}
    return next((name for ending, name in endings.items() if path.lower().endswith(ending)), None)


def shows(name: str) -> tuple[str, ...]:
    """The fields of a document of which it leaves nothing out."""
    found: tuple[str, ...] = _stated(name, "SHOWS")
    return found


def for_screen(name: str) -> bool:
    """Whether its `render` takes a width and whether there are colours."""
    return bool(getattr(_module(name), "SCREEN", False))


def streams(name: str) -> Callable[..., Iterator[str]] | None:
    """What gives its text in pieces, for documents that are too long to hold; None where it needs the whole."""
    found: Callable[..., Iterator[str]] | None = getattr(_module(name), "stream", None)
    return found


def appended(name: str) -> bool:
    """Whether it goes after what a file holds."""
    return bool(getattr(_module(name), "APPENDED", False))


def _stated(name: str, what: str) -> Any:
    return getattr(_module(name), what)


def _module(name: str) -> ModuleType:
    return import_module(FORMATS[name].partition(":")[0])

"""A TOML document with another name for one key, and everything else (comments, order, spacing) as it was."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import accumulate
from typing import Any

from dpcli.errors import InputError
from dpcli.toml.findings import Path
from dpcli.toml.lexical import KEY_PART
from dpcli.toml.positions import locate
from dpcli.toml.shown import key_text
from dpcli.toml.syntax import NotToml, tables_of

PART = re.compile(KEY_PART)


def renamed(text: str, path: Path, name: str) -> str:
    """The document with the last part of this path called `name`, in every header of its tables where it is at the top.

    Args:
        text: a document that tomli has accepted, its line ends "\\n".
        name: a bare key.

    Raises:
        InputError: the key is not there, or is spelled where this does not look; or the name is there already. What is returned was read
            again: it says what the document said, but for this name.
    """
    wanted = _renamed(tables_of(text), path, name)
    if wanted is None:
        raise _absent(path)
    line, column = locate(text, [path])[path]
    start = [0, *accumulate(len(row) + 1 for row in text.split("\n"))][line - 1] + column - 1
    found = PART.match(text, start)
    spots = [(start, found.end())] if found else []
    if len(path) == 1:
        header = re.compile(rf"^[ \t]*\[\[?[ \t]*({re.escape(str(path[0]))})(?=[ \t]*[.\]])", re.MULTILINE)
        spots = sorted({*spots, *(one.span(1) for one in header.finditer(text))})
    for first, last in reversed(spots):
        text = text[:first] + name + text[last:]
    try:
        same = tables_of(text) == wanted
    except NotToml:
        same = False
    if not same:
        raise _absent(path)
    return text


def _renamed(tables: Any, path: Path, name: str) -> Mapping[str, Any] | None:
    """The tables with the other name, None where there is no such key or the name is taken."""
    table = tables
    for part in path[:-1]:
        if not (part in table if type(table) is dict else type(table) is list and type(part) is int and part < len(table)):
            return None
        table = table[part]
    if type(table) is not dict or path[-1] not in table or name in table:
        return None
    table[name] = table.pop(path[-1])
    return dict(tables)


def _absent(path: Path) -> InputError:
    return InputError(f"expected {key_text(path)} in the file, under a name that can be changed; found none")

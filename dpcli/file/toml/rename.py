"""A TOML document with other names for some keys, and everything else (comments, order, spacing) as it was."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import accumulate
from typing import Any

from dpcli.base.errors import InputError
from dpcli.file.toml.findings import Path
from dpcli.file.toml.lexical import KEY_PART
from dpcli.file.toml.positions import locate
from dpcli.file.toml.shown import key_text
from dpcli.file.toml.syntax import NotToml, tables_of

PART = re.compile(KEY_PART)


def renamed(text: str, names: Mapping[Path, str]) -> str:
    """The document with the last part of each path called as it says, in every header of its tables where it is at the top.

    Args:
        text: a document that tomli has accepted, its line ends "\\n".
        names: bare keys, by path.

    Raises:
        InputError: a key is not there, or is spelled where this does not look; or a name is there already. What is returned was read
            again: it says what the document said, but for these names.
    """
    wanted: Any = tables_of(text)
    for path in sorted(names, key=len, reverse=True):  # inner ones first: their tables have other names then
        if not _rename(wanted, path, names[path]):
            raise _absent(path)
    starts = [0, *accumulate(len(row) + 1 for row in text.split("\n"))]
    spots: dict[tuple[int, int], str] = {}
    for path, (line, column) in locate(text, names).items():
        found = PART.match(text, starts[line - 1] + column - 1)
        if found:
            spots[found.span()] = names[path]
        if len(path) == 1:
            header = re.compile(rf"^[ \t]*\[\[?[ \t]*({re.escape(str(path[0]))})(?=[ \t]*[.\]])", re.MULTILINE)
            spots.update((one.span(1), names[path]) for one in header.finditer(text))
    for first, last in sorted(spots, reverse=True):
        text = text[:first] + spots[first, last] + text[last:]
    try:
        same = tables_of(text) == wanted
    except NotToml:
        same = False
    if not same:
        raise _absent(next(iter(names)))
    return text


def _rename(tables: Any, path: Path, name: str) -> bool:
    """Give a key another name; False where there is no such key or the name is taken."""
    table = tables
    for part in path[:-1]:
        if not (part in table if type(table) is dict else type(table) is list and type(part) is int and part < len(table)):
            return False
        table = table[part]
    if type(table) is not dict or path[-1] not in table or name in table:
        return False
    table[name] = table.pop(path[-1])
    return True


def _absent(path: Path) -> InputError:
    return InputError(f"expected {key_text(path)} in the file, under a name that can be changed; found none")

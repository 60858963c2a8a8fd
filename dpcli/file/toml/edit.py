"""A TOML document with other values at some of its keys, and everything else (comments, order, spacing) as it was."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from itertools import accumulate
from typing import Any

from dpcli.base.errors import InputError
from dpcli.file.toml.findings import Path
from dpcli.file.toml.lexical import KEY_PART, STRING
from dpcli.file.toml.positions import locate
from dpcli.file.toml.shown import key_text
from dpcli.file.toml.syntax import NotToml, tables_of
from dpcli.file.toml.write import value_text

VALUE = re.compile(rf"({KEY_PART}(?:[ \t]*\.[ \t]*{KEY_PART})*[ \t]*=[ \t]*)({STRING}|[^\s,\]}}#\[{{]+)", re.DOTALL)


def edited(text: str, values: Mapping[Path, Any]) -> str:
    """The document with each of these keys at its new value; every key must be there, and hold a number or a string.

    Args:
        text: a document that tomli has accepted, its line ends "\\n".
        values: by path, with 0-based positions in lists.

    Raises:
        InputError: a key is not there. What is returned was read again: it says what the document said, but for these values.
    """
    wanted = tables_of(text)
    starts = [0, *accumulate(len(line) + 1 for line in text.split("\n"))]
    places = locate(text, values)
    found = text
    for path in sorted(values, key=lambda path: places[path], reverse=True):
        line, column = places[path]
        token = VALUE.match(text, starts[line - 1] + column - 1)
        if token is None or not _change(wanted, path, values[path]):
            raise _absent(path)
        found = found[: token.start(2)] + value_text(values[path]) + found[token.end(2) :]
    try:
        same = tables_of(found) == wanted
    except NotToml:
        same = False
    if not same:
        raise _absent(next(iter(values)))
    return found


def _change(tables: Any, path: Path, value: Any) -> bool:
    """Put the value at the path; False where the document has no such key."""
    for part in path[:-1]:
        if not (part in tables if type(tables) is dict else type(tables) is list and type(part) is int and part < len(tables)):
            return False
        tables = tables[part]
    if path[-1] not in tables:
        return False
    tables[path[-1]] = copy.deepcopy(value)
    return True


def _absent(path: Path) -> InputError:
    return InputError(f"--write: expected {key_text(path)} in the file, where the answer would go; found no such value")

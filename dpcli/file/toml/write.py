"""Writing TOML: tables as text, and edits of a document that keep its comments, order and spacing.

`toml_text` writes new documents. `edited` and `renamed` change values or names in the text of an existing one, by patterns and positions.
Patterns cannot be right for every document, so the result is parsed again and must contain exactly the old tables with the change;
otherwise the edit is refused and the user is told the key.
"""

from __future__ import annotations

import copy
import datetime
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import accumulate
from typing import Any

from dpcli.base.errors import InputError
from dpcli.file.toml.findings import Path
from dpcli.file.toml.positions import KEY_PART, PART, STRING, locate
from dpcli.file.toml.shown import BARE_KEY, key_text
from dpcli.file.toml.syntax import NotToml, tables_of

# Patterns of a pair `key = value` whose value can be replaced.
DOTTED_KEY = rf"{KEY_PART}(?:[ \t]*\.[ \t]*{KEY_PART})*"
WEIGHTED = r"\{[ \t]*[\w\"']+[ \t]*=[ \t]*\{[^{}\n]*\}[ \t]*\}"  # such as { calibrate = { weight = 2.0 } }, in place of a number
SCALAR = r"[^\s,\]}#\[{]+"
VALUE = re.compile(rf"{DOTTED_KEY}[ \t]*=[ \t]*(?P<value>{STRING}|{WEIGHTED}|{SCALAR})", re.DOTALL)


def toml_text(tables: Mapping[str, Any]) -> str:
    """Return tables as a TOML document. Values come first, then tables and arrays of tables. Inner tables are inline."""
    return "\n".join(_lines(tables)) + "\n"


def lines_with_comments(tables: Mapping[str, Any], comments: Mapping[str, str], column: int) -> Iterator[str]:
    """Yield the lines of the document, with a comment from `comments` on each key that has one. Comments begin at the given column."""
    for line in toml_text(tables).splitlines():
        comment = comments.get(line.partition(" = ")[0])
        yield f"{line:<{column}}  # {comment}" if comment else line


# Types are compared exactly in this file, because bool is a subclass of int, and datetime one of date.
def _lines(tables: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of the document. In TOML, a key after the header of a table would belong to that table, so values come first."""
    plain = {key: value for key, value in tables.items() if type(value) is not dict and not _is_array(value)}
    yield from _pairs(plain)
    for key, value in tables.items():
        for table in value if _is_array(value) else []:
            yield from ("", f"[[{_key(key)}]]", *_pairs(table))
        if type(value) is dict:
            yield from ("", f"[{_key(key)}]", *_pairs(value))


def _is_array(value: Any) -> bool:
    """Return whether a value is an array of tables, which is written as [[...]]."""
    return type(value) is list and bool(value) and all(type(item) is dict for item in value)


def _pairs(table: Mapping[str, Any]) -> Iterator[str]:
    """Yield `key = value` for each key of a table."""
    return (f"{_key(key)} = {value_text(value)}" for key, value in table.items())


def _key(key: str) -> str:
    return key if BARE_KEY.fullmatch(key) else _string(key)


def value_text(value: Any) -> str:
    """Return a value as TOML, on one line: `{"rate": 0.1} -> "{ rate = 0.1 }"`."""
    return _TEXTS[type(value)](value)


def _string(value: str) -> str:
    """Return a text in quotes. TOML knows the escapes of JSON, and also needs one for DEL, which JSON leaves as it is."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _list(values: Iterable[Any]) -> str:
    return "[" + ", ".join(map(value_text, values)) + "]"


_TEXTS: dict[type, Callable[[Any], str]] = {
    bool: lambda value: "true" if value else "false",
    int: str,
    float: repr,
    str: _string,
    datetime.date: datetime.date.isoformat,
    datetime.datetime: datetime.datetime.isoformat,
    datetime.time: datetime.time.isoformat,
    list: _list,
    tuple: _list,
    dict: lambda value: "{ " + ", ".join(_pairs(value)) + " }" if value else "{}",
}


def edited(text: str, values: Mapping[Path, Any]) -> str:
    """Return the document with new values for some keys. The result is parsed again: it must have the old tables with the new values only.

    Args:
        text: A document that tomli has accepted, with "\\n" as line ends.
        values: New values by path of the key, with 0-based positions in lists. The old values must be numbers, strings or tables of the
            form { calibrate = {...} }.

    Raises InputError if a key is absent, or its value cannot be replaced.
    """
    wanted_tables = tables_of(text)
    line_starts = _line_starts(text)
    places = locate(text, values)
    result = text
    for path in sorted(values, key=lambda path: places[path], reverse=True):  # from the end, so that the offsets stay valid
        line, column = places[path]
        pair = VALUE.match(text, line_starts[line - 1] + column - 1)
        if pair is None or not _change(wanted_tables, path, values[path]):
            raise _absent(path)
        result = result[: pair.start("value")] + value_text(values[path]) + result[pair.end("value") :]
    if not _contains_exactly(result, wanted_tables):
        raise _absent(next(iter(values)))  # one of the keys is at fault; the first one is named
    return result


def _line_starts(text: str) -> list[int]:
    """Return the offset at which each line begins."""
    return [0, *accumulate(len(line) + 1 for line in text.split("\n"))]


def _contains_exactly(text: str, tables: Any) -> bool:
    """Return whether the text is a TOML document with exactly these tables."""
    try:
        return bool(tables_of(text) == tables)
    except NotToml:
        return False


def _table_of(tables: Any, path: Path) -> Any:
    """Return the table or list that would hold the last part of the path; None if there is no such table or list."""
    for part in path[:-1]:
        is_in_table = type(tables) is dict and part in tables
        is_in_list = type(tables) is list and type(part) is int and part < len(tables)
        if not (is_in_table or is_in_list):
            return None
        tables = tables[part]
    return tables


def _change(tables: Any, path: Path, value: Any) -> bool:
    """Set the value at the path. Return False if the document has no such key."""
    table = _table_of(tables, path)
    if table is None or path[-1] not in table:
        return False
    table[path[-1]] = copy.deepcopy(value)
    return True


def _absent(path: Path) -> InputError:
    """Return the error of `edited`. Users see it with --write of `dpcli calibrate`; `dpcli lint --fix` drops the edit."""
    return InputError(
        f"--write: expected {key_text(path)} in the file, where the answer would go; found no value that can be replaced"
    )


def renamed(text: str, names: Mapping[Path, str]) -> str:
    """Return the document with new names for some keys. A top-level name is changed in the headers of all its tables.

    The result is parsed again: it must have the old tables with the new names only.

    Args:
        text: A document that tomli has accepted, with "\\n" as line ends.
        names: New names, which need no quotes, by path of the key under its old name.

    Raises InputError if a key is absent, a new name exists already, or a key is mentioned in a place that is not searched.
    """
    wanted_tables: Any = tables_of(text)
    for path in sorted(names, key=len, reverse=True):  # inner keys first, while the paths to their tables are still valid
        if not _rename(wanted_tables, path, names[path]):
            raise _not_renamable(path)
    new_names: dict[tuple[int, int], str] = {}  # by the first offset and the end of the old name
    line_starts = _line_starts(text)
    for path, (line, column) in locate(text, names).items():
        key = PART.match(text, line_starts[line - 1] + column - 1)
        if key:
            new_names[key.span()] = names[path]
        if len(path) == 1:
            header = re.compile(rf"^[ \t]*\[\[?[ \t]*({re.escape(str(path[0]))})(?=[ \t]*[.\]])", re.MULTILINE)
            new_names |= {match.span(1): names[path] for match in header.finditer(text)}
    for start, end in sorted(new_names, reverse=True):  # from the end, so that the offsets stay valid
        text = text[:start] + new_names[start, end] + text[end:]
    if not _contains_exactly(text, wanted_tables):
        raise _not_renamable(next(iter(names)))
    return text


def _rename(tables: Any, path: Path, name: str) -> bool:
    """Rename a key. Return False if there is no such key or the new name exists already."""
    table = _table_of(tables, path)
    if type(table) is not dict or path[-1] not in table or name in table:
        return False
    table[name] = table.pop(path[-1])
    return True


def _not_renamable(path: Path) -> InputError:
    return InputError(f"{key_text(path)} is not in the file under a name that can be changed")

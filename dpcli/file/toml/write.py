"""Tables as a TOML document: the file that one run of a sweep follows, and that dpcli train would take."""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def toml_text(tables: Mapping[str, Any]) -> str:
    """The document, keys in their order: values first, then tables, then arrays of tables; inner tables inline."""
    return "\n".join(_lines(tables)) + "\n"


def commented(tables: Mapping[str, Any], comments: Mapping[str, str], column: int) -> Iterator[str]:
    """The lines of the document, with a comment on each key that has one; column: where it begins."""
    for line in toml_text(tables).splitlines():
        comment = comments.get(line.partition(" = ")[0])
        yield f"{line:<{column}}  # {comment}" if comment else line


def _lines(tables: Mapping[str, Any]) -> Iterator[str]:
    plain = {key: value for key, value in tables.items() if type(value) is not dict and not _is_array(value)}
    yield from _pairs(plain)
    for key, value in tables.items():
        for table in value if _is_array(value) else []:
            yield from ("", f"[[{_key(key)}]]", *_pairs(table))
        if type(value) is dict:
            yield from ("", f"[{_key(key)}]", *_pairs(value))


def _is_array(value: Any) -> bool:
    return type(value) is list and bool(value) and all(type(item) is dict for item in value)


def _pairs(table: Mapping[str, Any]) -> Iterator[str]:
    return (f"{_key(key)} = {value_text(value)}" for key, value in table.items())


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else _string(key)


def value_text(value: Any) -> str:
    """One value as TOML, on one line."""
    return _TEXTS[type(value)](value)


def _string(value: str) -> str:
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


_TEXTS: dict[type, Callable[[Any], str]] = {
    bool: lambda value: "true" if value else "false",
    int: str,
    float: repr,
    str: _string,
    datetime.date: datetime.date.isoformat,
    datetime.datetime: datetime.datetime.isoformat,
    datetime.time: datetime.time.isoformat,
    list: lambda value: "[" + ", ".join(map(value_text, value)) + "]",
    dict: lambda value: "{ " + ", ".join(_pairs(value)) + " }" if value else "{}",
}

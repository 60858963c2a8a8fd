"""The keys of a table in words, from the dataclass that holds them: for `explain` and the manual page."""

from __future__ import annotations

import dataclasses
import datetime
import enum
from collections.abc import Iterator
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from dpcli.fields import Key, Note, Person, Prose


@dataclasses.dataclass(frozen=True, slots=True)
class KeyText:
    """One key: name, what it takes, what it means, and its default ("required" where it has none)."""

    name: str
    takes: str
    doc: str
    default: str


def keys_of(cls: type) -> Iterator[KeyText]:
    """Every documented key of a dataclass, in the order of its fields."""
    hints = get_type_hints(cls, include_extras=True)
    for item in dataclasses.fields(cls):
        if get_origin(hints[item.name]) is Annotated:
            kind, *extras = get_args(hints[item.name])
            key = next(extra for extra in extras if type(extra) is Key)
            yield KeyText(item.name, key.rule.text if key.rule else _kind(kind), key.doc, _default(item))


def describe_keys(cls: type) -> list[str]:
    """One line per key."""
    return [f"  {k.name} ({k.takes}; {k.default}): {k.doc}" for k in keys_of(cls)]


def _default(item: dataclasses.Field[Any]) -> str:
    if item.default is dataclasses.MISSING:
        return "required"
    if item.default in (None, ()) or dataclasses.is_dataclass(item.default):
        return "optional"  # a table that may be absent has the defaults of its keys
    return f"default {str(item.default).lower() if item.default in (True, False) else item.default}"


def _kind(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return " | ".join(map(str, get_args(kind)))
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return " | ".join(str(member.value) for member in kind)
    names = {
        float: "number",
        int: "whole number",
        str: "text",
        Prose: "text",
        Note: "text",
        Person: "text",
        bool: "true or false",
        datetime.date: "date",
    }
    if kind in names:
        return names[kind]
    if get_origin(kind) is tuple:
        return f"array of {_kind(get_args(kind)[0])}"
    options = [option for option in get_args(kind) if option is not type(None)]
    return " or ".join(_kind(option) for option in options) or "table"

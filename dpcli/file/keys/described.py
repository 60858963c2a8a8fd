"""The keys of a table in words: for `explain` and the manual page."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from dpcli.file.keys.member import Member, Members


@dataclasses.dataclass(frozen=True, slots=True)
class KeyText:
    """One key: name, what it takes, what it means, and its default ("required" where it has none)."""

    name: str
    takes: str
    doc: str
    default: str


def keys_of(members: Members) -> Iterator[KeyText]:
    """Every key of a table, in the order of its fields."""
    for member in members.values():
        takes = member.rule.text if member.rule else member.kind.takes
        yield KeyText(member.name, takes, member.doc, default_text(member))


def describe_keys(members: Members) -> list[str]:
    """One line per key."""
    return [f"  {k.name} ({k.takes}; {k.default}): {k.doc}" for k in keys_of(members)]


def default_text(member: Member) -> str:
    """Return the default as `default 0.8`, else whether the key is required."""
    value: Any = member.default
    if member.required:
        return "required"
    if value in (None, ()) or dataclasses.is_dataclass(value):
        return "optional"  # a table that may be absent has the defaults of its keys
    return f"default {str(value).lower() if value in (True, False) else value if value != '' else 'no text'}"

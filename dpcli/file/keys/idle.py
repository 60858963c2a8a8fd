"""Keys that another key of their table makes idle: whoever states one believes that it does something."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from dpcli.file.keys.annotations import members_of
from dpcli.file.toml.findings import Problem
from dpcli.file.toml.shown import shown


def idle(table: Any) -> Iterator[Problem]:
    """Each key of a table that is not at its default and that nothing reads, by what its field says of its reader.

    Edge cases: a stated value that is the default passes, as it says what holds anyway.
    """
    cls: type = type(table)
    for name, member in members_of(cls).items():
        value = getattr(table, name)
        if member.reader is not None and value != member.default and not member.reader.reads(table):
            yield (name,), f"no such key without {member.reader.text}, which alone reads it", _shown(value)


def _shown(value: Any) -> str:
    return "a table" if dataclasses.is_dataclass(value) else shown(list(value) if type(value) is tuple else value)

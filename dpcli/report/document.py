"""What a use case has to say, before any format: tables, sentences, findings and the machine form."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Level = Literal["error", "warning", "note"]


@dataclass(frozen=True, slots=True)
class Table:
    """Cells are text already rounded in the right direction. numeric: columns set flush right."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numeric: frozenset[int] = frozenset()
    footnotes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that a CI system should show at a place in a file."""

    path: str
    rule: str
    level: Level
    message: str
    line: int = 0
    column: int = 0
    title: str = ""


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that passed or failed, for junit."""

    name: str
    passed: bool
    message: str = ""


@dataclass(frozen=True, slots=True)
class Document:
    """Everything about one result.

    headline: the one sentence that answers the question; verdict: a word that colours it.
    total: the bare number, for scripts. data: the machine form (schema, version, unrounded numbers).
    """

    headline: str
    data: Mapping[str, Any]
    verdict: Literal["pass", "warn", "fail", "unknown", ""] = ""
    tables: tuple[Table, ...] = ()
    notes: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    checks: tuple[Check, ...] = ()
    total: str | None = None
    exit_code: int = 0
    records: Sequence[Mapping[str, Any]] = field(default=())


def jsonable(value: Any) -> Any:
    """The value with infinities as the strings "inf" and "-inf" and NaN as null, which JSON has no numbers for."""
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else ("inf" if value > 0 else "-inf")
    if isinstance(value, Mapping):
        return {str(key): jsonable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [jsonable(item) for item in value]
    return value


def visible(text: str) -> str:
    """Text from a file with control characters (ANSI escapes among them) shown as escapes."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)

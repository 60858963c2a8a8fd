"""Findings about the keys of a file, and diagnostics: findings at their place in the text, with source line and caret."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import field, replace
from typing import Any, Literal

from dpcli.base.errors import InputError
from dpcli.base.values import dataclass
from dpcli.file.toml.limits import escaped_path
from dpcli.file.toml.shown import public_length, without_passwords

Path = tuple[str | int, ...]
Problem = tuple[Path, str, str]  # key, expected, found
Advice = Callable[
    [str, Iterable[str]], tuple[str | None, str]
]  # (unknown key, known keys) -> (the key that was meant, advice in words)

MAX_FINDINGS = 100  # largest number of problems that are reported for one file


class TooMany(Exception):
    """The limit of MAX_FINDINGS is reached; the findings so far are reported."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A problem: the rule it breaks, its key, and its message in parts.

    Attributes:
        among: The words that are allowed.
    """

    rule: str
    key: Path
    expected: str
    actual: str
    hint: str = ""
    among: tuple[str, ...] = ()

    @property
    def message(self) -> str:
        return f"expected {self.expected}, found {without_passwords(self.actual)}" + (f"; {self.hint}" if self.hint else "")


@dataclass(slots=True)
class Findings:
    """A list that refuses to grow past `MAX_FINDINGS`: then it raises TooMany.

    Attributes:
        advice: What to do about an unknown key, if the file is of another format than the pipeline's.
    """

    items: list[Fault] = field(default_factory=list)
    more: bool = False
    advice: Advice | None = None

    def __len__(self) -> int:
        return len(self.items)

    def add(self, rule: str, key: Path, expected: str, text: str, hint: str = "", among: Iterable[str] = ()) -> None:
        if len(self.items) >= MAX_FINDINGS:
            self.more = True
            raise TooMany
        self.items.append(Fault(rule, key, expected, text, hint, tuple(among)))


Severity = Literal["error", "warning"]


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """A rule's finding about one key of one file.

    Attributes:
        rule: Its code in the failure catalogue (DP001...).
        key: Dotted path of the key, e.g. "mechanism[2].sampling.rate".
        line, column: 1-based; 0 if the finding has no place.
        source: The source line, as it stands, or "".
    """

    rule: str
    severity: Severity
    message: str
    path: str = "<file>"
    key: str = ""
    line: int = 0
    column: int = 0
    source: str = ""


WIDTH = 120  # characters of a source line that are shown
_INDENT = "    "


def render(diagnostic: Diagnostic) -> str:
    """Return `path:line:column: error DP004: key: message`, then the source line and a caret if the place is known."""
    place = escaped_path(diagnostic.path) + (f":{diagnostic.line}:{diagnostic.column}" if diagnostic.line else "")
    key = f"{diagnostic.key}: " if diagnostic.key else ""
    message = "".join(c if c == "\n" else _visible(c) for c in f"{key}{diagnostic.message}")  # may quote what others wrote
    head = f"{place}: {diagnostic.severity} {diagnostic.rule}: {message}"
    return "\n".join((head, *_excerpt(diagnostic.source, diagnostic.column)))


def render_all(diagnostics: Iterable[Diagnostic]) -> str:
    """Return all diagnostics as text; a message about several entries in one place is given once, with their number."""
    same: dict[Any, list[Diagnostic]] = {}
    for diagnostic in diagnostics:
        same.setdefault(
            (diagnostic.rule, diagnostic.severity, diagnostic.message, diagnostic.path, diagnostic.line, diagnostic.column), []
        ).append(diagnostic)
    return "\n".join(
        render(replace(one, key=f"{one.key} and {len(more):,} more") if more and one.key else one) for one, *more in same.values()
    )


def _excerpt(source: str, column: int) -> tuple[str, ...]:
    """Return the source line around the column, and the caret line; none for a blank line."""
    if column < 1 or not source.strip():
        return ()
    length = public_length(source)
    source = source[:length] + "*" * (len(source) - length)  # as long as it was: the caret stays in its place
    start = max(0, column - 1 - WIDTH // 2) if len(source) > WIDTH else 0
    cut = source[start : start + WIDTH]
    before, after = ("..." if start else ""), ("..." if start + WIDTH < len(source) else "")
    caret = " " * len(before) + "".join(map(_blank, cut[: column - 1 - start]))
    line = _INDENT + before + "".join(map(_visible, cut)) + after
    return line.rstrip(), f"{_INDENT}{caret}^"


def _visible(character: str) -> str:
    """Return the character, or its escape where a terminal would act on it or hide it."""
    if character == "\t" or character.isprintable():
        return character
    return f"\\u{ord(character):04x}" if ord(character) <= 0xFFFF else f"\\U{ord(character):08x}"


def _blank(character: str) -> str:
    """Return as many spaces as the character takes columns; a tab stays one, so that it stops where the line's does."""
    if character == "\t":
        return "\t"
    if not character.isprintable():
        return " " * len(_visible(character))
    if unicodedata.combining(character):
        return ""
    return "  " if unicodedata.east_asian_width(character) in "WF" else " "


class InvalidFile(InputError):
    """A file with at least one error; `str()` is every diagnostic, one after the other, with source line and caret."""

    def __init__(self, diagnostics: tuple[Diagnostic, ...]) -> None:
        self.diagnostics = diagnostics
        super().__init__(render_all(diagnostics))

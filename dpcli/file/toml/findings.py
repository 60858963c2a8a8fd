"""Errors and warnings about a file: how they are collected while the file is read, and how they are printed.

A check of a table yields each error as a `Problem`. The reader adds the code of the rule that is broken, such as DP004, and collects the
result as a `KeyFinding` in `Findings`. A `Diagnostic` is a finding, or a warning of a lint rule, with its line and column. `render` prints
it with the source line and a caret. dpcli/lint/catalogue.py explains the codes.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import field, replace
from typing import Literal, NamedTuple

from dpcli.base.errors import InputError
from dpcli.base.values import dataclass
from dpcli.file.toml.limits import escaped_path
from dpcli.file.toml.shown import public_length, without_passwords

Path = tuple[str | int, ...]  # path of a key, with 0-based positions in lists: ("mechanism", 0, "sampling", "rate")
Problem = tuple[Path, str, str]  # (path of the key within its table, text after "expected", text after "found")

MAX_FINDINGS = 100  # largest number of findings that are reported for one file; more would bury the first ones

Severity = Literal["error", "warning"]

WIDTH = 120  # largest number of characters of a source line that are shown, so that a long line does not fill the screen
_INDENT = "    "


class TooMany(Exception):
    """A finding was added to MAX_FINDINGS others. The reader stops, and reports those."""


class Advice(NamedTuple):
    """Advice about an unknown key.

    Attributes:
        meant: The known key that was probably meant; None if there is none, or if the advice is something else. The reader then does not
            report as well that this key is missing.
        words: The advice for the end of a message, such as "did you mean 'steps'"; "" if there is none.
    """

    meant: str | None
    words: str


@dataclass(frozen=True, slots=True)
class KeyFinding:
    """An error at a key of a file.

    Attributes:
        rule: Code of the rule that the key breaks, such as DP004.
        expected: Text of the message after "expected".
        actual: Text of the message after "found". The message hides the passwords of addresses in it.
        hint: Advice at the end of the message, or "".
        among: The allowed words, if `expected` is one of a list of words; else (). `dpcli lint --fix` chooses a correction from them.
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
    """A list of at most `MAX_FINDINGS` findings.

    Attributes:
        items: The findings, in the order in which they were added.
        more: True if a finding was refused because the list was full.
        advice: A function that gives advice about an unknown key, given the known ones. None for a pipeline file, whose reader has its own.
    """

    items: list[KeyFinding] = field(default_factory=list)
    more: bool = False
    advice: Callable[[str, Iterable[str]], Advice] | None = None

    def __len__(self) -> int:
        return len(self.items)

    def add(self, rule: str, key: Path, expected: str, actual: str, hint: str = "", among: Iterable[str] = ()) -> None:
        """Add a finding with these attributes. Raises TooMany if the list is full."""
        if len(self.items) >= MAX_FINDINGS:
            self.more = True
            raise TooMany
        self.items.append(KeyFinding(rule, key, expected, actual, hint, tuple(among)))


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """An error or a warning about a file, as it is printed.

    Attributes:
        rule: Code of the rule in the failure catalogue, such as DP001.
        key: Dotted path of the key, such as "mechanism[2].sampling.rate", or "".
        line, column: Place of the key in the file, counted from 1; 0 if it has no place.
        source: The unchanged source line, or "".
    """

    rule: str
    severity: Severity
    message: str
    path: str = "<file>"
    key: str = ""
    line: int = 0
    column: int = 0
    source: str = ""


def render(diagnostic: Diagnostic) -> str:
    """Return `path:line:column: error DP004: key: message`, then the source line and a caret if the place is known."""
    place = escaped_path(diagnostic.path) + (f":{diagnostic.line}:{diagnostic.column}" if diagnostic.line else "")
    key = f"{diagnostic.key}: " if diagnostic.key else ""
    # The message may quote text of the file, with any characters.
    message = "".join(c if c == "\n" else _visible(c) for c in f"{key}{diagnostic.message}")
    head = f"{place}: {diagnostic.severity} {diagnostic.rule}: {message}"
    return "\n".join((head, *_excerpt(diagnostic.source, diagnostic.column)))


def render_all(diagnostics: Iterable[Diagnostic]) -> str:
    """Return all diagnostics as text. A message that several keys in one place share is printed once, with their number.

    Keys share a place if they come from one line of the file: a value in [defaults], or a table with a list that makes several entries.
    """
    groups: dict[Diagnostic, list[Diagnostic]] = {}
    for diagnostic in diagnostics:
        groups.setdefault(replace(diagnostic, key="", source=""), []).append(diagnostic)
    texts = []
    for first, *others in groups.values():
        if others and first.key:
            first = replace(first, key=f"{first.key} and {len(others):,} more")
        texts.append(render(first))
    return "\n".join(texts)


def _excerpt(source: str, column: int) -> tuple[str, ...]:
    """Return the source line around the column, and the line with the caret; () if the line is blank or the column is unknown.

    The part of the line that `public_length` does not count, which may hold a password, is shown as asterisks.
    """
    if column < 1 or not source.strip():
        return ()
    length = public_length(source)
    source = source[:length] + "*" * (len(source) - length)  # the length stays, so that the caret stays in its place
    start = max(0, column - 1 - WIDTH // 2) if len(source) > WIDTH else 0  # the column is in the middle of a long line's excerpt
    excerpt = source[start : start + WIDTH]
    before, after = ("..." if start else ""), ("..." if start + WIDTH < len(source) else "")
    caret = " " * len(before) + "".join(map(_blank, excerpt[: column - 1 - start]))
    line = _INDENT + before + "".join(map(_visible, excerpt)) + after
    return line.rstrip(), f"{_INDENT}{caret}^"


def _visible(character: str) -> str:
    """Return the character, or an escape if a terminal would obey or hide it."""
    if character == "\t" or character.isprintable():
        return character
    return f"\\u{ord(character):04x}" if ord(character) <= 0xFFFF else f"\\U{ord(character):08x}"


def _blank(character: str) -> str:
    """Return spaces as wide as the character. A tab stays a tab, so that both lines have the same tab stops."""
    if character == "\t":
        return "\t"
    if not character.isprintable():
        return " " * len(_visible(character))
    if unicodedata.combining(character):
        return ""
    return "  " if unicodedata.east_asian_width(character) in "WF" else " "  # W and F, wide and fullwidth, take two columns


class InvalidFile(InputError):
    """A file with at least one error. The message contains every diagnostic, with source line and caret."""

    def __init__(self, diagnostics: tuple[Diagnostic, ...]) -> None:
        self.diagnostics = diagnostics
        super().__init__(render_all(diagnostics))

"""Positions of keys in the text of a TOML document, which the parser does not report.

Patterns repeat characters possessively, alternatives inside a repetition begin differently, and every string may end with the file, so
that no input, valid or not, takes more than linear time. (No possessive groups: CPython before 3.11.5 mismatches them.)
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress

import tomli

from dpcli.file.toml.findings import Path

STRING = (
    r'"""(?:[^"\\]++|\\.|"(?!""))*(?:"{3,5}|\Z)'
    r"|'''(?:[^']++|'(?!''))*(?:'{3,5}|\Z)"
    r'|"(?:[^"\\\n]++|\\[^\n])*"?'
    r"|'[^'\n]*+'?"
)
KEY_PART = r'(?:"(?:[^"\\\n]++|\\[^\n])*"|\'[^\'\n]*+\'|[A-Za-z0-9_-]++)'
COMMENT = r"#[^\n]*+"

BLANK = re.compile(rf"(?:[ \t\r\n]++|{COMMENT})*")
PART = re.compile(KEY_PART)
DOT = re.compile(r"[ \t]*+\.[ \t]*+")
TEXT = re.compile(STRING, re.DOTALL)
SCALAR = re.compile(r"[^,\]}\n#]++")
ESCAPE = re.compile(r"\\.", re.DOTALL)


def too_deep(text: str, limit: int) -> int | None:
    """Return the offset of the first bracket or dotted key nested deeper than `limit`, or None.

    Call it before tomli, which recurses without a limit, and is quadratic in the parts of one dotted key.
    """
    tokens = re.compile(rf"{STRING}|{COMMENT}|[\[\]{{}}]|(?:\.[ \t]*+{KEY_PART}[ \t]*+){{{limit},}}", re.DOTALL)
    depth = 0
    for token in tokens.finditer(text):
        first = text[token.start()]
        depth += {"[": 1, "{": 1, "]": -1, "}": -1, ".": limit + 1}.get(first, 0)
        if depth > limit:
            return token.start()
    return None


def newer(text: str) -> tuple[str, int] | None:
    """Return the first use of TOML 1.1 in a document, as (message of a tomli before 2.4, offset); None for TOML 1.0.

    tomli 2.4 reads TOML 1.1: a file that needs it would be valid on one machine and not on another.

    Args:
        text: a document that tomli has accepted, its line ends "\\n".
    """
    tokens = re.compile(rf"{STRING}|{COMMENT}|[\[\]{{}}\n]|,[ \t]*+(?=\}})|(?<![\d:+-])\d\d:\d\d(?!:)", re.DOTALL)
    inside: list[str] = []
    for token in tokens.finditer(text):
        first = text[token.start()]
        match first:
            case "[" | "{":
                inside.append(first)
            case "]" | "}":
                inside.pop()
            case "\n" if inside and inside[-1] == "{":
                opened = text[: token.start()].rstrip(" \t")[-1] in "{,"
                return "Invalid initial character for a key part" if opened else "Unclosed inline table", token.start()
            case ",":
                return "Invalid initial character for a key part", token.end()
            case '"':
                for escape in ESCAPE.finditer(token[0]):
                    if escape[0] in (r"\e", r"\x"):
                        return "Unescaped '\\' in a string", token.start() + escape.end()
            case _ if first.isdigit():
                return "Expected newline or end of document after a statement", token.start() + 2
    return None


class _Lost(Exception):
    """The walk met text that it does not expect."""


def locate(text: str, paths: Iterable[Path]) -> dict[Path, tuple[int, int]]:
    """Return the 1-based line and column of each key; of the nearest table around it, or of the first line, if it is absent.

    Args:
        text: a document that tomli has accepted, its line ends "\\n".
        paths: keys, with 0-based positions in lists.
    """
    wanted = set(paths)
    walk = _Walk(text, wanted)
    with suppress(_Lost):  # offsets noted before are right, and other paths fall back on them
        walk.document()
    return {path: line_and_column(text, walk.nearest(path)) for path in wanted}


def line_and_column(text: str, offset: int) -> tuple[int, int]:
    """Return the 1-based line and column of an offset."""
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)


class _Walk:
    """A walk over the text that notes the offsets of wanted keys and of the tables around them."""

    def __init__(self, text: str, wanted: Iterable[Path]) -> None:
        self.text = text
        self.prefixes = {path[:depth] for path in wanted for depth in range(len(path) + 1)}
        self.offsets: dict[Path, int] = {(): 0}
        self.lengths: dict[Path, int] = {}  # of arrays of tables
        self.at = 0

    def nearest(self, path: Path) -> int:
        while path not in self.offsets:
            path = path[:-1]
        return self.offsets[path]

    def note(self, path: Path, offset: int, explicit: bool = True) -> None:
        """Note an offset; a table's own header (explicit) outranks its mention in the name of another."""
        if path in self.prefixes and (explicit or path not in self.offsets):
            self.offsets[path] = offset

    def document(self) -> None:
        table: Path = ()
        self.skip(BLANK)
        while self.at < len(self.text):
            if self.text[self.at] == "[":
                table = self.header()
            else:
                self.pair(table)
            self.skip(BLANK)

    def header(self) -> Path:
        """Read [a.b] or [[a.b]], and return the path of the table that it opens."""
        many = self.text.startswith("[[", self.at)
        self.at += 2 if many else 1
        path: Path = ()
        parts = self.key()
        for part, offset in parts[:-1]:
            path = self.last((*path, part))
            self.note(path, offset, explicit=False)
        last, offset = parts[-1]
        path = (*path, last)
        self.note(path, offset, explicit=not many)
        if many:
            self.lengths[path] = self.lengths.get(path, 0) + 1
            path = self.last(path)
            self.note(path, offset)
        self.expect("]]" if many else "]")
        return path

    def last(self, path: Path) -> Path:
        """Return the path of the latest table of an array of tables; any other path as it is."""
        return (*path, self.lengths[path] - 1) if path in self.lengths else path

    def pair(self, table: Path) -> None:
        parts = self.key()
        path = table
        for number, (part, offset) in enumerate(parts, 1):
            path = (*path, part)
            self.note(path, offset, explicit=number == len(parts))
        self.expect("=")
        self.value(path)

    def value(self, path: Path) -> None:
        self.skip(BLANK)
        first = self.text[self.at : self.at + 1]
        if first == "[":
            self.array(path)
        elif first == "{":
            self.inline(path)
        else:
            self.take(TEXT if first in "\"'" else SCALAR)

    def array(self, path: Path) -> None:
        self.expect("[")
        index = 0
        while not self.closes("]"):
            item = (*path, index)
            self.note(item, self.at)
            self.value(item)
            index += 1

    def inline(self, path: Path) -> None:
        self.expect("{")
        while not self.closes("}"):
            self.pair(path)

    def closes(self, bracket: str) -> bool:
        """Return whether the bracket comes next, and step past it, or past the comma before the next item."""
        self.skip(BLANK)
        if self.text.startswith(",", self.at):
            self.at += 1
            self.skip(BLANK)
        if not self.text.startswith(bracket, self.at):
            return False
        self.at += 1
        return True

    def key(self) -> list[tuple[str, int]]:
        """Read a dotted key, and return its parts with the offset of each."""
        parts = []
        self.skip(BLANK)
        while True:
            offset = self.at
            parts.append((_name(self.take(PART)), offset))
            if not self.skip(DOT):
                return parts

    def expect(self, token: str) -> None:
        self.skip(BLANK)
        if not self.text.startswith(token, self.at):
            raise _Lost
        self.at += len(token)

    def take(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self.text, self.at)
        if match is None:
            raise _Lost
        self.at = match.end()
        return match[0]

    def skip(self, pattern: re.Pattern[str]) -> bool:
        match = pattern.match(self.text, self.at)
        self.at = match.end() if match else self.at
        return match is not None


def _name(part: str) -> str:
    """Return the name that a bare or quoted key part spells."""
    if part[0] not in "\"'":
        return part
    return str(tomli.loads(f"name = {part}")["name"])

"""Positions of keys in the text of a TOML document, and two checks of the text. The parser, tomli, does not report positions.

read.py and write.py, among others, call `locate` with the paths of keys, and syntax.py calls the checks. No input, valid or not, may take
more than linear time, so no pattern may try several ways to match the same text. Therefore characters are repeated possessively (`++` and
`*+` give nothing back once they have matched), alternatives inside a repetition begin with different characters, and every string pattern
accepts the end of the file as its end. Possessive groups are avoided, because CPython before 3.11.5 mismatches them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple

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
    """Return the offset of the first bracket or dotted key that is nested deeper than `limit`; None if there is none.

    Call it before tomli, which recurses without a limit and takes quadratic time in the number of parts of a dotted key.
    """
    # Strings and comments are matched to skip the brackets in them. The last alternative is a dotted key with more than `limit` parts,
    # which begins with its first dot here and is too deep by itself.
    tokens = re.compile(rf"{STRING}|{COMMENT}|[\[\]{{}}]|(?:\.[ \t]*+{KEY_PART}[ \t]*+){{{limit},}}", re.DOTALL)
    depth = 0
    for token in tokens.finditer(text):
        first = text[token.start()]
        depth += {"[": 1, "{": 1, "]": -1, "}": -1, ".": limit + 1}.get(first, 0)
        if depth > limit:
            return token.start()
    return None


class NewerToml(NamedTuple):
    """A use of a feature of TOML 1.1: the message of a tomli before 2.4 about it, and the offset that this message names."""

    message: str
    offset: int


def first_toml_1_1_use(text: str) -> NewerToml | None:
    """Return the first use of a feature of TOML 1.1 in a document that tomli has accepted; None for a document in TOML 1.0.

    tomli 2.4 reads TOML 1.1, and earlier versions do not. Without this check a file would be valid on some machines only. Line ends must
    be "\\n".
    """
    # The last two alternatives are a comma before the end of an inline table, and a time without seconds.
    tokens = re.compile(rf"{STRING}|{COMMENT}|[\[\]{{}}\n]|,[ \t]*+(?=\}})|(?<![\d:+-])\d\d:\d\d(?!:)", re.DOTALL)
    open_brackets: list[str] = []
    for token in tokens.finditer(text):
        first = text[token.start()]
        match first:
            case "[" | "{":
                open_brackets.append(first)
            case "]" | "}":
                open_brackets.pop()
            case "\n" if open_brackets and open_brackets[-1] == "{":  # a line end in an inline table
                needs_key = text[: token.start()].rstrip(" \t")[-1] in "{,"
                return NewerToml(
                    "Invalid initial character for a key part" if needs_key else "Unclosed inline table", token.start()
                )
            case ",":
                return NewerToml("Invalid initial character for a key part", token.end())
            case '"':
                for escape in ESCAPE.finditer(token[0]):
                    if escape[0] in (r"\e", r"\x"):
                        return NewerToml("Unescaped '\\' in a string", token.start() + escape.end())
            case _ if first.isdigit():
                colon = token.start() + 2
                return NewerToml("Expected newline or end of document after a statement", colon)
    return None


class _UnexpectedText(Exception):
    """The scanner met text that it does not understand."""


def locate(text: str, paths: Iterable[Path]) -> dict[Path, tuple[int, int]]:
    """Return the line and column of each key, both counted from 1.

    An absent key has the place of the innermost existing table around it or, without one, the start of the document.

    Args:
        text: A document that tomli has accepted, with "\\n" as line ends.
        paths: Paths of keys, with 0-based positions in lists.
    """
    wanted = set(paths)
    scanner = _Scanner(text, wanted)
    with suppress(_UnexpectedText):  # the offsets recorded before are right; other paths get the place of a table around them
        scanner.document()
    return {path: line_and_column(text, scanner.nearest(path)) for path in wanted}


def line_and_column(text: str, offset: int) -> tuple[int, int]:
    """Return the 1-based line and column of an offset."""
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)


class _Scanner:
    """A scanner of the text. It records the offsets of wanted keys and of the tables around them.

    The methods that are named after a syntactic element read one such element at the offset `at`, and move `at` behind it.
    """

    def __init__(self, text: str, wanted: Iterable[Path]) -> None:
        self.text = text
        self.useful_paths = {path[:depth] for path in wanted for depth in range(len(path) + 1)}  # also of the tables around them
        self.offsets: dict[Path, int] = {(): 0}  # by the useful paths that were met; () is the document
        self.lengths: dict[Path, int] = {}  # numbers of tables so far, by path of the array of tables
        self.at = 0

    def nearest(self, path: Path) -> int:
        """Return the offset of a key or, if none is recorded, of the innermost table around it."""
        while path not in self.offsets:
            path = path[:-1]
        return self.offsets[path]

    def record(self, path: Path, offset: int, explicit: bool = True) -> None:
        """Record an offset, if it is of use. The header of a table (`explicit`) outranks its mention in the name of another table."""
        if path in self.useful_paths and (explicit or path not in self.offsets):
            self.offsets[path] = offset

    def document(self) -> None:
        """Read the whole document."""
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
        is_array = self.text.startswith("[[", self.at)
        self.at += 2 if is_array else 1
        path: Path = ()
        parts = self.key()
        for part, offset in parts[:-1]:
            path = self.last((*path, part))
            self.record(path, offset, explicit=False)
        last, offset = parts[-1]
        path = (*path, last)
        self.record(path, offset, explicit=not is_array)  # the place of an array is its first header
        if is_array:
            self.lengths[path] = self.lengths.get(path, 0) + 1
            path = self.last(path)
            self.record(path, offset)
        self.expect("]]" if is_array else "]")
        return path

    def last(self, path: Path) -> Path:
        """Return the path of the latest table if `path` is an array of tables; else `path`."""
        return (*path, self.lengths[path] - 1) if path in self.lengths else path

    def pair(self, table: Path) -> None:
        """Read key = value in a table."""
        parts = self.key()
        path = table
        for number, (part, offset) in enumerate(parts, 1):
            path = (*path, part)
            self.record(path, offset, explicit=number == len(parts))
        self.expect("=")
        self.value(path)

    def value(self, path: Path) -> None:
        """Read the value of the key or list item at `path`."""
        self.skip(BLANK)
        first = self.text[self.at : self.at + 1]
        if first == "[":
            self.array(path)
        elif first == "{":
            self.inline(path)
        else:
            self.take(TEXT if first in "\"'" else SCALAR)

    def array(self, path: Path) -> None:
        """Read a list."""
        self.expect("[")
        index = 0
        while not self.closes("]"):
            item = (*path, index)
            self.record(item, self.at)
            self.value(item)
            index += 1

    def inline(self, path: Path) -> None:
        """Read an inline table."""
        self.expect("{")
        while not self.closes("}"):
            self.pair(path)

    def closes(self, bracket: str) -> bool:
        """Skip a comma. Return whether the bracket comes next, and skip it then."""
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
        """Skip this token. Raises _UnexpectedText if it does not come next."""
        self.skip(BLANK)
        if not self.text.startswith(token, self.at):
            raise _UnexpectedText
        self.at += len(token)

    def take(self, pattern: re.Pattern[str]) -> str:
        """Read and return a match of the pattern. Raises _UnexpectedText if there is none."""
        match = pattern.match(self.text, self.at)
        if match is None:
            raise _UnexpectedText
        self.at = match.end()
        return match[0]

    def skip(self, pattern: re.Pattern[str]) -> bool:
        """Skip a match of the pattern, and return whether there is one."""
        match = pattern.match(self.text, self.at)
        self.at = match.end() if match else self.at
        return match is not None


def _name(part: str) -> str:
    """Return the name that a bare or quoted part of a key stands for."""
    if part[0] not in "\"'":
        return part
    return str(tomli.loads(f"name = {part}")["name"])

"""Bytes to TOML tables, with one clear fault for whatever is not TOML (rule DP001)."""

from __future__ import annotations

import gc
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import tomli

from dpcli.file.toml.lexical import newer, too_deep
from dpcli.file.toml.limits import MAX_BYTES, MAX_DEPTH
from dpcli.file.toml.shown import escaped

_UTF16_OR_32 = (b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff")
_POSITION = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")
_LONG_INTEGER = re.compile(r"[0-9][0-9_]{4000,}+")


class NotToml(Exception):
    """Why the bytes are not a file of ours, and at which 1-based line and column (0: nowhere in particular)."""

    def __init__(self, expected: str, found: str, line: int = 0, column: int = 0) -> None:
        super().__init__(f"expected {expected}, found {found}")
        self.line = line
        self.column = column


def text_of(data: bytes) -> str:
    """The text of a file, its line ends made "\\n"; raises NotToml unless it is small and UTF-8 without BOM and NUL."""
    if len(data) > MAX_BYTES:
        raise NotToml(f"a file of at most {MAX_BYTES // 1024} KiB", "more")
    if data.startswith(_UTF16_OR_32):
        raise NotToml("UTF-8 text", "UTF-16 or UTF-32; save the file as UTF-8", 1, 1)
    if data.startswith(b"\xef\xbb\xbf"):
        raise NotToml("UTF-8 text without a byte order mark", "one at its start; save the file as UTF-8 without BOM", 1, 1)
    if b"\x00" in data:
        raise NotToml("UTF-8 text", "a NUL byte", *_place(data, data.index(b"\x00")))
    try:
        return data.decode().replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise NotToml("UTF-8 text", f"byte 0x{data[error.start]:02x}", *_place(data, error.start)) from None


def tables_of(text: str) -> dict[str, Any]:
    """The tables of a TOML document; raises NotToml."""
    deep = too_deep(text, MAX_DEPTH)
    if deep is not None:
        raise NotToml(f"at most {MAX_DEPTH} levels of nesting", "more", *_text_place(text, deep))
    try:
        with _collector_paused():
            tables = tomli.loads(text)
    except tomli.TOMLDecodeError as error:
        raise _syntax_fault(text, str(error)) from None
    except (ValueError, RecursionError, OverflowError) as error:
        raise _escaped_fault(text, error) from None
    fault = newer(text)
    if fault is not None:
        raise _worded_fault(text, fault[0], *_text_place(text, fault[1]))
    return tables


@contextmanager
def _collector_paused() -> Iterator[None]:
    """A file of many small tables makes the garbage collector take three quarters of the time, to find nothing."""
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.enable()


def _syntax_fault(text: str, message: str) -> NotToml:
    """tomli's own error, its position taken out of the words."""
    at = _POSITION.search(message)
    words = message[: at.start()] if at else message
    if at and at[1]:
        line, column = int(at[1]), int(at[2])
    else:
        line, column = _text_place(text, len(text.rstrip("\n")))
    return _worded_fault(text, words, line, column)


def _worded_fault(text: str, words: str, line: int, column: int) -> NotToml:
    """tomli's words made ours."""
    from dpcli.file.toml.syntax_words import digits_hint, reworded

    source = text.split("\n")[line - 1]
    expected, found, to_start = reworded(words, source[column - 1 :])
    found += digits_hint(source[: column - 1], source[column - 1 :])
    return NotToml(expected, found, line, len(source) - len(source.lstrip()) + 1 if to_start else column)


def _escaped_fault(text: str, error: Exception) -> NotToml:
    """What tomli lets through besides its own errors: int() refuses more than 4300 digits."""
    digits = _LONG_INTEGER.search(text)
    if digits:
        return NotToml("a number", f"{len(digits[0])} digits", *_text_place(text, digits.start()))
    return NotToml("valid TOML", escaped(str(error).lower()))


def _text_place(text: str, offset: int) -> tuple[int, int]:
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)


def _place(data: bytes, offset: int) -> tuple[int, int]:
    """Line and column of a byte; what stands before it is known to be, or is taken for, UTF-8."""
    start = data.rfind(b"\n", 0, offset) + 1
    return data.count(b"\n", 0, offset) + 1, len(data[start:offset].decode(errors="replace")) + 1

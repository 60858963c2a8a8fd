"""Reading TOML: bytes to text, text to tables, and syntax errors as messages of the form "expected X, found Y".

tomli parses; this module rewords its messages (`_REWORDED`), whose spelling differs between its versions. An unknown message is quoted. A
file is refused before parsing if it is too large, nested too deeply, not UTF-8, or has a byte order mark or NUL byte, so that a file from
elsewhere can neither exhaust memory nor be read in two ways.
"""

from __future__ import annotations

import gc
import re
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import tomli

from dpcli.file.toml.limits import MAX_BYTES, MAX_DEPTH
from dpcli.file.toml.positions import first_toml_1_1_use, line_and_column, too_deep
from dpcli.file.toml.shown import escaped

_UTF16_OR_32 = (b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff")
_POSITION = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")
# Python refuses to read a number of more than 4300 digits. The pattern finds the number to blame, so that a somewhat lower limit will do.
_LONG_INTEGER = re.compile(r"[0-9][0-9_]{4000,}+")
_WORD = re.compile(r"""[^\s,\]}#='"]+""")  # what stands where tomli expected a value


class NotToml(Exception):
    """A syntax error of a file, at a line and column counted from 1; 0 if the error has no place."""

    def __init__(self, expected: str, actual: str, line: int = 0, column: int = 0) -> None:
        super().__init__(f"expected {expected}, found {actual}")
        self.line = line
        self.column = column


def text_of(data: bytes) -> str:
    """Return the text of a file, with "\\n" as line ends.

    Raises NotToml if the file is larger than MAX_BYTES, is not UTF-8, or has a byte order mark or a NUL byte.
    """
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
    """Return the tables of a TOML document. Raises NotToml for a syntax error."""
    deep = too_deep(text, MAX_DEPTH)
    if deep is not None:
        raise NotToml(f"at most {MAX_DEPTH} levels of nesting", "more", *line_and_column(text, deep))
    try:
        with _collector_paused():
            tables = tomli.loads(text)
    except tomli.TOMLDecodeError as error:
        raise _syntax_error(text, str(error)) from None
    except (ValueError, RecursionError, OverflowError) as error:
        raise _unhandled_error(text, error) from None
    use = first_toml_1_1_use(text)
    if use is not None:
        raise _error_at(text, use.message, *line_and_column(text, use.offset))
    return tables


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Pause the garbage collector. For a file of many small tables it takes three quarters of the time and frees nothing."""
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.enable()


def _syntax_error(text: str, message: str) -> NotToml:
    """Return the error for a message of tomli, which ends with the position."""
    position = _POSITION.search(message)
    words = message[: position.start()] if position else message
    if position and position[1]:
        line, column = int(position[1]), int(position[2])
    else:  # at the end of the document: the end of its last line that is not empty
        line, column = line_and_column(text, len(text.rstrip("\n")))
    return _error_at(text, words, line, column)


def _error_at(text: str, words: str, line: int, column: int) -> NotToml:
    """Return the error for a message of tomli (`words`), whose position was taken off."""
    source = text.split("\n")[line - 1]
    line_before, line_after = source[: column - 1], source[column - 1 :]
    message = reworded(words, line_after)
    if message.at_line_start:
        column = len(source) - len(source.lstrip()) + 1
    return NotToml(message.expected, f"{message.actual}{digits_hint(line_before, line_after)}", line, column)


def _unhandled_error(text: str, error: Exception) -> NotToml:
    """Return the error for an exception that tomli does not handle, such as int() refusing more than 4300 digits."""
    digits = _LONG_INTEGER.search(text)
    if digits:
        return NotToml("a number", f"{len(digits[0])} digits", *line_and_column(text, digits.start()))
    return NotToml("valid TOML", escaped(str(error).lower()))


def _place(data: bytes, offset: int) -> tuple[int, int]:
    """Return the line and column of a byte offset. The column counts characters of the bytes decoded as UTF-8."""
    start = data.rfind(b"\n", 0, offset) + 1
    return data.count(b"\n", 0, offset) + 1, len(data[start:offset].decode(errors="replace")) + 1


# Words of other languages that TOML does not know, each with what to do instead.
_LITERALS = {
    "True": "write true",
    "False": "write false",
    "yes": "write true",
    "no": "write false",
    "None": "leave the key out",
    "null": "leave the key out",
    "nil": "leave the key out",
}


class Rewording(NamedTuple):
    """The message for a syntax error.

    Attributes:
        expected: Text of the message after "expected".
        actual: Text of the message after "found"; None for the next word of the file.
        at_line_start: Whether to report the start of the line, because tomli names a position after the key or table at fault.
    """

    expected: str
    actual: str | None = None
    at_line_start: bool = False


# Messages by the beginning of the message of tomli. The first match counts.
_REWORDED: dict[str, Rewording] = {
    "Cannot overwrite a value": Rewording("each key once", "a second value", at_line_start=True),
    "Duplicate inline table key": Rewording("each key once", "a second value"),
    "Cannot declare": Rewording("each table once", "a second table of this name", at_line_start=True),
    "Cannot mutate immutable namespace": Rewording(
        "keys of an inline table between its braces", "one added later", at_line_start=True
    ),
    "Cannot redefine namespace": Rewording("each table once", "a second table of this name", at_line_start=True),
    "Expected '=' after a key": Rewording("= after a key"),
    "Expected ']' at the end of a table declaration": Rewording("] at the end of a table's name"),
    "Expected ']]' at the end of an array declaration": Rewording("]] at the end of a table's name"),
    "Expected newline or end of document after a statement": Rewording("the end of the line after a value"),
    "Unclosed array": Rewording("a list ended by ]", "no end"),
    "Unclosed inline table": Rewording("a table ended by }", "no end"),
    "Unterminated string": Rewording("text ended by its quote", "no end"),
    "Invalid initial character for a key part": Rewording("a key"),
    "Invalid statement": Rewording("key = value or [table]"),
    "Invalid date or datetime": Rewording("a date that exists", "one that does not"),
    "Unescaped '\\' in a string": Rewording("an escape that TOML knows (\\\\ for a backslash)", "an unknown one"),
    'Expected "': Rewording("text ended by its quote", "no end"),
    "Found invalid character '\\n'": Rewording("text ended by its quote", "the end of the line"),
    "Illegal character '\\n'": Rewording("text ended by its quote", "the end of the line"),
    "Illegal character": Rewording("printable characters"),
    "Found invalid character": Rewording("printable characters"),
}


def reworded(words: str, line_after: str) -> Rewording:
    """Return the message for a syntax error, always with the text after "found".

    Args:
        words: Message of tomli, without the position.
        line_after: The line from the position of the error on.
    """
    if line_after and not line_after[0].isascii():
        # The author may be unable to see this error: a letter that looks like an ASCII letter.
        letter = f"{escaped(line_after[0])} ({unicodedata.name(line_after[0], 'no name').lower()})"
        return Rewording("ASCII outside quotes and comments", letter)
    if words.startswith("Invalid value"):
        return Rewording("a value", _invalid_value(line_after))
    for beginning, rewording in _REWORDED.items():
        if _normalized(words).startswith(_normalized(beginning)):
            return rewording._replace(actual=rewording.actual or _next_word(line_after))
    return Rewording("valid TOML", escaped(words[:1].lower() + words[1:]))


def digits_hint(line_before: str, line_after: str) -> str:
    """Return a hint for a number such as 1,000,000, whose digits are grouped by commas; "" for other text.

    The arguments are the parts of the line before and after the position of the error, which for such a number is its first comma.
    """
    first_group = re.search(r"[1-9]\d{0,2}\Z", line_before)
    other_groups = re.match(r"(?:,\d{3})+(?![\d.,])", line_after)
    if first_group is None or other_groups is None:
        return ""
    return f"; write {first_group[0]}{other_groups[0].replace(',', '_')}"


def _normalized(words: str) -> str:
    """Return the words in the spelling of all versions of tomli: 2.0.0 wrote `Can not` and other quotes."""
    return words.replace("Can not", "Cannot").replace('"', "'")


def _next_word(line_after: str) -> str:
    """Return the next word of the line; the escaped character if the line begins with an unprintable one."""
    if not line_after.strip():
        return "the end of the line"
    return escaped(line_after.split()[0] if line_after[0].isprintable() else line_after[0])


def _invalid_value(line_after: str) -> str:
    """Return an invalid value, with advice about words such as True or null."""
    match = _WORD.match(line_after)
    if match is None:
        return "none"
    word = escaped(match[0])
    if match[0] in _LITERALS:
        hint = _LITERALS[match[0]]
    elif match[0].startswith("."):
        hint = f"write 0{word}"
    else:
        hint = f'text needs quotes: "{word}"'
    return f"{word}; {hint}"

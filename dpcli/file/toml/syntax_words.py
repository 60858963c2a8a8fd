"""tomli's complaints in the form of ours: what was expected, what was found, what to do."""

from __future__ import annotations

import re
import unicodedata

from dpcli.file.toml.shown import escaped

_WORD = re.compile(r"""[^\s,\]}#='"]+""")
_LITERALS = {
    "True": "write true",
    "False": "write false",
    "yes": "write true",
    "no": "write false",
    "None": "leave the key out",
    "null": "leave the key out",
    "nil": "leave the key out",
}

# Beginning of tomli's words: expected, found (None: the text at the fault), and whether the position that it gives is after the
# fault, so that the start of the line serves better.
_REWORDED: dict[str, tuple[str, str | None, bool]] = {
    "Cannot overwrite a value": ("each key once", "one that is stated already", True),
    "Duplicate inline table key": ("each key once", "one that is stated already", False),
    "Cannot declare": ("each table once", "one that is declared already", True),
    "Cannot mutate immutable namespace": ("keys of an inline table between its braces", "one added later", True),
    "Cannot redefine namespace": ("each table once", "one that is declared already", True),
    "Expected '=' after a key": ("= after a key", None, False),
    "Expected ']' at the end of a table declaration": ("] at the end of a table's name", None, False),
    "Expected ']]' at the end of an array declaration": ("]] at the end of a table's name", None, False),
    "Expected newline or end of document after a statement": ("the end of the line after a value", None, False),
    "Unclosed array": ("a list ended by ]", "no end", False),
    "Unclosed inline table": ("a table ended by }", "no end", False),
    "Unterminated string": ("text ended by its quote", "no end", False),
    "Invalid initial character for a key part": ("a key", None, False),
    "Invalid statement": ("key = value or [table]", None, False),
    "Invalid date or datetime": ("a date that exists", "another", False),
    "Unescaped '\\' in a string": ("an escape that TOML knows (\\\\ for a backslash)", "another", False),
    'Expected "': ("text ended by its quote", "no end", False),
    "Found invalid character '\\n'": ("text ended by its quote", "the end of the line", False),
    "Illegal character '\\n'": ("text ended by its quote", "the end of the line", False),
    "Illegal character": ("printable characters", None, False),
    "Found invalid character": ("printable characters", None, False),
}


def reworded(words: str, rest: str) -> tuple[str, str, bool]:
    """(expected, found, at line start) for tomli's `words`; `rest` is the line from the fault on."""
    if rest and not rest[0].isascii():
        # A letter that looks like another is the one fault that a reader cannot see.
        return "ASCII outside quotes and comments", f"{escaped(rest[0])} ({unicodedata.name(rest[0], 'no name').lower()})", False
    if words.startswith("Invalid value"):
        return _invalid_value(rest)
    for beginning, ours in _REWORDED.items():
        if _usual(words).startswith(_usual(beginning)):
            expected, found, to_start = ours
            return expected, found or _text_at(rest), to_start
    return "valid TOML", escaped(words[:1].lower() + words[1:]), False


def digits_hint(before: str, rest: str) -> str:
    """What to write where a comma groups digits: `before` ends in some, `rest` begins with the comma."""
    head, tail = re.search(r"[1-9]\d{0,2}\Z", before), re.match(r"(?:,\d{3})+(?![\d.,])", rest)
    return f"; write {head[0]}{tail[0].replace(',', '_')}" if head and tail else ""


def _usual(words: str) -> str:
    """The words without what tomli changed after 2.0.0: `Can not`, and double quotes."""
    return words.replace("Can not", "Cannot").replace('"', "'")


def _text_at(rest: str) -> str:
    """The next word of the line, or the character itself where nothing would be seen of it."""
    if not rest.strip():
        return "the end of the line"
    return escaped(rest.split()[0] if rest[0].isprintable() else rest[0])


def _invalid_value(rest: str) -> tuple[str, str, bool]:
    match = _WORD.match(rest)
    if match is None:
        return "a value", "none", False
    word = escaped(match[0])
    hint = _LITERALS.get(match[0]) or (f"write 0{word}" if match[0].startswith(".") else f'text needs quotes: "{word}"')
    return "a value", f"{word}; {hint}", False

"""Values of a file as text for messages: short, without passwords, and in ASCII.

Files come from elsewhere, and messages reach terminals, logs and reports. Characters outside of ASCII are escaped, so that control
characters do no harm and letters that look alike can be told apart. An *address* is a text with "://", which may contain a password. The
limits on lengths are arbitrary.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

LONGEST_VALUE = 60  # largest number of characters of a value that are shown
NAMED = 8  # largest number of names that a message lists
MOST_BITS = 128  # largest number of bits of a whole number that is shown in digits
ADDRESS = "://"  # the sign of an address, which may contain a password if one of the _BEFORE_SECRETS characters follows
_BEFORE_SECRETS = frozenset("@?#=")
# A password after a user's name in an address, or in a connection string. The limits keep the search of a long line fast.
_PASSWORD = re.compile(r"""(://[^\s"'@/:]{0,500}:)[^\s"']{1,500}(?=@)|(password\s?=\s?)[^\s"'&]{1,500}""")
BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")  # a key that needs no quotes


def escaped(text: str) -> str:
    """Return the text in ASCII with JSON's escapes, cut after `LONGEST_VALUE` characters."""
    import json

    cut = text if len(text) <= LONGEST_VALUE else text[: LONGEST_VALUE - 3] + "..."
    return json.dumps(cut)[1:-1].replace("\x7f", "\\u007f")


def public_length(text: str) -> int:
    """Return the number of leading characters that may be shown. An address that may contain a password is cut after its "://"."""
    before, mark, after = text.partition(ADDRESS)
    if not mark or _BEFORE_SECRETS.isdisjoint(after):
        return len(text)
    return len(before) + len(mark)


def public(text: str) -> str:
    """Return the text, cut if it may contain a password."""
    length = public_length(text)
    return text if length == len(text) else f"{text[:length]}..."


def without_passwords(message: str) -> str:
    """Return a message in which dots replace the passwords of addresses and connection strings."""
    return _PASSWORD.sub(lambda match: f"{match[1] or match[2]}...", message)


def quoted(word: str) -> str:
    """Return a key or a keyword in single quotes. Values of a file have double quotes in messages (`shown`)."""
    return f"'{escaped(word)}'"


def first_names(names: Iterable[str], none: str = "none") -> str:
    """Return the first NAMED names as "a, b, c", and the number of others; `none` if there are no names."""
    listed_names = list(names)
    if not listed_names:
        return none
    more = f" and {len(listed_names) - NAMED:,} more" if len(listed_names) > NAMED else ""
    return ", ".join(listed_names[:NAMED]) + more


def listed(words: tuple[str, ...]) -> str:
    """Return the text after "expected" for a value that must be one of these words."""
    return quoted(words[0]) if len(words) == 1 else "one of " + ", ".join(quoted(word) for word in words)


def shown(value: Any) -> str:
    """Return a TOML value for a message: `true`, `-1`, `"text"`, `"postgresql://..."`, `a list`, `a table`."""
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            # Python refuses to write integers of more than 4300 digits. Nobody would read such a number in a message.
            return str(value) if value.bit_length() <= MOST_BITS else f"a whole number of {value.bit_length()} bits"
        case float():
            return repr(value)
        case str():
            return f'"{escaped(public(value))}"'
        case list():
            return "a list" if value else "an empty list"
        case dict():
            return "a table"
    return str(value)


def key_text(path: tuple[str | int, ...], names: dict[int, str] | None = None) -> str:
    """Return the path of a key as text, such as `mechanism["train"].sampling.rate`.

    Args:
        path: Path of the key, with 0-based positions in lists.
        names: Names of mechanisms by their position. Without a name, a position is shown as a number, counted from 1.
    """
    text = ""
    for depth, part in enumerate(path):
        if isinstance(part, int):
            name = (names or {}).get(part) if path[:depth] == ("mechanism",) else None
            text += f"[{part + 1}]" if name is None else f'["{escaped(name)}"]'
        else:
            is_plain = BARE_KEY.fullmatch(part) and len(part) <= LONGEST_VALUE
            text += ("." if text else "") + (part if is_plain else quoted(part))
    return text

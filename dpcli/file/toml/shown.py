"""Values of a file as they may safely appear in a message: short, ASCII, control characters and look-alike letters escaped."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

LONGEST = 60
NAMED = 8  # names of the user's that one message lists
ADDRESS = "://"  # what follows it may hold a password where it has one of these
_SECRET = frozenset("@?#=")
_PASSWORD = re.compile(r"""(://[^\s"'@/:]{0,500}:)[^\s"']{1,500}(?=@)|(password\s?=\s?)[^\s"'&]{1,500}""")
_BARE = re.compile(r"[A-Za-z0-9_-]+")


def escaped(text: str) -> str:
    """`text` in ASCII with JSON's escapes, cut after `LONGEST` characters."""
    import json

    cut = text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."
    return json.dumps(cut)[1:-1].replace("\x7f", "\\u007f")


def public_length(text: str) -> int:
    """Return how much of the beginning of `text` may be shown: an address that may hold a password, to the end of its scheme."""
    at = text.find(ADDRESS) + len(ADDRESS)
    return at if at >= len(ADDRESS) and not _SECRET.isdisjoint(text[at:]) else len(text)


def public(text: str) -> str:
    """`text` without what may be a password in it."""
    length = public_length(text)
    return text if length == len(text) else f"{text[:length]}..."


def without_passwords(message: str) -> str:
    """A message that may quote an address or a connection string as it stands, with dots in place of the passwords in it."""
    return _PASSWORD.sub(lambda match: f"{match[1] or match[2]}...", message)


def quoted(word: str) -> str:
    """A key or a keyword, in single quotes."""
    return f"'{escaped(word)}'"


def first_names(names: Iterable[str], none: str = "none") -> str:
    """Return `a, b, c` and how many more there are beyond the first eight; `none` where there are no names."""
    every = list(names)
    more = f" and {len(every) - NAMED:,} more" if len(every) > NAMED else ""
    return ", ".join(every[:NAMED]) + more or none


def listed(words: tuple[str, ...]) -> str:
    """Keywords that a value must be one of."""
    return quoted(words[0]) if len(words) == 1 else "one of " + ", ".join(quoted(word) for word in words)


def shown(value: Any) -> str:
    """A TOML value as a message may show it: `true`, `-1`, `"text"`, `"postgresql://..."`, `a list`, `a table`."""
    return str(_SHOWN.get(type(value), str)(value))


def key_text(path: tuple[str | int, ...], names: dict[int, str] | None = None) -> str:
    """`mechanism["train"].sampling.rate`: a mechanism by its name where `names` has one, all else counted from 1."""
    text = ""
    for depth, part in enumerate(path):
        if isinstance(part, int):
            named = (names or {}).get(part) if path[:depth] == ("mechanism",) else None
            text += f"[{part + 1}]" if named is None else f'["{escaped(named)}"]'
        else:
            text += ("." if text else "") + (part if _BARE.fullmatch(part) and len(part) <= LONGEST else quoted(part))
    return text


def _integer(value: int) -> str:
    # Python refuses to write integers of more than 4300 digits, and nobody would read one.
    return str(value) if value.bit_length() <= 128 else f"a whole number of {value.bit_length()} bits"


def _text(value: str) -> str:
    return f'"{escaped(public(value))}"'


_SHOWN: dict[type, Any] = {
    bool: lambda value: "true" if value else "false",
    int: _integer,
    float: repr,
    str: _text,
    list: lambda value: "a list" if value else "an empty list",
    dict: lambda value: "a table",
}

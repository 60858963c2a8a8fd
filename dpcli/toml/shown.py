"""Values of a file as they may safely appear in a message: short, ASCII, control characters and look-alike letters escaped."""

from __future__ import annotations

import re
from typing import Any

LONGEST = 60
# An address that may hold a password, wherever it stands in it: its scheme is all that is shown.
_SECRET = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,30}://(?=.*[@?#=])", re.DOTALL)
_BARE = re.compile(r"[A-Za-z0-9_-]+")


def escaped(text: str) -> str:
    """`text` in ASCII with JSON's escapes, cut after `LONGEST` characters."""
    import json

    cut = text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."
    return json.dumps(cut)[1:-1].replace("\x7f", "\\u007f")


def quoted(word: str) -> str:
    """A key or a keyword, in single quotes."""
    return f"'{escaped(word)}'"


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


def _whole(value: int) -> str:
    # Python refuses to write integers of more than 4300 digits, and nobody would read one.
    return str(value) if value.bit_length() <= 128 else f"a whole number of {value.bit_length()} bits"


def _text(value: str) -> str:
    address = _SECRET.match(value)
    return f'"{escaped(value)}"' if address is None else f'"{escaped(address[0])}..."'


_SHOWN: dict[type, Any] = {
    bool: lambda value: "true" if value else "false",
    int: _whole,
    float: repr,
    str: _text,
    list: lambda value: "a list" if value else "an empty list",
    dict: lambda value: "a table",
}

"""TOML 1.1, which tomli reads from 2.4 on: a file that needs it is refused, or it would be valid on one machine and not on another."""

from __future__ import annotations

import re

from dpcli.toml.lexical import COMMENT, STRING

_TOKEN = re.compile(rf"{STRING}|{COMMENT}|[\[\]{{}}\n]|,[ \t]*+(?=\}})|(?<![\d:+-])\d\d:\d\d(?!:)", re.DOTALL)
_ESCAPED = re.compile(r"\\.", re.DOTALL)


def newer(text: str) -> tuple[str, int] | None:
    """The first offset at which TOML 1.0 ends, with the words that a tomli of before says there; None where it reads all.

    Args:
        text: a document that tomli has accepted, its line ends "\\n".
    """
    inside: list[str] = []
    for token in _TOKEN.finditer(text):
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
                for escape in _ESCAPED.finditer(token[0]):
                    if escape[0] in (r"\e", r"\x"):
                        return "Unescaped '\\' in a string", token.start() + escape.end()
            case _ if first.isdigit():
                return "Expected newline or end of document after a statement", token.start() + 2
    return None

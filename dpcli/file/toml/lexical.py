"""The few tokens of TOML that decide what is a key, what is nested and what is mere text.

Repetitions of characters are possessive, alternatives inside a repetition begin differently, and every string may end with the file, so
that no input, valid or not, takes more than linear time. (Possessive groups are avoided: CPython before 3.11.5 mismatches them.)
"""

from __future__ import annotations

import re

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
    """The offset of the first bracket or dotted key nested deeper than `limit`, or None.

    Asked before tomli is: that recurses without a limit of its own, and is quadratic in the parts of one dotted key.
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
    """The first offset at which TOML 1.0 ends, with the words that a tomli before 2.4 says there; None where it reads all.

    Later ones read TOML 1.1: a file that needs it would be valid on one machine and not on another.

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

"""Manual pages: sections of paragraphs and definition lists as man(7) source."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

LITERAL = "\x00"  # first character of a block that is set as it stands
ESCAPES = {"\\": "\\e", "-": "\\-", "'": "\\(aq", "`": "\\(ga", "^": "\\(ha", "~": "\\(ti"}
QUOTED = re.compile(r"\\\(ga(.+?)\\\(ga")  # what a text has between backticks is bold


@dataclass(frozen=True, slots=True)
class ManualSection:
    """A heading, paragraphs, and then terms with their definitions; without a title it goes on with the section before it."""

    title: str
    paragraphs: tuple[str, ...] = ()
    terms: tuple[tuple[str, str], ...] = ()


def page(name: str, number: int, short: str, sections: Sequence[ManualSection], version: str) -> str:
    """Return the source of one page."""
    lines = [
        f'.TH "{name.upper()}" "{number}" "" "dpcli {version}" "dpcli manual"',
        ".SH NAME",
        f"{_text(name)} \\- {_text(short)}",
    ]
    for section in sections:
        if section.title:
            lines.append(f".SH {_text(section.title.upper())}")
        for paragraph in section.paragraphs:
            lines += [".PP", _text(paragraph)]
        for term, definition in section.terms:
            lines += [".TP", f".B {_text(term)}", _text(definition)]
    return "\n".join(lines) + "\n"


def literal(text: str) -> str:
    """Mark a block to be set as it stands."""
    return LITERAL + text


def unset(paragraph: str) -> str | None:
    """Return the text of a block that `literal` marked, None for any other paragraph."""
    return paragraph.removeprefix(LITERAL) if paragraph.startswith(LITERAL) else None


def _text(text: str) -> str:
    body = unset(text)
    if body is not None:
        lines = "\n".join(_line(line) or "\\&" for line in body.rstrip("\n").split("\n"))
        return f".nf\n{lines}\n.fi"
    return QUOTED.sub(r"\\fB\1\\fP", _line(" ".join(text.split())))


def _line(line: str) -> str:
    """Escape a line of input; a full stop or an apostrophe at its start would be a request."""
    return ("\\&" if line[:1] in (".", "'") else "") + "".join(map(_character, line))


def _character(character: str) -> str:
    """Return a character in ASCII; quotes, minus, caret and tilde as they are typed in a shell."""
    return ESCAPES.get(character) or (character if character.isascii() else f"\\[u{ord(character):04X}]")

"""Manual pages: the source in the language man(7), from sections with paragraphs and definition lists.

`dpcli man` writes them (explain/commands/man.py). troff is the language of manual pages: a line that begins with a full stop or an
apostrophe is a *request*, and a backslash begins an escape. A text may mark words in bold with backticks or **, as docstrings do; every
other character is escaped, so that it is shown as it is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

LITERAL = "\x00"  # first character of a block whose line breaks and spaces are kept
ESCAPES = {"\\": "\\e", "-": "\\-", "'": "\\(aq", "`": "\\(ga", "^": "\\(ha", "~": "\\(ti"}
BOLD = re.compile(r"\\\(ga(.+?)\\\(ga|\*\*(\S.*?)\*\*")  # text between backticks or pairs of asterisks


@dataclass(frozen=True, slots=True)
class ManualSection:
    """A section of a manual page.

    title: heading; "" to continue the section before.
    terms: pairs of a term and its definition, below the paragraphs.
    """

    title: str
    paragraphs: tuple[str, ...] = ()
    terms: tuple[tuple[str, str], ...] = ()


def page(name: str, number: int, short: str, sections: Sequence[ManualSection], version: str) -> str:
    """Return the source of one manual page."""
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
    """Mark a block whose line breaks and spaces must be kept."""
    return LITERAL + text


def literal_text(paragraph: str) -> str | None:
    """Return the text of a block that `literal` marked; None for any other paragraph."""
    return paragraph.removeprefix(LITERAL) if paragraph.startswith(LITERAL) else None


def _text(text: str) -> str:
    """Return a paragraph as source: a block that `literal` marked with its line breaks, and any other text on one line, with bold words."""
    body = literal_text(text)
    if body is not None:
        lines = "\n".join(_line(line) or "\\&" for line in body.rstrip("\n").split("\n"))  # \& stands for an empty line
        return f".nf\n{lines}\n.fi"  # requests that switch the filling of lines off and on
    return BOLD.sub(r"\\fB\1\2\\fP", _line(" ".join(text.split())))


def _line(line: str) -> str:
    """Return a line escaped for troff. A full stop or an apostrophe at its start would otherwise be a request."""
    return ("\\&" if line[:1] in (".", "'") else "") + "".join(map(_character, line))


def _character(character: str) -> str:
    """Return a character as ASCII source. Quotes, minus, caret and tilde are shown as a shell needs them."""
    return ESCAPES.get(character) or (character if character.isascii() else f"\\[u{ord(character):04X}]")

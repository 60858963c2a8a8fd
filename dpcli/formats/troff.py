"""Manual pages: sections of paragraphs and definition lists, as man(7) source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ManualSection:
    """A heading, paragraphs, and then terms with their definitions."""

    title: str
    paragraphs: tuple[str, ...] = ()
    terms: tuple[tuple[str, str], ...] = ()


def page(name: str, number: int, short: str, sections: Sequence[ManualSection], version: str) -> str:
    """The source of one page."""
    lines = [
        f'.TH "{name.upper()}" "{number}" "" "dpcli {version}" "dpcli manual"',
        ".SH NAME",
        f"{_text(name)} \\- {_text(short)}",
    ]
    for section in sections:
        lines.append(f".SH {_text(section.title.upper())}")
        for paragraph in section.paragraphs:
            lines += [".PP", _text(paragraph)]
        for term, definition in section.terms:
            lines += [".TP", f".B {_text(term)}", _text(definition)]
    return "\n".join(lines) + "\n"


def literal(text: str) -> str:
    """A block that is set as it stands."""
    return "\x00" + text


def _text(text: str) -> str:
    if text.startswith("\x00"):
        body = "\n".join(_escape(line) or "\\&" for line in text[1:].rstrip("\n").split("\n"))
        return f".nf\n{body}\n.fi"
    return _escape(" ".join(text.split()))


def _escape(line: str) -> str:
    line = line.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + line if line[:1] in (".", "'") else line

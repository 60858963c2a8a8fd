"""The texts of the topics: a little Markdown, read into the sections of a manual page.

`# title`, `## heading`, paragraphs, fenced blocks, `- **term**: definition`, and `<!-- list: NAME -->` for a list from a registry.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from dpcli.document.formats.troff import ManualSection, literal
from dpcli.explain.lists import EVERY

FENCE = "```"
TERM = re.compile(r"- \*\*(.+?)\*\*: (.*)", re.S)
LIST = re.compile(r"<!-- list: ([\w-]+) -->")


@dataclass(frozen=True, slots=True)
class Topic:
    """title: one line, lower case, no full stop."""

    title: str
    sections: tuple[ManualSection, ...]


def read_topic(text: str) -> Topic:
    """The topic that a text describes. The first block is its title; text before the first heading is the description."""
    title, *blocks = _blocks(text)
    assert title.startswith("# "), title
    return Topic(title[2:], tuple(_sections(["## description", *blocks])))


def _blocks(text: str) -> Iterator[str]:
    """Fenced blocks whole, every item of a list by itself, and what empty lines separate."""
    held: list[str] = []
    fenced = False
    for line in [*text.split("\n"), ""]:
        starts = not fenced and (not line or line.startswith(("- ", FENCE)))
        if starts and held:
            yield "\n".join(held)
            held = []
        if line or fenced:
            held.append(line)
        if line.startswith(FENCE):
            fenced = not fenced


def _sections(blocks: list[str]) -> Iterator[ManualSection]:
    """A section for each heading; one without a title goes on with what follows a list of terms."""
    title, paragraphs, terms = "", list[str](), list[tuple[str, str]]()
    for block in blocks:
        found = _terms(block)
        if block.startswith("## ") or (terms and not found):
            if title or paragraphs or terms:
                yield ManualSection(title, tuple(paragraphs), tuple(terms))
            title, paragraphs, terms = "", [], []
        if block.startswith("## "):
            title = block[3:]
        elif found:
            terms += found
        else:
            paragraphs.append(_paragraph(block))
    yield ManualSection(title, tuple(paragraphs), tuple(terms))


def _terms(block: str) -> tuple[tuple[str, str], ...]:
    if listed := LIST.fullmatch(block):
        return EVERY[listed[1]]()
    item = TERM.fullmatch(block)
    return ((item[1], item[2]),) if item else ()


def _paragraph(block: str) -> str:
    if not block.startswith(FENCE):
        return block
    return literal("\n".join(block.split("\n")[1:-1]))

"""The pages of section 7 of the manual, read from Markdown into sections, and the terms of the glossary.

`dpcli man` writes the pages (commands/man.py), and `dpcli explain` prints a page or a term (lookup.py). The Markdown files of this folder
use a small part of the language: `## headings`, paragraphs, tables, fenced blocks, and lists of `- **term**: definition`. The line `<!--
list: NAME -->` is replaced by a list that lists.py makes. glossary.md and definitions.md also give the words of `dpcli explain`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files

from dpcli.document.formats.troff import ManualSection, literal
from dpcli.explain.lists import GENERATED

FENCE = "```"  # the start and the end of a block that is printed as it is
TERM = re.compile(r"- \*\*(.+?)\*\*: (.*)", re.S)
# An item with the lines that continue it, in a file that is searched as a whole.
GLOSSARY_ITEM = re.compile(r"^- \*\*(.+?)\*\*: (.+(?:\n  .+)*)", re.MULTILINE)
LIST = re.compile(r"<!-- list: ([\w-]+) -->")


@dataclass(frozen=True, slots=True)
class Topic:
    """A page of section 7. Its title is one line in lower case, without a full stop."""

    title: str
    sections: tuple[ManualSection, ...]


def read_topic(text: str) -> Topic:
    """Return the topic in a Markdown text. Its first block is the title. Text before the first heading is the description."""
    title, *blocks = _blocks(text)
    assert title.startswith("# "), title
    return Topic(title.removeprefix("# "), tuple(_sections(["## description", *blocks])))


def _blocks(text: str) -> Iterator[str]:
    """Yield the blocks of a text. A block is a fenced block, an item of a list, or a paragraph."""
    block: list[str] = []
    fenced = False
    for line in [*text.split("\n"), ""]:
        starts = not fenced and (not line or line.startswith(("- ", FENCE)))
        if starts and block:
            yield "\n".join(block)
            block = []
        if line or fenced:
            block.append(line)
        if line.startswith(FENCE):
            fenced = not fenced


def _sections(blocks: list[str]) -> Iterator[ManualSection]:
    """Yield a section for each heading. Text after a list of terms becomes a section without a title.

    In a `ManualSection` the paragraphs come before the terms, so text after them cannot stay in the same section.
    """
    title, paragraphs, terms = "", list[str](), list[tuple[str, str]]()
    for block in blocks:
        result = _terms(block)
        if block.startswith("## ") or (terms and not result):
            if title or paragraphs or terms:
                yield ManualSection(title, tuple(paragraphs), tuple(terms))
            title, paragraphs, terms = "", [], []
        if block.startswith("## "):
            title = block.removeprefix("## ")
        elif result:
            terms += result
        else:
            paragraphs.append(_paragraph(block))
    yield ManualSection(title, tuple(paragraphs), tuple(terms))


def _terms(block: str) -> tuple[tuple[str, str], ...]:
    """Return the terms of a generated list or of one item, each with its definition; () for any other block."""
    if listed := LIST.fullmatch(block):
        return GENERATED[listed[1]]()
    item = TERM.fullmatch(block)
    return ((item[1], item[2]),) if item else ()


def _paragraph(block: str) -> str:
    """Return a block as a paragraph. A table or a fenced block is literal: it is printed as it is, in lines of its own."""
    if block.startswith("| "):
        return literal(_table(block))
    return literal("\n".join(block.split("\n")[1:-1])) if block.startswith(FENCE) else block


def _table(block: str) -> str:
    """Return a table of Markdown as aligned columns, without its line of dashes."""
    head, _, *body = ([cell.strip() for cell in line.strip("|").split("|")] for line in block.split("\n"))
    widths = [max(map(len, column)) for column in zip(head, *body, strict=True)]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in (head, *body))


# The pages that have a Markdown file of their own. The page glossary is made of the terms.
WRITTEN = (
    "tutorial",
    "accountants",
    "definitions",
    "certify",
    "training",
    "federated",
    "private-prediction",
    "release",
    "ledger",
    "backup",
    "gate",
    "threats",
)
TOPICS = (*WRITTEN, "glossary")


def topic(name: str) -> Topic:
    """Return one of TOPICS, with its generated lists."""
    return _glossary() if name == "glossary" else read_topic(source(name))


def source(name: str) -> str:
    """Return the Markdown of one of TOPICS."""
    return files(__name__.rpartition(".")[0]).joinpath(f"{name}.md").read_text(encoding="utf-8")


def with_command(words: str) -> tuple[str, ...]:
    """Return the topics with an example of a command, such as `dpcli budget init`."""
    return tuple(name for name in WRITTEN if f"$ {words} " in source(name))


def _items(text: str) -> dict[str, str]:
    return {term: " ".join(explanation.split()) for term, explanation in GLOSSARY_ITEM.findall(text)}


_terms_text, _, _symbols_text = source("glossary").partition("\n## symbols\n")
TERMS = _items(_terms_text)  # the terms of differential privacy as dpcli uses them
DEFINITIONS = _items(source("definitions"))  # other definitions of privacy
SYMBOLS = _items(_symbols_text)  # the symbols of papers, and the term that explains each


def _glossary() -> Topic:
    words = "The terms of differential privacy as dpcli uses them. dpcli explain WORD prints one of them."
    symbols = "The symbols of papers, and the term that explains each."
    pages = "dpcli(1), dpcli-explain(1), dpcli-tutorial(7)"
    sections = (
        ManualSection("description", (words,)),
        ManualSection("words", terms=tuple(sorted(TERMS.items()))),
        ManualSection("symbols", (symbols,), tuple(SYMBOLS.items())),
        ManualSection("see also", (pages,)),
    )
    return Topic("the terms of differential privacy", sections)

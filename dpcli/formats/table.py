"""table: for people, in a terminal or a log."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from dpcli.document.document import Document, Table, visible
from dpcli.formats.columns import table_lines
from dpcli.formats.folded import folded

JUDGES = False
SCREEN = True
ENDINGS = ()
NEEDS: frozenset[str] = frozenset()
SHOWS = ("title", "headline", "passages", "tables", "notes")

BOLD, DIM, YELLOW, PLAIN = "1", "2", "33", ""  # what a terminal is told: ECMA-48, select graphic rendition
STYLE = {"pass": "32", "warn": YELLOW, "fail": "1;31", "unknown": "1;31", "": BOLD}

Line = tuple[str, str]  # a text and its style


def render(document: Document, width: int = 100, color: bool = False) -> str:
    """Tables and paragraphs in at most `width` columns; no escape codes unless `color`."""
    lines = ((line.rstrip(), style) for line, style in _lines(document, width))
    return "".join(f"\x1b[{style}m{line}\x1b[0m\n" if color and style and line else f"{line}\n" for line, style in lines)


def _lines(document: Document, width: int) -> Iterator[Line]:
    if document.title:
        yield from _paragraph(document.title, width, BOLD)
    yield from _paragraph(document.headline, width, STYLE[document.verdict])
    for passage in document.passages:
        yield "", PLAIN
        yield from _paragraph(passage.title, width, BOLD)
        for words in (*passage.paragraphs, *(f"- {point}" for point in passage.points)):
            yield from _paragraph(words, width)
    for table in document.tables:
        yield "", PLAIN
        yield from _table(_narrowed(table, width), width)
    if document.notes:
        yield "", PLAIN
    for note in document.notes:
        yield from _paragraph(note, width)


def _paragraph(text: str, width: int, style: str = PLAIN) -> Iterator[Line]:
    return ((line, style) for line in folded(visible(text), width))


def _table(table: Table, width: int) -> Iterator[Line]:
    if table.title:
        yield from _paragraph(table.title, width, BOLD)
    yield "", PLAIN
    for line, row in table_lines(table, width):
        yield line, BOLD if row == -1 else YELLOW if row in table.flagged else PLAIN
    yield "", PLAIN
    for note in table.footnotes:
        yield from _paragraph("  " + note, width, DIM)


def _narrowed(table: Table, width: int) -> Table:
    """Without the last column where there is no room for what is only a comment."""
    if width >= 85 or table.columns[-1] != "theorem":
        return table
    return replace(table, columns=table.columns[:-1], rows=tuple(row[:-1] for row in table.rows))

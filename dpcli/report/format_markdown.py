"""markdown: headline, tables, notes; fit for a pull-request comment."""

from __future__ import annotations

from dpcli.report.document import Document, Table, visible


def render(document: Document) -> str:
    """GitHub-flavoured tables."""
    blocks = [
        f"**{_escape(document.headline)}**",
        *map(_table, document.tables),
        *(f"> {_escape(note)}" for note in document.notes),
    ]
    return "\n\n".join(blocks) + "\n"


def _table(table: Table) -> str:
    rules = ["---:" if i in table.numeric else "---" for i in range(len(table.columns))]
    lines = [f"### {_escape(table.title)}", "", _row(table.columns), "| " + " | ".join(rules) + " |", *map(_row, table.rows)]
    return "\n".join(lines + [f"\n{_escape(note)}" for note in table.footnotes])


def _row(cells: tuple[str, ...]) -> str:
    return "| " + " | ".join(_escape(cell) for cell in cells) + " |"


def _escape(text: str) -> str:
    text = visible(text)
    for character in "\\`*_<>|[]":
        text = text.replace(character, "\\" + character)
    return text

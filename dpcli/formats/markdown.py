"""markdown: headline, tables, notes; fit for a pull-request comment."""

from __future__ import annotations

from dpcli.document.document import Document, Passage, Table, visible

JUDGES = False
ENDINGS = (".md",)
NEEDS: frozenset[str] = frozenset()
SHOWS = ("title", "headline", "passages", "tables", "notes")


def render(document: Document) -> str:
    """GitHub-flavoured tables."""
    blocks = [
        *([f"<!-- {document.marker} -->"] if document.marker else []),
        *([f"# {escape(document.title)}"] if document.title else []),
        f"**{escape(document.headline)}**",
        *map(_passage, document.passages),
        *map(table, document.tables),
        *(f"> {escape(note)}" for note in document.notes),
    ]
    return "\n\n".join(blocks) + "\n"


def _passage(passage: Passage) -> str:
    points = ["\n".join(f"- {escape(point)}" for point in passage.points)] if passage.points else []
    return "\n\n".join([f"## {escape(passage.title)}", *map(escape, passage.paragraphs), *points])


def table(table: Table) -> str:
    """A table under its title; a folded one to be opened by it."""
    rules = ["---:" if i in table.numeric else "---" for i in range(len(table.columns))]
    lines = [_row(table.columns), "| " + " | ".join(rules) + " |", *map(_row, table.rows)]
    body = "\n".join(lines + [f"\n{escape(note)}" for note in table.footnotes])
    if table.folded:
        return f"<details><summary>{escape(table.title)}</summary>\n\n{body}\n\n</details>"
    return f"### {escape(table.title)}\n\n{body}"


def _row(cells: tuple[str, ...]) -> str:
    return "| " + " | ".join(escape(cell) for cell in cells) + " |"


def escape(text: str) -> str:
    """Text that shows as it stands, on one line."""
    text = visible(text)
    for character in "\\`*_<>|[]~":
        text = text.replace(character, "\\" + character)
    # An "@name" out of a file must not send anybody a notification.
    return text.replace("&", "&amp;").replace("@", "@<!-- -->")

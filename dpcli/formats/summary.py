"""summary: markdown for a job's summary page, such as the file that GITHUB_STEP_SUMMARY names; appended to what is there."""

from __future__ import annotations

from dpcli.document.document import Document
from dpcli.formats import markdown as format_markdown

JUDGES = True
APPENDED = True
ENDINGS = ()


def render(document: Document) -> str:
    """Headline, tables, notes; what is folded opens on a click."""
    blocks = [
        f"## {format_markdown.escape(document.headline)}",
        *map(format_markdown.table, document.tables),
        *(f"> {format_markdown.escape(note)}" for note in document.notes),
    ]
    return "\n\n".join(blocks) + "\n\n"

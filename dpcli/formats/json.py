"""json: the machine form, indented."""

from __future__ import annotations

from dpcli.document.document import Document, json_text

JUDGES = False
ENDINGS = (".json",)
NEEDS: frozenset[str] = frozenset()
SHOWS = ("data",)


def render(document: Document) -> str:
    """One object; infinities are strings."""
    return json_text(document.data, indent=2) + "\n"

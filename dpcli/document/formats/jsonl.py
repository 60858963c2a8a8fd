"""The format jsonl: one JSON object on each line, for log collectors and line by line processing.

A line is a record of the document, such as an accountant, a file or a finding. A document without records is one line with all its data.
"""

from __future__ import annotations

from collections.abc import Iterator

from dpcli.document.document import Document, json_text

# Properties of the format. facts.py explains each constant and reads it by its name.
CI_READS_VERDICT = False
PATH_ENDINGS = (".jsonl",)
REQUIRED_FIELDS: frozenset[str] = frozenset()
COMPLETE_FIELDS = ("records",)


def render(document: Document) -> str:
    """Return the lines."""
    return "".join(stream(document))


def stream(document: Document) -> Iterator[str]:
    """Yield the pieces of `render`."""
    for record in document.records or [document.data]:
        yield json_text(record) + "\n"

"""jsonl: one line for each record (accountant, file, finding), or one line with all JSON data.

A record is an object of `Document.records`, which each command chooses for programs that read line by line.
"""

from __future__ import annotations

from collections.abc import Iterator

from dpcli.document.document import Document, json_text

# Properties of the format, which facts.py reads by name.
CI_READS_VERDICT = False
PATH_ENDINGS = (".jsonl",)
COMPLETE_FIELDS = ("records",)  # shown in full


def render(document: Document) -> str:
    """Return the records, or the data of a document without records, as lines of JSON."""
    return "".join(stream(document))


def stream(document: Document) -> Iterator[str]:
    """Yield the pieces of `render`."""
    for record in document.records or [document.data]:
        yield json_text(record) + "\n"

"""text: one plain line for each finding, then the headline, for logs."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from dpcli.document.document import Document, visible

# Properties of the format. facts.py explains each constant and reads it by its name.
CI_READS_VERDICT = False
PATH_ENDINGS = (".txt",)
REQUIRED_FIELDS: frozenset[str] = frozenset()
COMPLETE_FIELDS = ("findings", "log", "headline", "details")


def render(document: Document) -> str:
    """Return the findings as `file:line:column: level rule: message`, followed by log lines, headline and details."""
    return "".join(stream(document))


def stream(document: Document) -> Iterator[str]:
    """Yield the pieces of `render`."""
    lines = (f"{f.path}{f':{f.line}:{f.column}' if f.line else ''}: {f.level} {f.rule}: {f.message}" for f in document.findings)
    for line in chain(lines, document.log, (document.headline,), document.details):
        yield visible(line) + "\n"

"""text: one line per finding, then the headline; plain, for logs."""

from __future__ import annotations

from dpcli.document.document import Document, visible

JUDGES = False
ENDINGS = (".txt",)
NEEDS: frozenset[str] = frozenset()
SHOWS = ("findings", "log", "headline", "details")


def render(document: Document) -> str:
    """Findings as `file:line:column: level rule: message`."""
    lines = [f"{f.path}{f':{f.line}:{f.column}' if f.line else ''}: {f.level} {f.rule}: {f.message}" for f in document.findings]
    return "\n".join(map(visible, [*lines, *document.log, document.headline, *document.details])) + "\n"

"""text: one plain line for each finding, then the headline, for logs.

A *finding* is an error or a warning about a place in a file. Its line is file:line:column: level rule: message, the form of compilers, at
which editors jump to the place. The *headline* is the sentence that answers the user's question; details follow it.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from dpcli.document.document import Document, Finding, visible

# Properties of the format, which facts.py reads by name.
CI_READS_VERDICT = False
PATH_ENDINGS = (".txt",)
COMPLETE_FIELDS = ("findings", "log", "headline", "details")  # shown in full


def render(document: Document) -> str:
    """Return one line for each finding, followed by the lines of the log, the headline and the details."""
    return "".join(stream(document))


def stream(document: Document) -> Iterator[str]:
    """Yield the pieces of `render`."""
    for line in chain(map(_line, document.findings), document.log, (document.headline,), document.details):
        yield visible(line) + "\n"


def _line(finding: Finding) -> str:
    """Return the line of a finding. Line and column are left out if it has no place in the file."""
    place = f":{finding.line}:{finding.column}" if finding.line else ""
    return f"{finding.path}{place}: {finding.level} {finding.rule}: {finding.message}"

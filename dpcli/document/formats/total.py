"""total: the single number of a result, for scripts.

For example: epsilon=$(dpcli account train.toml -f total). Only commands whose documents may have a number offer it (REQUIRED_FIELDS).
"""

from __future__ import annotations

from dpcli.base.errors import InputError
from dpcli.document.document import Document

# Properties of the format, which facts.py reads by name.
CI_READS_VERDICT = False
REQUIRED_FIELDS = frozenset({"total"})  # of a document that can be shown
COMPLETE_FIELDS = ("total",)  # shown in full


def render(document: Document) -> str:
    """Return the number on a line. Raises InputError if the document has none."""
    if document.total is None:
        raise InputError("format total: this command has no single number")
    return document.total + "\n"

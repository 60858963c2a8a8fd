"""total: the bare number, for scripts."""

from __future__ import annotations

from dpcli.base.errors import InputError
from dpcli.document.document import Document

JUDGES = False
ENDINGS = ()
NEEDS = frozenset({"total"})
SHOWS = ("total",)


def render(document: Document) -> str:
    """Return the headline's upper bound, unrounded."""
    if document.total is None:
        raise InputError("format total: this command has no single number")
    return document.total + "\n"

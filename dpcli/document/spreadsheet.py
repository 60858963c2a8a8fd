"""Texts that go into a spreadsheet."""

from __future__ import annotations

from dpcli.document.document import visible


def safe(text: str) -> str:
    """A text that no spreadsheet runs as a formula."""
    text = visible(text)
    return "'" + text if text[:1] in ("=", "+", "@", "\t", "\r") or (text[:1] == "-" and text != "-") else text

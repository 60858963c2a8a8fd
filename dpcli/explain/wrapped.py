"""Text in lines of one width."""

from __future__ import annotations

import textwrap

WIDTH = 100


def filled(text: str) -> str:
    """Each paragraph in lines of its own."""
    return "\n\n".join(textwrap.fill(" ".join(paragraph.split()), WIDTH) for paragraph in text.strip().split("\n\n"))


def hanging(text: str) -> str:
    """One entry of a list, its further lines set in."""
    return textwrap.fill(text, WIDTH, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False)

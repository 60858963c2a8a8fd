"""Text in lines of at most so many cells of a screen: broken between words, and inside those that are longer than a line."""

from __future__ import annotations

import re
from collections.abc import Iterator

_WORD = re.compile(r"\s*\S+\s*")


def cells(text: str) -> int:
    """How many cells of a screen a text takes: letters of East Asia take two, marks over letters none."""
    return len(text) if text.isascii() else sum(map(_cells_of, text))


def _cells_of(letter: str) -> int:
    import unicodedata

    if unicodedata.category(letter) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(letter) in "WF" else 1


def folded(text: str, width: int) -> list[str]:
    """The lines, without the spaces between them; one, if empty, where there is no text."""
    if cells(text) <= width:
        return [text]
    lines = [""]
    for word in _WORD.findall(text) or [text]:
        bare = word.rstrip()
        if cells(lines[-1]) + cells(bare) <= width:
            lines[-1] += word
        elif cells(bare) > width:
            lines += _chopped(word, width)
        else:
            lines.append(word)
    return [line.rstrip() for line in (lines if lines[0] else lines[1:])]


def _chopped(word: str, width: int) -> Iterator[str]:
    line = ""
    for letter in word:
        if line and cells(line) + cells(letter) > width:
            yield line
            line = ""
        line += letter
    yield line

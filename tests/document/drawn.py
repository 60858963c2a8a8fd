"""Geometry and colours of charts, for tests of pictures: the boxes of words, and the luminance of colours."""

from __future__ import annotations

from dpcli.document.charts.labels import Box, text_width
from dpcli.document.charts.shapes import Words

SVG = "{http://www.w3.org/2000/svg}"


def boxes(found: list[Words]) -> list[Box]:
    """Return the boxes that the words cover, slightly smaller than their estimated size."""
    covered = []
    for words in found:
        width = 0.8 * text_width(words.text, words.size)
        left = words.at[0] - {"start": 0.0, "middle": 0.5, "end": 1.0}[words.anchor] * width
        covered.append(Box(left, words.at[1] - 0.7 * words.size, left + width, words.at[1]))
    return covered


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255.0 for i in (1, 3, 5)]
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue

"""A canvas of character cells, on which terminal.py draws the lines, dots and words of a chart.

Curves are made of braille characters, each of which is a grid of 2 x 4 dots, or of ASCII characters if the output cannot encode braille.
A cell has one colour: that of what is drawn in it first, or of the text that covers it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from dpcli.document.chart import Tone
from dpcli.document.charts.shapes import TERMINAL

# Bits of the dots of a braille character (U+2800), by row and column.
BRAILLE = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))


@dataclass(frozen=True, slots=True)
class Glyphs:
    """The characters that draw a chart.

    across, down: number of dots in a character cell in each direction.
    dots: function that returns the character for a set of dots, given as bits.
    upright, corner, level: characters of the axes.
    marker: character of a marked point. block: character of a bar.
    """

    across: int
    down: int
    dots: Callable[[int], str]
    upright: str
    corner: str
    level: str
    marker: str
    block: str

    def drawable(self, encoding: str) -> bool:
        """Return whether an encoding has all these characters."""
        try:
            "".join((self.dots(0xFF), self.upright, self.corner, self.level, self.marker, self.block)).encode(encoding)
        except (UnicodeEncodeError, LookupError):
            return False
        return True


UNICODE = Glyphs(2, 4, lambda bits: chr(0x2800 + bits), "│", "└", "─", "●", "█")
ASCII = Glyphs(1, 2, lambda bits: {0x01: "'", 0x02: ".", 0x03: ":"}.get(bits & 0x03, "*"), "|", "+", "-", "O", "#")


def glyphs_for(encoding: str) -> Glyphs:
    """Return braille characters if the encoding has them, otherwise ASCII characters."""
    return UNICODE if UNICODE.drawable(encoding) else ASCII


@dataclass(slots=True)
class Canvas:
    """A canvas of character cells, addressed by (row, column). Text covers dots."""

    columns: int
    rows: int
    glyphs: Glyphs
    bits: dict[tuple[int, int], int] = field(default_factory=dict)
    tones: dict[tuple[int, int], Tone] = field(default_factory=dict)
    text: dict[tuple[int, int], str] = field(default_factory=dict)

    def line(self, start: tuple[float, float], end: tuple[float, float], tone: Tone, dashed: bool = False) -> None:
        """Draw a straight line between two points in units of cells. x increases to the right, and y downwards."""
        across, down = end[0] - start[0], end[1] - start[1]
        dots = max(abs(across) * self.glyphs.across, abs(down) * self.glyphs.down)
        parts = 2 * max(1, round(dots))  # two for each dot, so that no dot is missed
        for i in range(parts + 1):
            x, y = start[0] + across * i / parts, start[1] + down * i / parts
            # Two dots, then a gap of two. The place of a point decides, so that the dashes go on from one segment of a curve to the next.
            is_gap = dashed and int(x * self.glyphs.across + y * self.glyphs.down) % 4 >= 2
            if not is_gap:
                self.dot(x, y, tone)

    def dot(self, x: float, y: float, tone: Tone) -> None:
        """Draw a dot, unless it lies outside."""
        across, down = int(x * self.glyphs.across), int(y * self.glyphs.down)
        column, row = across // self.glyphs.across, down // self.glyphs.down
        if 0 <= column < self.columns and 0 <= row < self.rows and x >= 0.0 and y >= 0.0:
            bit = BRAILLE[down % self.glyphs.down][across % self.glyphs.across]
            self.bits[row, column] = self.bits.get((row, column), 0) | bit
            self.tones.setdefault((row, column), tone)

    def write(self, row: int, column: int, words: str, tone: Tone | None = None) -> None:
        """Write text over everything else. Text beyond the edges is cut."""
        for i, character in enumerate(words):
            if 0 <= column + i < self.columns and 0 <= row < self.rows:
                self.text[row, column + i] = character
                self.tones.pop((row, column + i), None)
                if tone is not None:
                    self.tones[row, column + i] = tone

    def lines(self, color: bool) -> list[str]:
        """Return the rows as text, with ANSI colour codes if `color` is true."""
        return [self._row(row, color).rstrip() for row in range(self.rows)]

    def _row(self, row: int, color: bool) -> str:
        """Return a row as text. A colour code is written only where the colour changes."""
        parts: list[str] = []
        current: Tone | None = None
        for column in range(self.columns):
            character = self._character(row, column)
            tone = self.tones.get((row, column)) if color and character != " " else None
            if tone is not current:
                parts.append(_switch(current, tone))
                current = tone
            parts.append(character)
        return "".join((*parts, _switch(current, None)))

    def _character(self, row: int, column: int) -> str:
        """Return the character of a cell: its text or, without text, its dots; a space if it has neither."""
        place = row, column
        if place in self.text:
            return self.text[place]
        return self.glyphs.dots(self.bits[place]) if place in self.bits else " "


def _switch(current: Tone | None, tone: Tone | None) -> str:
    """Return the ANSI codes that end a colour and begin another one; None is no colour."""
    end = "" if current is None else "\x1b[0m"
    return end if tone is None else f"{end}\x1b[{TERMINAL[tone]}m"

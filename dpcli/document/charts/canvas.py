"""Drawing with characters: small dots within cells, text over them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from dpcli.document.chart import Tone
from dpcli.document.charts.colours import TERMINAL

# Bits of the dots of a braille character (U+2800), by row and column.
BRAILLE = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))


@dataclass(frozen=True, slots=True)
class Glyphs:
    """The characters of one alphabet: `across` by `down` dots in a cell."""

    across: int
    down: int
    dots: Callable[[int], str]
    upright: str
    corner: str
    level: str
    marker: str
    block: str

    def drawable(self, encoding: str) -> bool:
        """Whether an encoding has all of them."""
        try:
            (self.dots(0xFF) + self.upright + self.corner + self.level + self.marker + self.block).encode(encoding)
        except (UnicodeEncodeError, LookupError):
            return False
        return True


UNICODE = Glyphs(2, 4, lambda bits: chr(0x2800 + bits), "│", "└", "─", "●", "█")
ASCII = Glyphs(1, 2, lambda bits: {0x01: "'", 0x02: ".", 0x03: ":"}.get(bits & 0x03, "*"), "|", "+", "-", "O", "#")


def glyphs(encoding: str) -> Glyphs:
    """Braille where the output can show it, else plain ASCII."""
    return UNICODE if UNICODE.drawable(encoding) else ASCII


@dataclass(slots=True)
class Canvas:
    """Cells by (row, column): dots below text."""

    columns: int
    rows: int
    glyphs: Glyphs
    bits: dict[tuple[int, int], int] = field(default_factory=dict)
    tones: dict[tuple[int, int], Tone] = field(default_factory=dict)
    text: dict[tuple[int, int], str] = field(default_factory=dict)

    def line(self, start: tuple[float, float], end: tuple[float, float], tone: Tone, dashed: bool = False) -> None:
        """A straight line between two points in cells (x to the right, y downwards)."""
        parts = 2 * max(1, round(max(abs(end[0] - start[0]) * self.glyphs.across, abs(end[1] - start[1]) * self.glyphs.down)))
        for i in range(parts + 1):
            x, y = start[0] + (end[0] - start[0]) * i / parts, start[1] + (end[1] - start[1]) * i / parts
            if not dashed or int(x * self.glyphs.across + y * self.glyphs.down) % 4 < 2:
                self.dot(x, y, tone)

    def dot(self, x: float, y: float, tone: Tone) -> None:
        """One dot; what lies outside is not drawn."""
        across, down = int(x * self.glyphs.across), int(y * self.glyphs.down)
        column, row = across // self.glyphs.across, down // self.glyphs.down
        if 0 <= column < self.columns and 0 <= row < self.rows and x >= 0.0 and y >= 0.0:
            bit = BRAILLE[down % self.glyphs.down][across % self.glyphs.across]
            self.bits[row, column] = self.bits.get((row, column), 0) | bit
            self.tones.setdefault((row, column), tone)

    def write(self, row: int, column: int, words: str, tone: Tone | None = None) -> None:
        """Text over whatever is there, cut at the edges."""
        for i, character in enumerate(words):
            if 0 <= column + i < self.columns and 0 <= row < self.rows:
                self.text[row, column + i] = character
                self.tones.pop((row, column + i), None)
                if tone is not None:
                    self.tones[row, column + i] = tone

    def lines(self, color: bool) -> list[str]:
        """The rows as text, with escape codes only where `color`."""
        return [self._row(row, color).rstrip() for row in range(self.rows)]

    def _row(self, row: int, color: bool) -> str:
        parts, current = [], None
        for column in range(self.columns):
            place = row, column
            character = self.text.get(place) or (self.glyphs.dots(self.bits[place]) if place in self.bits else " ")
            tone = self.tones.get(place) if color and character != " " else None
            if tone is not current:
                parts.append(("\x1b[0m" if current is not None else "") + (f"\x1b[{TERMINAL[tone]}m" if tone is not None else ""))
                current = tone
            parts.append(character)
        return "".join(parts) + ("\x1b[0m" if current is not None else "")

"""terminal: a chart as text, in braille dots, or in ASCII if the output cannot encode braille.

Curves are drawn in braille characters, each of which is a grid of 2 x 4 dots, or in ASCII if the output cannot encode braille. A `Canvas`
has the characters of one area; a plot is drawn on a canvas of its own, which is then copied between the axis on the left and the names on
the right. Labels are placed by labels.py as in the other formats, with the cells of the screen converted to its pixels.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from dpcli.document.chart import Bar, Chart, Grid, Line, Square, Tone
from dpcli.document.charts.labels import Block, Box, Point, along, dense, named_at_end, place, place_within, spread
from dpcli.document.charts.shapes import TERMINAL
from dpcli.document.charts.ticks import Tick, ticks
from dpcli.document.document import visible

# Bits of the dots of a braille character (U+2800), by row and column.
BRAILLE = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))

EMPTY, CLOSED, LAST = ".", "x", "#"  # characters of squares without a value, of closed squares, and of squares at the last step
APART = 2  # distance of squares in columns of the screen

ROWS = 20  # height of a plot, in lines
ACROSS, DOWN = 8.0, 16.0  # width and height of a cell in the pixels of labels.py
NAMES = 24  # largest number of columns for the names at the ends of lines

At = Callable[[float, float], Point]  # function that returns the position of a point of the chart in cells


@dataclass(frozen=True, slots=True)
class Glyphs:
    """The characters that draw a chart.

    across, down: number of dots in a character cell in each direction.
    dots: function that returns the character for a set of dots.
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
        parts = 2 * max(1, round(dots))
        for i in range(parts + 1):
            x, y = start[0] + across * i / parts, start[1] + down * i / parts
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
        place = row, column
        if place in self.text:
            return self.text[place]
        return self.glyphs.dots(self.bits[place]) if place in self.bits else " "


def _switch(current: Tone | None, tone: Tone | None) -> str:
    """Return the ANSI codes that end a colour and begin another one; None is no colour."""
    end = "" if current is None else "\x1b[0m"
    return end if tone is None else f"{end}\x1b[{TERMINAL[tone]}m"


def grid_lines(grid: Grid, width: int) -> list[str]:
    """Return a grid and its legend. On a narrow screen the left columns are left out, which are the oldest blocks of a ledger."""
    legend = textwrap.wrap(_legend(grid), width)
    body = _list(grid, width) if grid.named else _rows(grid, width)
    return [*body, "", *legend]


def mark(grid: Grid, square: Square) -> str:
    """Return the character of a square."""
    if square.closed:
        return CLOSED
    if square.value is None:
        return EMPTY
    return LAST if grid.marked(square) else str(grid.step(square.value))


def _list(grid: Grid, width: int) -> list[str]:
    """Return a line for each square, for a grid whose squares have names."""
    labels = [visible(square.label) for square in grid.squares]
    wide = min(max(map(len, labels), default=0), width // 2)
    lines = []
    for square, label in zip(grid.squares, labels, strict=True):
        line = f"{mark(grid, square)} {label[:wide]:{wide}}  {visible(square.printed)}"
        lines.append(line[:width])
    return lines


def _rows(grid: Grid, width: int) -> list[str]:
    """Return the rows of a grid. A square takes two columns of the screen if there is room, otherwise one."""
    left = max((len(visible(heading.text)) for heading in grid.headings if heading.column < 0), default=0) + 1
    apart = APART if left + APART * grid.columns <= width else 1
    hidden = max(0, grid.columns - (width - left) // apart)
    lines = [[" "] * width for _ in range(grid.rows)]
    free = [left] * grid.rows  # for each row, the first column of the screen behind the last heading
    for heading in sorted(grid.headings, key=lambda heading: heading.column):
        words, row = visible(heading.text), heading.row
        if heading.column < 0:
            start = left - 1 - len(words)
            lines[row][start : start + len(words)] = words
            continue
        start = left + apart * (heading.column - hidden)
        if free[row] <= start and start + len(words) <= width:
            lines[row][start : start + len(words)] = words
            free[row] = start + len(words) + 1
    for square in grid.squares:
        if square.column >= hidden:
            lines[square.row][left + apart * (square.column - hidden)] = mark(grid, square)
    rows = ["".join(line).rstrip() for line in lines]
    if not hidden:
        return rows
    columns = "1 column on the left is" if hidden == 1 else f"{hidden} columns on the left are"
    return rows + _wrapped(f"({columns} not shown: the screen is too narrow)", width)


def _legend(grid: Grid) -> str:
    marks = [*map(str, range(len(grid.steps) - 1)), LAST]
    steps = [f"{step_mark}: {words}" for step_mark, (_, words) in zip(marks, grid.steps, strict=True)]
    return ", ".join([f"{EMPTY}: {grid.empty}", *steps, f"{CLOSED}: {grid.closed}"])


def render(chart: Chart, width: int = 100, color: bool = False, encoding: str = "utf-8", **_: object) -> str:
    """Return the chart as text in at most `width` columns, with the notes below it.

    width: number of columns of the screen; at least 40 are used.
    color: whether to use ANSI colour codes.
    encoding: encoding of the output. A character that it does not have, say in a title, becomes "?".
    """
    glyphs, width = glyphs_for(encoding), max(width, 40)
    if chart.grid is not None:
        body = grid_lines(chart.grid, width)
    elif chart.bars:
        body = _bars(chart, width, glyphs, color)
    else:
        body = _plane(chart, width, glyphs, color)
    head = [*_wrapped(chart.title, width), *_wrapped(chart.subtitle, width), ""]
    if color:
        head[0] = f"\x1b[1m{head[0]}\x1b[0m"
    lines = [*head, *body, ""]
    for note in chart.notes:
        lines += _wrapped(note, width, "  ")
    return "\n".join(lines).rstrip().encode(encoding, "replace").decode(encoding) + "\n"


def _wrapped(text: str, width: int, indent: str = "") -> list[str]:
    return textwrap.wrap(visible(text), width, subsequent_indent=indent)


def _plane(chart: Chart, width: int, glyphs: Glyphs, color: bool) -> list[str]:
    """Return a chart with two axes: the title of y, the plot with names on its right, and the x axis."""
    marks = ticks(chart.y, 7)
    left = max((len(words) for _, words in marks), default=0) + 1
    named = named_at_end(chart)
    names = [_wrapped(line.label, min(NAMES, width // 4)) for line in named]
    right = max((len(part) + 1 for block in names for part in block), default=0)
    columns = width - left - right - 1
    canvas = Canvas(width, ROWS, glyphs)
    inside = Canvas(columns, ROWS, glyphs)

    def at(x: float, y: float) -> Point:
        return chart.x.share(x) * (columns - 0.01), (1.0 - chart.y.share(y)) * (ROWS - 0.01)

    _draw(inside, chart, at)
    _write_labels(inside, chart, at, named)
    _copy(inside, canvas, left + 1)
    _write_y_axis(canvas, chart, marks, left, glyphs)
    _end_names(canvas, named, names, [at(*line.points[-1])[1] for line in named], left + 1 + columns + 1)
    return [visible(chart.y.title), *canvas.lines(color), *_foot(chart, left, columns, glyphs)]


def _draw(canvas: Canvas, chart: Chart, at: At) -> None:
    for line in chart.lines:
        for start, end in pairwise([at(x, y) for x, y in line.points]):
            canvas.line(start, end, line.tone, line.dashed)
    for span in chart.spans:
        canvas.line(at(span.x, span.low), at(span.x, span.high), span.tone)
    for cloud in chart.clouds:
        for point in cloud.points:
            canvas.dot(*at(*point), cloud.tone)


def _write_labels(canvas: Canvas, chart: Chart, at: At, named: tuple[Line, ...]) -> None:
    """Write markers with their labels, and the names of bands and of lines that are not named at their ends."""
    paths = [_in_pixels(dense([at(*point) for point in line.points], 0.5)) for line in chart.lines]
    labels = _Labels(canvas, [point for path in paths for point in path])
    for marker in chart.markers:
        x, y = at(marker.x, marker.y)
        canvas.write(min(int(y), ROWS - 1), min(int(x), canvas.columns - 1), canvas.glyphs.marker, marker.tone)
        labels.write_near(_in_pixels([(x, y)]), marker.label, marker.tone)
    for band in chart.bands:  # bands come before lines, whose names have more possible places
        polygon = [at(*point) for point in (*band.lower, *reversed(band.upper))]
        labels.write_inside(_in_pixels(polygon), band.label)
    for line, path in sorted(zip(chart.lines, paths, strict=True), key=lambda pair: -len(pair[0].label)):
        if line not in named:
            labels.write_near(along(path), line.label, line.tone, path)


def _in_pixels(points: Sequence[Point]) -> list[Point]:
    """Return points in cells as points in the pixels of labels.py."""
    return [(x * ACROSS, y * DOWN) for x, y in points]


@dataclass(frozen=True, slots=True)
class _Labels:
    """The labels in a plot. Points and boxes are in the pixels of labels.py.

    ink: points of all lines.
    taken: boxes of the labels that were written.
    """

    canvas: Canvas
    ink: list[Point]
    taken: list[Box] = field(default_factory=list)

    @property
    def frame(self) -> Box:
        return Box(0.0, 0.0, self.canvas.columns * ACROSS, self.canvas.rows * DOWN)

    def write_near(self, anchors: list[Point], label: str, tone: Tone, own: Sequence[Point] = ()) -> None:
        """Write a label near one of its anchors, over as few dots as possible. own: points of the line that is named."""
        block = _wrapped(label, max(self.canvas.columns * 9 // 20, 12))
        # The box has an empty cell around the label.
        width, height = (max(map(len, block)) + 2) * ACROSS, (len(block) + 0.5) * DOWN
        box, _ = place(anchors, width, height, self.frame, self.taken, self.ink, own)
        self.taken.append(box)
        row, column = round(max(box.top, 0.0) / DOWN), round(max(box.left, 0.0) / ACROSS) + 1
        for i, part in enumerate(block):
            self.canvas.write(row + i, column, part, tone)

    def write_inside(self, polygon: list[Point], label: str) -> None:
        """Write the name of a region inside it. A name that does not fit is left out."""

        def size(block: Block) -> Point:
            return max(map(len, block)) * ACROSS, len(block) * DOWN

        placed = place_within(polygon, visible(label), size, (ACROSS, DOWN), self.frame, self.taken, self.ink)
        if placed is None:
            return
        self.taken.append(placed.box)
        row, column = round(placed.box.top / DOWN), round(placed.box.left / ACROSS)
        for i, part in enumerate(placed.block):
            self.canvas.write(row + i, column, part)


def _copy(source: Canvas, target: Canvas, column: int) -> None:
    """Copy a canvas into another one, so that its left edge is at a column."""
    target.bits = {(row, column + inner): bits for (row, inner), bits in source.bits.items()}
    target.text = {(row, column + inner): text for (row, inner), text in source.text.items()}
    target.tones = {(row, column + inner): tone for (row, inner), tone in source.tones.items()}


def _write_y_axis(canvas: Canvas, chart: Chart, marks: Sequence[Tick], left: int, glyphs: Glyphs) -> None:
    for row in range(ROWS):
        canvas.write(row, left, glyphs.upright)
    for value, words in marks:
        row = min(int((1.0 - chart.y.share(value)) * (ROWS - 0.01)), ROWS - 1)
        canvas.write(row, left - 1 - len(words), words)


def _end_names(canvas: Canvas, lines: tuple[Line, ...], names: list[list[str]], ends: list[float], column: int) -> None:
    """Write the names of lines at a column, each at the row where its line ends, moved apart where they would touch."""
    tall = max((len(block) for block in names), default=1)
    rows = spread([end - 0.5 * (len(block) - 1) for end, block in zip(ends, names, strict=True)], tall, 0.0, ROWS - tall)
    for line, block, row in zip(lines, names, rows, strict=True):
        for i, part in enumerate(block):
            canvas.write(int(row) + i, column, part, line.tone)


def _foot(chart: Chart, left: int, columns: int, glyphs: Glyphs) -> list[str]:
    """Return the lines of the horizontal axis: the line, the numbers that do not touch each other, and the title."""
    numbers = [" "] * (left + 1 + columns)
    free = 0
    for value, words in ticks(chart.x, max(3, columns // 9)):
        start = max(left + 1 + round(chart.x.share(value) * (columns - 1)) - len(words) // 2, 0)
        start = min(start, len(numbers) - len(words))
        if start >= free:
            numbers[start : start + len(words)] = words
            free = start + len(words) + 1
    title = visible(chart.x.title)
    return [" " * left + glyphs.corner + glyphs.level * columns, "".join(numbers).rstrip(), title.center(left + columns).rstrip()]


def _bars(chart: Chart, width: int, glyphs: Glyphs, color: bool) -> list[str]:
    """Return a chart of bars, the one with the largest position on top. A positive value has at least one block."""
    left = max(len(visible(bar.name)) for bar in chart.bars)
    right = max(len(bar.label) for bar in chart.bars)
    columns = max(width - left - right - 4, 8)

    def row(bar: Bar) -> str:
        share = min(max(chart.x.share(bar.value), 0.0), 1.0)
        least = 1 if bar.value > 0.0 else 0
        length = max(round(share * columns), least)
        drawn = Canvas(columns + 1, 1, glyphs)
        drawn.write(0, 0, glyphs.block * length, bar.tone)
        return f"{visible(bar.name):>{left}} {glyphs.upright}{drawn.lines(color)[0]} {bar.label}"

    ordered = sorted(chart.bars, key=lambda bar: -bar.position)
    return [*(row(bar) for bar in ordered), *_foot(chart, left + 1, columns, glyphs)]
